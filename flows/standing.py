"""How one slot stands while a night works on it, and what makes it ready to be worked on."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from forge.errors import HarnessFault
from forge.judge.decisions import summarise
from forge.teacher.base import Roof, Study, WorkloadTime
from forge.types import CandidateId, KernelSource, Slot, Speedup
from forge.verdict import Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flows.parts import Parts
    from forge.judge.base import Built
    from forge.judge.evidence import Evidence
    from forge.tasks.load import LoadedTask
    from forge.teacher.base import Curriculum
    from forge.types import Baseline

Made = TypeVar("Made")

CALIBRATION_ROUNDS = 4
# Upper bounds that are reserved before a phase; measured, they take a fraction of it.
CALIBRATE_S, ROOF_S, ROOF_SHARE_S = 20.0, 20.0, 5.0
# What a stopped night finishes first, by the first word of what it is doing, and the most
# seconds that it may take. A confirmation that accepts is measured afresh before the end.
_FINISHED_S = {
    "preparing": 40,
    "calibrating": 20,
    "proposing": 5,
    "building": 10,
    "screening": 15,
    "confirming": 85,
    "measuring": 25,
    "timing": 30,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The baseline of a slot, ready to be an arm.

    Attributes:
        baseline: What is sealed.
        built: It, built.
        origin: Generation 0, built.
        noise: Its A/A noise in this environment.
        curriculum: What the teacher says to try.
        roof_share: The roof's time over its time.
    """

    baseline: Baseline
    built: Built
    origin: Built
    noise: Mapping[str, float]
    curriculum: Curriculum
    roof_share: float | None


@dataclass(slots=True, kw_only=True)
class Standing:
    """How one slot stands; the one thing that changes during a night.

    Attributes:
        slot: Which.
        task: Its contract.
        subject: Its baseline, ready; ``None`` until it is prepared, and after a promotion.
        generation_before: Generation at the start of the night.
        generation: Generation now.
        speedup: Of the baseline over generation 0; ``None`` for generation 0 itself.
        best: Largest estimate of a candidate's speedup over generation 0 so far.
        rival: Name of the fastest rival, and in ``rival_speedup`` its time over the baseline's.
        tried: Candidates that were screened tonight.
        rounds: Rounds tonight.
        fruitless: Rounds since the last promotion.
        until: When its present turn ends, on ``time.monotonic``.
        doing: What is being done right now, for a person.
        trouble: Why it cannot be worked on; empty when it can.
        is_exhausted: Whether the student has nothing more to propose.
    """

    slot: Slot
    task: LoadedTask
    subject: Subject | None = None
    generation_before: int = 0
    generation: int = 0
    speedup: Speedup | None = None
    best: float | None = None
    rival: str = ""
    rival_speedup: float | None = None
    roof_share: float | None = None
    tried: int = 0
    rounds: int = 0
    fruitless: int = 0
    until: float = 0.0
    doing: str = ""
    trouble: str = ""
    is_exhausted: bool = False

    @property
    def log_speedup(self) -> float:
        """Log of the baseline's speedup over generation 0."""
        return math.log(self.speedup.point) if self.speedup else 0.0

    @property
    def is_workable(self) -> bool:
        """Whether another round may come to something."""
        return not (self.trouble or self.is_exhausted)


def under_way(standing: Standing) -> str:
    """Return what a night that is asked to stop finishes first, and how long that may take."""
    doing = standing.doing or "a round"
    at_most_s = _FINISHED_S.get(doing.partition(" ")[0], 5)
    return f"{doing} ({standing.slot}), which takes {at_most_s} s at most"


def reference_source(task: LoadedTask) -> KernelSource:
    """Return generation 0 of a task: its reference, run eagerly."""
    return KernelSource(files={"reference.py": task.reference_source})


def stand(
    parts: Parts, task: LoadedTask, target: str, known: Mapping[str, Any] | None
) -> Standing:
    """Return how a slot stands in the store, sealing its generation 0 if it has none.

    Args:
        parts: The night.
        task: The slot's task.
        target: The slot's target.
        known: The slot's row of the ledger's ``status`` query, if it has one.

    Raises:
        UsageError: The task's reference is no longer the sealed generation 0.
    """
    slot = Slot(task=task.task.name, target=target)
    origin = parts.store.seed(slot, reference_source(task), task.digest)
    parts.ledger.seed_recorded(slot, origin.commit, origin.source.digest)
    baseline = parts.store.head(slot) or origin
    standing = Standing(
        slot=slot,
        task=task,
        generation=baseline.generation,
        generation_before=baseline.generation,
    )
    if known is not None and known["generation"] > 0:
        point, lower, upper = known["speedup"], known["lower"], known["upper"]
        standing.speedup = Speedup(point=point, lower=lower, upper=upper)
        standing.rival, standing.rival_speedup = known["rival"] or "", known["rival_speedup"]
        standing.roof_share = known["roof_share"]
    return standing


