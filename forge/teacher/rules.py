"""The teacher that needs no model: roofline rules over one measured workload. Pure.

Source:
    Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009: a kernel takes at least the time
    of its bytes at the memory roof and of its operations at the compute roof. A call adds a fixed
    cost, and what is left is spent in the core: instructions and its first-level cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from forge.teacher.base import THEMES, Bottleneck, Curriculum, Milestone, Study

if TYPE_CHECKING:
    from collections.abc import Mapping

# From this share of the measured time on, a roof is what holds a kernel back: below it, more than
# half of the time is something else.
HOLDS_BACK_SHARE = 0.5
# What a milestone asks for. A plain single-pass kernel reaches it; the rest is tuning.
ROOF_SHARE_ASKED = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The least times that one workload's work allows, and the time it takes.

    Attributes:
        baseline_ns: Measured time of one call.
        memory_ns: Its least bytes at the memory roof.
        compute_ns: Its least operations at the compute roof.
        call_ns: A call that does nothing.
        least_bytes: The least bytes moved.
        least_operations: The least floating operations.
    """

    baseline_ns: float
    memory_ns: float
    compute_ns: float
    call_ns: float
    least_bytes: float
    least_operations: float

    def __post_init__(self) -> None:
        if not self.baseline_ns > 0:
            raise ValueError(f"A baseline takes time; got {self.baseline_ns} ns.")

    @property
    def roof_ns(self) -> float:
        """The least time that bytes and operations allow."""
        return max(self.memory_ns, self.compute_ns)

    def facts(self) -> Mapping[str, float]:
        """The figures under the names that a person reads."""
        return {
            "baseline_ns": self.baseline_ns,
            "memory_roof_ns": self.memory_ns,
            "compute_roof_ns": self.compute_ns,
            "call_ns": self.call_ns,
            "least_bytes": self.least_bytes,
            "least_operations": self.least_operations,
            "roof_share": self.roof_ns / self.baseline_ns,
            "memory_passes": self.baseline_ns / self.memory_ns if self.memory_ns else 0.0,
        }


class RuleTeacher:
    """Names the bottleneck of the heaviest tune workload and orders themes by it."""

    name = "rules"

    def study(self, study: Study) -> Curriculum:
        """Return the curriculum for the next generation."""
        figures = figures_of(study)
        is_reference = study.baseline.language == "reference"
        return curriculum_for(figures, is_reference=is_reference, threads=study.threads)


def figures_of(study: Study) -> Figures:
    """Return the figures of the tune workload that counts most, the longest among equals.

    Raises:
        ValueError: The study has no time.
    """
    if not study.times:
        raise ValueError(f"Task {study.task.name!r} was not timed on any workload.")
    weights = {
        tuple(sorted(workload.axes.items())): workload.weight
        for workload in study.task.workloads
        if workload.split == "tune"
    }
    heaviest = max(
        study.times,
        key=lambda time: (weights.get(tuple(sorted(time.axes.items())), 0.0), time.baseline_ns),
    )
    axes = study.task.resolve(heaviest.axes)
    least_bytes, least_operations = study.task.bytes_moved(axes), study.task.operations(axes)
    return Figures(
        baseline_ns=heaviest.baseline_ns,
        memory_ns=least_bytes / study.roof.bytes_per_s * 1e9,
        compute_ns=least_operations / study.roof.flops_per_s * 1e9,
        call_ns=study.roof.call_ns,
        least_bytes=least_bytes,
        least_operations=least_operations,
    )


def name_bottleneck(figures: Figures, *, is_reference: bool) -> Bottleneck:
    """Say what holds a baseline back.

    Args:
        figures: Its figures.
        is_reference: Whether it is generation 0, whose ops each pass over memory and are each
            a call of their own: its time above the roof is then passes, or calls where the whole
            work takes less than one call, and not instructions.
    """
    is_small = figures.call_ns >= figures.roof_ns
    if is_small and (is_reference or figures.call_ns >= HOLDS_BACK_SHARE * figures.baseline_ns):
        return "latency"
    if figures.compute_ns > figures.memory_ns:
        return "compute"
    if is_reference or figures.memory_ns >= HOLDS_BACK_SHARE * figures.baseline_ns:
        return "dram"
    return "l1"


