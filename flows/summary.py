"""What a night came to: the report of ``forge night --json``, and the same for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge.host import wall_clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flows.conduct import OpenNight
    from flows.standing import Standing


_FIGURES = ("speedup", "lower", "upper", "rival", "rival_speedup", "roof_share")


def night_report(night: OpenNight, standings: Sequence[Standing]) -> dict[str, Any]:
    """Return what the night came to; counts and charges are the ledger's own."""
    recorded = night.parts.ledger.query("night", night_id=night.parts.night)
    return {
        "night": night.parts.night,
        "started": night.started.isoformat(),
        "ended": wall_clock().isoformat(),
        "slots": [slot_row(standing) for standing in standings],
        "candidates": recorded["candidates"],
        "spent": recorded["spent"],
    }


def slot_row(standing: Standing) -> dict[str, Any]:
    """Return how a slot stands; one that was never sealed is its own generation 0, at 1.0."""
    speedup = standing.speedup
    return {
        "task": standing.slot.task,
        "target": standing.slot.target,
        "generation_before": standing.generation_before,
        "generation_after": standing.generation,
        "speedup": speedup.point if speedup else 1.0,
        "lower": speedup.lower if speedup else 1.0,
        "upper": speedup.upper if speedup else 1.0,
        "rival": standing.rival or None,
        "rival_speedup": standing.rival_speedup,
        "roof_share": standing.roof_share,
    }


def standing_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the ledger's ``status`` rows in the shape of a night's: nothing has changed since."""
    return [
        {
            "task": row["task"],
            "target": row["target"],
            "generation_before": row["generation"],
            "generation_after": row["generation"],
            **{name: row[name] for name in _FIGURES},
        }
        for row in rows
    ]


def report_text(report: Mapping[str, Any]) -> str:
    """Return a night's report for a person: what was sealed, and what became of the rest."""
    sealed = [s for s in report["slots"] if s["generation_after"] > s["generation_before"]]
    lines = [slot_text(slot) for slot in sealed]
    counts, spent = report["candidates"], report["spent"]
    names = ("proposed", "sealed", "rejected", "inconclusive", "waiting", "superseded")
    told = ", ".join(f"{counts[name]} {name}" for name in (*names, "abandoned"))
    faults = f"; {counts['faults']} faults" if counts["faults"] else ""
    lines.append(
        f"Night {report['night']}: {len(sealed)} of {len(report['slots'])} slots have a faster "
        f"kernel. Candidates: {told}{faults}. It took {spent['wall_s']:.0f} s, of which "
        f"{spent['device_s']:.0f} s were spent measuring."
    )
    return "\n".join(lines)


def slot_text(slot: Mapping[str, Any]) -> str:
    """Return one sealed slot in a line; a rival that is faster is told as plainly as our own."""
    line = (
        f"{slot['task']}/{slot['target']}: generation {slot['generation_after']}, "
        f"{slot['speedup']:.2f}x over generation 0 [{slot['lower']:.2f}, {slot['upper']:.2f}]"
    )
    if slot["rival"]:
        over = slot["rival_speedup"]
        line += f"; {slot['rival']} is {'faster' if over > 1 else 'slower'} ({over:.2f}x of it)"
    if slot["roof_share"] is not None:
        line += f"; {slot['roof_share']:.0%} of the roof"
    return line
