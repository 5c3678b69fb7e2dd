"""What a judge offers and what it answers with; every judge of every device keeps to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from forge.judge.evidence import Evidence
    from forge.tasks.load import LoadedTask
    from forge.teacher.base import Roof
    from forge.types import KernelSource, Speedup
    from forge.verdict import Rejected, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A kernel that can be run.

    Attributes:
        source: What it was built from.
        library: The built file; ``None`` where the source itself is run.
    """

    source: KernelSource
    library: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one phase observed, and what follows from it.

    Attributes:
        evidence: The observations.
        verdict: A pure function of them.
    """

    evidence: Evidence
    verdict: Verdict

    @property
    def noise(self) -> Mapping[str, float]:
        """The A/A noise that a calibration found, or that the phase was given."""
        return self.evidence.noise


class Judge(Protocol):
    """Decides about kernels on one device; holds its processes from enter to exit.

    A candidate that fails is a verdict. Every method that runs kernels raises ``HarnessFault``
    for what is not the candidate's doing; the caller tries again. Deadlines are on
    ``time.monotonic``.
    """

    def __enter__(self) -> Self:
        """Start the judge's processes."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process that was started."""
        ...

    def build(self, source: KernelSource) -> Built | Rejected:
        """Build one kernel, or say why it does not build."""
        ...

    def build_many(self, sources: Sequence[KernelSource]) -> list[Built | Rejected]:
        """Build kernels on all cores; answers in the order of ``sources``."""
        ...

    def calibrate(self, task: LoadedTask, baseline: Built, *, rounds: int = 7) -> Judged:
        """Time a kernel against itself; the result's ``noise`` is what the later phases take."""
        ...

    def screen(
        self,
        task: LoadedTask,
        candidate: Built,
        baseline: Built,
        *,
        noise: Mapping[str, float],
        rounds: int = 2,
    ) -> Judged:
        """Look at a candidate on few rounds: rejected, or inconclusive and worth confirming."""
        ...

    def confirm(  # noqa: PLR0913 - each is one thing the phase needs
        self,
        task: LoadedTask,
        candidate: Built,
        baseline: Built,
        *,
        noise: Mapping[str, float],
        alpha: float,
        secret: bytes,
        deadline: float | None,
        on_round: Callable[[Evidence, Verdict], None] | None,
    ) -> Judged:
        """Decide about a candidate at the error ``alpha``; the only phase that accepts.

        Inconclusive when ``deadline`` came first.
        """
        ...

    def reconfirm(  # noqa: PLR0913 - each is one thing the phase needs
        self,
        task: LoadedTask,
        candidate: Built,
        baseline: Built,
        origin: Built,
        *,
        noise: Mapping[str, float],
        secret: bytes,
        rounds: int = 8,
    ) -> Judged:
        """Measure an accepted candidate afresh, in cold processes, for publication."""
        ...

    def by_hand(
        self,
        task: LoadedTask,
        candidate: Built,
        baseline: Built,
        *,
        noise: Mapping[str, float],
        secret: bytes,
    ) -> Judged:
        """Judge one kernel for a person; spends no alpha and seals nothing."""
        ...

    def time_rivals(
        self, task: LoadedTask, kernel: Built, names: Sequence[str]
    ) -> dict[str, Speedup]:
        """Return each rival's time over the kernel's, at the task's heaviest workload."""
        ...

    def use_roof(self, roof: Roof) -> None:
        """Hold later confirmations against ``roof``: nothing is faster than the device."""
        ...

    def measure_roof(self) -> Roof:
        """Return what this device can do at best."""
        ...

    def roof_share(self, task: LoadedTask, kernel: Built, roof: Roof) -> float:
        """Return the roof's time over the kernel's: 1 is as fast as this device allows."""
        ...
