"""The JSON documents of the command line, so that no command can drift from them.

Speedups and their bounds are over generation 0 unless a field says otherwise. A slot that was
never sealed is its own generation 0: its speedup is 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping

Count = Annotated[int, Field(ge=0)]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
VerdictWord = Literal["accepted", "rejected", "inconclusive"]
# The ledger's times are text and its sums are floats; both are read as what they mean.
Moment = Annotated[AwareDatetime, Field(strict=False)]
WholeAmount = Annotated[int, Field(ge=0, strict=False)]


class Document(BaseModel):
    """Base of every shape: complete, nothing unknown, never changed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SlotRow(Document):
    """How one slot stands, and stood when the night began."""

    task: str
    target: str
    generation_before: Count
    generation_after: Count
    speedup: Ratio
    lower: Ratio
    upper: Ratio
    rival: str | None
    """The fastest rival timed beside the sealed kernel, at the task's heaviest workload.

    Generation 0 is the eager reference itself, so ``eager`` is named only where nothing else was
    timed, or where it beats the kernel. ``None``: none was timed."""
    rival_speedup: Ratio | None
    """How many times as fast as the rival the sealed kernel is: above 1 the kernel is faster."""
    roof_share: Amount | None
    """The roof's time over the sealed kernel's at the heaviest workload: 1 is as fast as this
    machine can; ``None``: not timed."""

    @classmethod
    def standing(cls, row: Mapping[str, object]) -> SlotRow:
        """Return a row of the ledger's ``status`` query as the row of a slot that stands still."""
        names = {name: row[name] for name in cls.model_fields if name in row}
        still = {"generation_before": row["generation"], "generation_after": row["generation"]}
        return cls.model_validate(names | still)


class CandidateCounts(Document):
    """What became of a night's candidates."""

    proposed: Count
    rejected: Count
    inconclusive: Count
    waiting: Count
    superseded: Count
    abandoned: Count
    sealed: Count
    faults: Count


class Spent(Document):
    """What a night cost."""

    wall_s: Amount
    device_s: Amount
    usd: Amount
    tokens: WholeAmount


class NightReport(Document):
    """``forge night --json``."""

    night: str
    started: Moment
    ended: Moment
    slots: Annotated[tuple[SlotRow, ...], Field(strict=False)]
    candidates: CandidateCounts
    spent: Spent


class HistoryRow(Document):
    """One generation of a slot; what generation 0 does not have is ``None``."""

    generation: Count
    commit: str
    candidate: str | None
    parent: str | None
    """Commit of the generation before."""
    speedup: Ratio
    lower: Ratio
    evidence: str | None
    student: str | None
    at: Moment


class SpeedupShape(Document):
    """A speedup with its 95 % interval."""

    point: Ratio
    lower: Ratio
    upper: Ratio


class WorkloadShape(Document):
    """One workload of a judgement; what was not reached is ``None``."""

    axes: dict[str, int]
    ratio: Ratio | None
    lower: Ratio | None
    upper: Ratio | None
    max_error: float | None
    allowed_error: float | None


class JudgeReport(Document):
    """``forge judge --json``."""

    verdict: VerdictWord
    check: str
    """Id of the check that decided; empty when accepted or inconclusive."""
    reason: str
    speedup: SpeedupShape | None
    """Over what it was judged against; ``None`` when fewer than two rounds were timed."""
    workloads: Annotated[tuple[WorkloadShape, ...], Field(strict=False)]
    holdouts: Literal["passed", "failed", "not-run"]
    evidence: str
    """Digest of the evidence."""


STATUS = TypeAdapter(tuple[SlotRow, ...])
"""``forge status --json``: a list of slot rows."""

HISTORY = TypeAdapter(tuple[HistoryRow, ...])
"""``forge history SLOT --json``: a list, oldest generation first."""
