"""What a teacher reads and what it writes: a study of one baseline, and its curriculum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.tasks.model import Task
    from forge.types import KernelSource

# What holds a kernel back: traffic to memory, the fixed cost of a call, arithmetic, or traffic
# and instructions inside the first-level cache.
Bottleneck = Literal["dram", "latency", "compute", "l1"]

# What a student may change, in words that its knobs are tagged with.
THEMES = (
    "passes",
    "vector-width",
    "unroll",
    "streaming-stores",
    "polynomial-degree",
    "blocking",
    "threads",
    "fast-path",
)


class Roof(BaseModel):
    """What this machine can do at best, measured once with trusted kernels on an arm's threads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bytes_per_s: float = Field(gt=0)
    """The fastest of a trusted read, copy and streaming copy: bytes moved in a second."""
    flops_per_s: float = Field(gt=0)
    """Floating operations in a second, a fused multiply-add counted as two."""
    call_ns: float = Field(ge=0)
    """Time of a call that does nothing, clock included."""
    environment: str
    """Id of the environment it was measured in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTime:
    """How long the baseline takes on one tune workload.

    Attributes:
        axes: Value of every var axis.
        baseline_ns: Nanoseconds of one call; positive.
    """

    axes: Mapping[str, int]
    baseline_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What a teacher is given.

    Attributes:
        task: The contract.
        baseline: The sealed kernel.
        times: Its time on each tune workload, at least one.
        roof: What the machine can do.
        threads: Threads of an arm.
    """

    task: Task
    baseline: KernelSource
    times: Sequence[WorkloadTime]
    roof: Roof
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Milestone:
    """One step of a curriculum.

    Attributes:
        id: ``M0`` (an architecture, checked by structure), then ``M1``, ``M2``, ...
        title: What is to be reached, in a few words.
        metric: The one measurable claim that says whether it was reached.
        themes: What to vary, the most promising first.
    """

    id: str
    title: str
    metric: str
    themes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """The teacher's ordered steps for one generation of a slot.

    Attributes:
        bottleneck: What holds the baseline back.
        facts: The numbers that say so, by name, units in the names.
        milestones: In the order they are to be tried.
    """

    bottleneck: Bottleneck
    facts: Mapping[str, float]
    milestones: tuple[Milestone, ...]

    @property
    def themes(self) -> tuple[str, ...]:
        """Every theme once, in the order in which the milestones first name it."""
        named = (theme for milestone in self.milestones for theme in milestone.themes)
        return tuple(dict.fromkeys(named))


class Teacher(Protocol):
    """Studies a baseline and says what to try; writes no kernel and never judges."""

    name: str

    def study(self, study: Study) -> Curriculum:
        """Return the curriculum for the next generation."""
        ...
