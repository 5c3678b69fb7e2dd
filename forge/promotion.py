"""A promotion in full: everything that its intent, its commit and its event must agree on.

Pure, and written to the ledger as text before anything else happens, so that a process that
finds it after a crash can finish exactly the same promotion.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadLine:
    """One workload's line in the commit message: parent's time over the candidate's.

    Attributes:
        axes: The workload as a person reads it, for example ``"rows=2048 cols=4096"``.
        ratio: Point estimate; ``lower`` and ``upper`` are its interval.
    """

    axes: str
    ratio: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """An accepted candidate on its way to being the baseline of its slot.

    Attributes:
        id: Unique; written in the commit's trailer, where a repair finds it.
        candidate: What is promoted.
        generation: The number the slot will have, one more than its parent's.
        parent: Commit of the baseline it replaces.
        speedup: Over generation 0, from the cold reconfirmation.
        over_parent: Over the parent, from the same reconfirmation.
        evidence: Digest of the reconfirmation's evidence.
        confirm_evidence: Digest of the evidence that accepted it.
        night: Id of the night that intends it.
        environment: Environment id it was measured in.
        alpha: Error probability the confirmation spent.
        model: Language model that wrote it; empty for a student without one.
        cost_usd: Money spent on it.
        workloads: One line for each workload, over the parent.
        rival: Name of the fastest rival timed beside it; empty when none was.
        rival_speedup: The rival's time over this kernel's; ``None`` without a rival.
        chain_head: Head of the ledger's chain when it was intended.
    """

    id: str
    candidate: Candidate
    generation: int
    parent: str
    speedup: Speedup
    over_parent: Speedup
    evidence: str
    confirm_evidence: str
    night: str
    environment: str
    alpha: float
    model: str = ""
    cost_usd: float = 0.0
    workloads: tuple[WorkloadLine, ...] = ()
    rival: str = ""
    rival_speedup: float | None = None
    chain_head: str = ""

    def to_json(self) -> str:
        """Return the promotion as canonical JSON: sorted keys, no spaces."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Promotion:
        """Return the promotion that :meth:`to_json` wrote as ``text``.

        Raises:
            ValueError: ``text`` is not one, or a field is missing or unknown.
        """
        try:
            body: dict[str, Any] = json.loads(text)
            body["candidate"] = _candidate(body["candidate"])
            body["speedup"] = Speedup(**body["speedup"])
            body["over_parent"] = Speedup(**body["over_parent"])
            body["workloads"] = tuple(WorkloadLine(**line) for line in body["workloads"])
            return cls(**body)
        except (KeyError, TypeError) as error:
            raise ValueError(f"This is not a promotion ({error}): {text[:80]!r}.") from error


def _candidate(body: dict[str, Any]) -> Candidate:
    return Candidate(
        id=CandidateId(body["id"]),
        slot=Slot(**body["slot"]),
        source=KernelSource(files=body["source"]["files"]),
        parent=body["parent"],
        student=body["student"],
        title=body["title"],
        origin=body["origin"],
    )
