"""The nouns of the project. A leaf: standard library only, so that anyone may import it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Mapping

CandidateId = NewType("CandidateId", str)
# Time is an argument everywhere; the one clock of the wall is ``forge.host.wall_clock``.
Clock = Callable[[], datetime]

# The file that defines ``launch``, or, for generation 0 alone, the task's own reference.
ENTRIES = ("kernel.cpp", "kernel.cu", "kernel.py", "reference.py")


def content_digest(*parts: bytes) -> str:
    """Return the SHA-256 of ``parts``, each length-prefixed so that no two lists collide."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Slot:
    """What a baseline is a baseline *of*: one task on one device model.

    Attributes:
        task: Name of the task, as in ``baselines/catalog/<task>/task.toml``.
        target: Full id of the device model, for example ``"sapphirerapids-avx512-1t"``.
    """

    task: str
    target: str

    def __str__(self) -> str:
        return f"{self.task}/{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """The files of one kernel, by path relative to its folder.

    Attributes:
        files: Text by path; exactly one path is in ``ENTRIES``.
    """

    files: Mapping[str, str]

    def __post_init__(self) -> None:
        if sum(entry in self.files for entry in ENTRIES) != 1:
            raise ValueError(f"A kernel has one of {list(ENTRIES)}; got {sorted(self.files)}.")

    @property
    def entry(self) -> str:
        """The path of the entry file."""
        return next(entry for entry in ENTRIES if entry in self.files)

    @property
    def language(self) -> str:
        """``"cpp"``, ``"cu"``, ``"py"``, or ``"reference"`` for a task's own reference."""
        return "reference" if self.entry == "reference.py" else self.entry.rpartition(".")[2]

    @property
    def digest(self) -> str:
        """SHA-256 over paths and texts in path order; the identity of a kernel."""
        return content_digest(
            *(part.encode() for item in sorted(self.files.items()) for part in item)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel proposed against one baseline; never changed once proposed.

    Attributes:
        id: Unique in the ledger.
        slot: Where it would be sealed.
        source: The kernel.
        parent: Commit of the baseline it was proposed against.
        student: Name of the student that wrote it.
        title: A few words a person reads in lists and commit titles, for example
            ``"two passes, 16 lanes, unrolled by 4"``.
        origin: What the student needs to learn from the outcome (family and knobs), as
            JSON-able text values; never read by the judge.
    """

    id: CandidateId
    slot: Slot
    source: KernelSource
    parent: str
    student: str
    title: str
    origin: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A sealed kernel: what the next candidate of its slot must beat.

    Attributes:
        slot: What it is the baseline of.
        commit: Commit in the store, its only identity.
        generation: Promotions since generation 0.
        source: The kernel.
        candidate: Id of the candidate it was; ``None`` for generation 0.
        parent: Commit of the generation before; ``None`` for generation 0.
    """

    slot: Slot
    commit: str
    generation: int
    source: KernelSource
    candidate: CandidateId | None
    parent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Baseline time over candidate time, with its 95 % interval; above 1 is faster."""

    point: float
    lower: float
    upper: float
