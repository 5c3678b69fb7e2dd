"""What a night came to, in the shape of ``forge night --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge.host import wall_clock
from forge.report.shapes import CandidateCounts, NightReport, SlotRow, Spent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flows.conduct import OpenNight
    from flows.standing import Standing


def night_report(night: OpenNight, standings: Sequence[Standing]) -> NightReport:
    """Return what the night came to; counts and charges are the ledger's own."""
    recorded = night.parts.ledger.query("night", night_id=night.parts.night)
    return NightReport(
        night=night.parts.night,
        started=night.started,
        ended=wall_clock(),
        slots=tuple(slot_row(standing) for standing in standings),
        candidates=CandidateCounts.model_validate(recorded["candidates"]),
        spent=Spent.model_validate(recorded["spent"]),
    )


def slot_row(standing: Standing) -> SlotRow:
    """Return how a slot stands; one that was never sealed is its own generation 0, at 1.0."""
    speedup = standing.speedup
    return SlotRow(
        task=standing.slot.task,
        target=standing.slot.target,
        generation_before=standing.generation_before,
        generation_after=standing.generation,
        speedup=speedup.point if speedup else 1.0,
        lower=speedup.lower if speedup else 1.0,
        upper=speedup.upper if speedup else 1.0,
        rival=standing.rival or None,
        rival_speedup=standing.rival_speedup,
        roof_share=standing.roof_share,
    )
