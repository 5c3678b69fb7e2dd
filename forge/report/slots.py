"""How slots stand, how they came there, and what a night came to, as plain text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from forge.report.plot import (
    CELLS_PER_DOUBLING,
    bar,
    gain_bar,
    gain_ruler,
    interval_plot,
    scale_for,
)
from forge.report.table import columns, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge.report.shapes import CandidateCounts, HistoryRow, NightReport, SlotRow, Spent

_COMMIT = 12
NOT_TIMED = "not timed"
_LEGEND = (
    "speedup: over generation 0, weighted mean over the workloads, with its 95 % interval",
    "roof, rival: at the heaviest workload alone; the roof is the most this machine can do",
)


def status_text(rows: Sequence[SlotRow]) -> str:
    """Return every slot on a line: its generation, its speedup on one scale, rival and roof."""
    if not rows:
        return "No slot has a baseline yet; forge night makes them."
    targets = sorted({row.target for row in rows})
    blocks = [_target_block(target, [r for r in rows if r.target == target]) for target in targets]
    return "\n\n".join(["\n".join(_LEGEND), *blocks])


def _target_block(target: str, rows: Sequence[SlotRow]) -> str:
    scale = scale_for([bound for row in rows for bound in (row.lower, row.upper)], width=24)
    cells = [["task", "generation", "speedup", scale.ruler(), "of the roof", "beside its rival"]]
    cells += [
        [
            row.task,
            _generations(row),
            f"{row.speedup:.2f}x",
            interval_plot(row.speedup, row.lower, row.upper, scale),
            _roof(row.roof_share),
            rival_text(row.rival, row.rival_speedup),
        ]
        for row in rows
    ]
    return "\n".join([target, "", *columns(cells, right="lrr")])


def _generations(row: SlotRow) -> str:
    if row.generation_before == row.generation_after:
        return str(row.generation_after)
    return f"{row.generation_before} → {row.generation_after}"


def _roof(share: float | None) -> str:
    return NOT_TIMED if share is None else f"{bar(share, width=5)} {100 * share:.0f} %"


def rival_text(rival: str | None, rival_speedup: float | None) -> str:
    """Return how the sealed kernel fares beside a rival; a loss is called one."""
    if rival is None or rival_speedup is None:
        return NOT_TIMED
    loses = ": loses" if rival_speedup < 1 else ""
    return f"{rival_speedup:.2f}x as fast as {rival}{loses}"


def history_text(slot: str, rows: Sequence[HistoryRow]) -> str:
    """Return the lineage of a slot, oldest generation first."""
    if not rows:
        return f"{slot} has no generation yet; forge night seals them."
    cells = [["generation", "commit", "over generation 0", gain_ruler(), "by", "sealed (UTC)"]]
    cells += [
        [
            str(row.generation),
            row.commit[:_COMMIT],
            f"{row.speedup:.2f}x, at least {row.lower:.2f}x" if row.generation else "1.00x",
            gain_bar(row.speedup),
            row.student or "the reference",
            f"{row.at:%Y-%m-%d %H:%M}",
        ]
        for row in rows
    ]
    legend = [
        "bar: gain over generation 0, on a scale that every slot shares;",
        f"     {CELLS_PER_DOUBLING} cells are twice as fast, an arrow is more than 16x",
    ]
    return "\n".join([slot, *legend, "", *columns(cells, right="r")])


def night_text(report: NightReport) -> str:
    """Return what a night came to: what it sealed, how every slot stands, what it cost."""
    lines = [f"Night {report.night}, {_duration((report.ended - report.started).total_seconds())}"]
    lines += ["", *sealed_lines(report.slots), ""]
    lines += [status_text(report.slots), ""]
    lines += [
        f"geometric mean over {counted(len(report.slots), 'slot')}: {mean_text(report.slots)}"
    ]
    lines += [counts_text(report.candidates), spent_text(report.spent)]
    return "\n".join(lines)


def sealed_lines(rows: Sequence[SlotRow]) -> list[str]:
    """Return a line for each slot that a night moved on, or one that says that none was."""
    moved = [row for row in rows if row.generation_after > row.generation_before]
    if not moved:
        return ["sealed nothing: no candidate was shown to be faster than what is sealed"]
    return columns(
        [
            [
                "sealed",
                row.task,
                f"generation {row.generation_after},",
                f"{row.speedup:.2f}x",
                f"[{row.lower:.2f}, {row.upper:.2f}] over generation 0",
            ]
            for row in moved
        ],
        right="lllr",
    )


def mean_text(rows: Sequence[SlotRow]) -> str:
    """Return the geometric mean speedup, a slot that was never sealed counting 1.00."""
    if not rows:
        return "none"
    return f"{math.exp(math.fsum(math.log(row.speedup) for row in rows) / len(rows)):.2f}x"


def counts_text(counts: CandidateCounts) -> str:
    """Return what became of the candidates, leaving out what did not happen."""
    parts = [
        counted(number, "fault") if name == "faults" else f"{number} {name}"
        for name, number in counts.model_dump().items()
        if name != "proposed" and number
    ]
    return f"{counted(counts.proposed, 'candidate')}: {', '.join(parts) or 'nothing came of them'}"


def spent_text(spent: Spent) -> str:
    """Return what was spent, leaving out money and tokens where none were."""
    text = f"spent {_duration(spent.wall_s)}, of it {_duration(spent.device_s)} measuring"
    if spent.usd or spent.tokens:
        text += f", {spent.usd:.2f} USD and {spent.tokens} tokens"
    return text


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
