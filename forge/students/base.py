"""What every student reads and writes. A student is stateless: all it knows is in its brief."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.tasks.load import LoadedTask
    from forge.teacher.base import Curriculum
    from forge.types import KernelSource

KnobValue = int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A proposal of the past and what became of it.

    Attributes:
        family: Family it came from.
        knobs: Its configuration.
        log_speedup: Natural logarithm of its speedup over generation 0; ``None`` if it failed
            or was rejected before it had a time.
    """

    family: str
    knobs: Mapping[str, KnobValue]
    log_speedup: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """What a student is handed: never holdouts, never seeds of draws, never the judge.

    Attributes:
        task: The contract.
        target: Full id of the device model it is for.
        threads: Threads a kernel may use; at least 1.
        baseline: The kernel to beat.
        curriculum: What the teacher says to try, in order.
        trials: Every proposal ever made for this slot, oldest first.
        seed: Makes the proposals repeatable.
    """

    task: LoadedTask
    target: str
    threads: int
    baseline: KernelSource
    curriculum: Curriculum
    trials: Sequence[Trial]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A kernel worth judging.

    Attributes:
        source: The kernel.
        title: A short phrase for lists and commit titles.
        family: Family it comes from.
        knobs: Its configuration; comes back in a ``Trial``.
    """

    source: KernelSource
    title: str
    family: str
    knobs: Mapping[str, KnobValue]


class Student(Protocol):
    """Writes kernels; never judges them."""

    name: str

    def propose(self, brief: Brief, limit: int) -> Sequence[Proposal]:
        """Return kernels worth judging, the most promising first.

        Args:
            brief: Everything known; the same brief gives the same proposals.
            limit: At most this many; at least 1.

        Returns:
            Fewer than ``limit``, or none, when the student has nothing new to try.
        """
        ...