def curriculum_for(figures: Figures, *, is_reference: bool, threads: int) -> Curriculum:
    """Return the curriculum of a baseline with these figures; names every theme once or more."""
    bottleneck = name_bottleneck(figures, is_reference=is_reference)
    milestones = _MILESTONES[bottleneck](figures)
    named = {theme for milestone in milestones for theme in milestone.themes}
    rest = tuple(theme for theme in THEMES if theme not in named)
    milestones = (
        *milestones,
        Milestone(
            id=f"M{len(milestones)}",
            title="whatever is left",
            metric=f"under {figures.baseline_ns:.0f} ns a call, the baseline's time",
            themes=rest,
        ),
    )
    # One thread has no team to arrange.
    if threads == 1:
        milestones = tuple(_without(milestone, "threads") for milestone in milestones)
    return Curriculum(
        bottleneck=bottleneck,
        facts=figures.facts(),
        milestones=tuple(milestone for milestone in milestones if milestone.themes),
    )


def _without(milestone: Milestone, theme: str) -> Milestone:
    return Milestone(
        id=milestone.id,
        title=milestone.title,
        metric=milestone.metric,
        themes=tuple(other for other in milestone.themes if other != theme),
    )


def _dram(figures: Figures) -> tuple[Milestone, ...]:
    asked_ns = figures.memory_ns / ROOF_SHARE_ASKED
    return (
        Milestone(
            id="M0",
            title="read every input once and write every output once",
            metric=f"the source passes over memory once: {figures.least_bytes:.0f} bytes a call",
            themes=("passes",),
        ),
        Milestone(
            id="M1",
            title="keep the memory busy",
            metric=f"under {asked_ns:.0f} ns a call, {ROOF_SHARE_ASKED:.0%} of the memory roof",
            themes=("streaming-stores", "vector-width", "blocking"),
        ),
        Milestone(
            id="M2",
            title="hide the arithmetic behind the memory",
            metric=f"arithmetic alone under {figures.memory_ns:.0f} ns a call",
            themes=("unroll", "polynomial-degree"),
        ),
    )


def _compute(figures: Figures) -> tuple[Milestone, ...]:
    asked_ns = figures.compute_ns / ROOF_SHARE_ASKED
    return (
        Milestone(
            id="M0",
            title="fill the vector units",
            metric="the inner loop has no scalar arithmetic and no call",
            themes=("vector-width", "polynomial-degree"),
        ),
        Milestone(
            id="M1",
            title="overlap independent chains",
            metric=f"under {asked_ns:.0f} ns a call, {ROOF_SHARE_ASKED:.0%} of the compute roof",
            themes=("unroll", "threads"),
        ),
        Milestone(
            id="M2",
            title="compute nothing twice",
            metric=f"{figures.least_operations:.0f} operations a call",
            themes=("passes", "blocking"),
        ),
    )


def _latency(figures: Figures) -> tuple[Milestone, ...]:
    return (
        Milestone(
            id="M0",
            title="one call that does the work and returns",
            metric="one loop over the rows, and no team of threads for a small input",
            themes=("fast-path", "threads"),
        ),
        Milestone(
            id="M1",
            title="shorten the longest chain",
            metric=f"under {2 * figures.call_ns:.0f} ns a call, twice an empty call",
            themes=("unroll", "vector-width"),
        ),
    )


def _l1(figures: Figures) -> tuple[Milestone, ...]:
    return (
        Milestone(
            id="M0",
            title="keep a row in registers or the first-level cache between its uses",
            metric="no row is read from memory twice",
            themes=("blocking", "passes"),
        ),
        Milestone(
            id="M1",
            title="spend fewer instructions on an element",
            metric=f"under {figures.baseline_ns / 2:.0f} ns a call, half of the baseline's",
            themes=("vector-width", "polynomial-degree", "unroll"),
        ),
        Milestone(
            id="M2",
            title="write around the cache",
            metric=f"within {ROOF_SHARE_ASKED:.0%} of {figures.memory_ns:.0f} ns a call",
            themes=("streaming-stores",),
        ),
    )


_MILESTONES = {"dram": _dram, "compute": _compute, "latency": _latency, "l1": _l1}