def prepare(parts: Parts, standing: Standing) -> Subject:
    """Return the slot's baseline ready to be an arm: built, calibrated, studied.

    Raises:
        HarnessFault: It does not build any more, or could not be measured.
    """
    if standing.subject is not None:
        return standing.subject
    slot, task = standing.slot, standing.task
    standing.doing = "preparing"
    first = parts.store.at_generation(slot, 0)
    baseline = parts.store.head(slot) or first
    built = _built(parts, standing, baseline)
    origin = built if baseline.generation == 0 else _built(parts, standing, first)
    roof = measured_roof(parts, slot)
    parts.judge.use_roof(roof)
    evidence = calibrated(parts, standing, baseline, built)
    curriculum = parts.teacher.study(
        Study(
            task=task.task,
            baseline=baseline.source,
            times=baseline_times(evidence),
            roof=roof,
            threads=parts.environment.arm_threads,
        )
    )
    standing.generation = baseline.generation
    standing.subject = Subject(
        baseline=baseline,
        built=built,
        origin=origin,
        noise=evidence.noise,
        curriculum=curriculum,
        roof_share=standing.roof_share,
    )
    return standing.subject


def measured_roof(parts: Parts, slot: Slot) -> Roof:
    """Return this machine's roof, measured once in each environment."""
    known = parts.ledger.roof(slot.target, parts.environment.id)
    if known is not None:
        return Roof.model_validate(known)
    parts.watcher.say("Measuring once what this machine can do at best.")
    with parts.budget.phase("roof", ROOF_S) as charge:
        began = time.monotonic()
        roof = _unless_stopped(parts, lambda: parts.trying(slot, "roof", parts.judge.measure_roof))
        charge.device_s = time.monotonic() - began
    parts.ledger.record_roof(slot.target, parts.environment.id, roof.model_dump(mode="json"))
    return roof


def calibrated(parts: Parts, standing: Standing, baseline: Baseline, built: Built) -> Evidence:
    """Return tonight's A/A evidence of a baseline: its noise, and its times for the teacher."""
    slot = standing.slot
    standing.doing = "calibrating"
    with parts.budget.phase(str(slot), CALIBRATE_S) as charge:
        judged = _unless_stopped(
            parts,
            lambda: parts.trying(
                slot,
                "calibrate",
                lambda: parts.judge.calibrate(standing.task, built, rounds=CALIBRATION_ROUNDS),
            ),
        )
        charge.device_s = judged.evidence.device_s
    if isinstance(judged.verdict, Rejected):
        raise HarnessFault(f"The baseline of {slot} fails its own task: {judged.verdict.reason}")
    owner = baseline.candidate or CandidateId(baseline.commit)
    evidence = parts.ledger.put_evidence(owner, judged.evidence)
    parts.ledger.record_noise(
        slot, baseline.source.digest, parts.environment.id, judged.noise, evidence
    )
    return judged.evidence


def baseline_times(evidence: Evidence) -> list[WorkloadTime]:
    """Return the baseline's time on each tune workload of a phase, the median over its rounds."""
    times: list[WorkloadTime] = []
    for spec in evidence.workloads:
        burst_ns = [
            sample.burst_ns["baseline"]
            for item in evidence.rounds
            for sample in item.samples
            if sample.workload == spec.id and "baseline" in sample.burst_ns
        ]
        if burst_ns and spec.split == "tune":
            per_call_ns = statistics.median(burst_ns) / spec.calls
            times.append(WorkloadTime(axes=spec.axes, baseline_ns=per_call_ns))
    return times


def log_over_baseline(evidence: Evidence) -> float | None:
    """Return the mean log-ratio over the baseline, or ``None`` with too few rounds for one."""
    over = summarise(evidence).over_baseline
    return None if over is None else math.log(over.point)


def _unless_stopped(parts: Parts, call: Callable[[], Made]) -> Made:
    """Return what ``call`` returns; a fault of a night that was stopped is told as just that.

    Whoever stops a night may well have stopped the judge's processes with it.
    """
    try:
        return call()
    except HarnessFault as fault:
        if parts.stop.is_requested:
            raise HarnessFault("the night was stopped before it was measured") from fault
        raise


def _built(parts: Parts, standing: Standing, baseline: Baseline) -> Built:
    result = parts.judge.build(baseline.source)
    if isinstance(result, Rejected):
        raise HarnessFault(
            f"Generation {baseline.generation} of {standing.slot} does not build on this machine: "
            f"{result.reason}"
        )
    return result
