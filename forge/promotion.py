"""A promotion in full: everything that its intent, its commit and its event must agree on.

Pure, and written to the ledger as text before anything else happens, so that a process that
finds it after a crash can finish exactly the same promotion.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forge.host import Environment
    from forge.judge.decision_v1 import Summary
    from forge.judge.evidence import Evidence

EAGER = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadLine:
    """One workload's line in the commit message: parent's time over the candidate's.

    Attributes:
        axes: The workload as a person reads it, for example ``"rows=2048 cols=4096"``.
        ratio: Point estimate; ``lower`` and ``upper`` are its interval.
        time_ns: Median time of one call of the candidate; ``None`` in older records.
    """

    axes: str
    ratio: float
    lower: float
    upper: float
    time_ns: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalLine:
    """One rival's time over the kernel's at the heaviest workload: above 1 the kernel is faster.

    Attributes:
        name: The rival, for example ``"torch.compile"``.
        ratio: Point estimate; ``lower`` and ``upper`` are its interval.
    """

    name: str
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
        rival: Name of the rival it is shown beside (:func:`rival_to_show`); empty without one.
        rival_speedup: How many times as fast as that rival this kernel is at the heaviest
            workload: above 1 this kernel is the faster one. ``None`` without a rival. Every
            record ever written has it this way round.
        rivals: Every rival that was timed; empty in older records.
        chain_head: Head of the ledger's chain when it was intended.
        machine: What it was measured on and built with, in words; empty in older records.
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
    rivals: tuple[RivalLine, ...] = ()
    chain_head: str = ""
    machine: str = ""

    def to_json(self) -> str:
        """Return the promotion as canonical JSON: sorted keys, no spaces.

        A field that older records lack is left out where it is empty, so that an older record
        that was read comes to its own text again.
        """
        body = asdict(self)
        for name in ("machine", "rivals"):
            if not body[name]:
                del body[name]
        for line in body["workloads"]:
            if line["time_ns"] is None:
                del line["time_ns"]
        return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

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
            body["rivals"] = tuple(RivalLine(**line) for line in body.get("rivals", ()))
            return cls(**body)
        except (KeyError, TypeError) as error:
            raise ValueError(f"This is not a promotion ({error}): {text[:80]!r}.") from error


def rival_to_show(rivals: Mapping[str, Speedup]) -> str:
    """Return the rival that a kernel is shown beside where there is room for one, or ``""``.

    It is the fastest one. Generation 0 is the eager reference itself, and every speedup is over
    it already: eager counts only where nothing else was timed, or where it beats the kernel.
    """
    others = {name: over for name, over in rivals.items() if name != EAGER or over.point < 1}
    shown = others or rivals
    return min(shown, key=lambda name: shown[name].point, default="")


def rival_lines(rivals: Mapping[str, Speedup]) -> tuple[RivalLine, ...]:
    """Return every rival that was timed, the fastest one first."""
    lines = [
        RivalLine(name=name, ratio=over.point, lower=over.lower, upper=over.upper)
        for name, over in rivals.items()
    ]
    return tuple(sorted(lines, key=lambda line: line.ratio))


def workload_lines(evidence: Evidence, summary: Summary) -> tuple[WorkloadLine, ...]:
    """Return a line for each workload of ``evidence`` that has an interval."""
    specs = {spec.id: spec for spec in evidence.workloads}
    return tuple(
        WorkloadLine(
            axes=" ".join(f"{name}={value}" for name, value in specs[row.id].axes.items()),
            ratio=row.ratio,
            lower=row.lower,
            upper=row.upper,
            time_ns=_median_ns(evidence, row.id) / specs[row.id].calls,
        )
        for row in summary.workloads
        if row.ratio is not None and row.lower is not None and row.upper is not None
    )


def _median_ns(evidence: Evidence, workload: str) -> float:
    return statistics.median(
        sample.burst_ns["candidate"]
        for item in evidence.rounds
        for sample in item.samples
        if sample.workload == workload
    )


def machine_text(environment: Environment) -> str:
    """Return what a time was measured on and built with, as a person says it."""
    threads = environment.arm_threads
    compiler = f"{environment.compiler} {environment.flags}".strip()
    return ", ".join(
        [
            environment.model_name or environment.model,
            f"{threads} thread" if threads == 1 else f"{threads} threads",
            *([compiler] if environment.compiler else []),
            *([f"PyTorch {environment.torch}"] if environment.torch else []),
            f"Python {environment.python}",
            f"Linux {environment.kernel}",
        ]
    )


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
