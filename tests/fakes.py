"""A judge and a student that are deterministic and take no time; everything else is real.

A kernel says how it fares in its own text: ``ns=700`` is its time of a call (a reference takes
1000), ``rot=2`` multiplies that in the reconfirmation (a win that does not reproduce),
``bad=builds`` or ``bad=wrong-values`` names the check it fails, ``faults=3`` how often measuring
it faults first.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field

from forge.errors import HarnessFault
from forge.judge.base import Built, Judged
from forge.judge.decision_v1 import decide, noise_of
from forge.judge.evidence import Evidence, Finding, Policy, Round, Sample, WorkloadSpec
from forge.students.base import Proposal
from forge.teacher.base import Roof
from forge.types import KernelSource, Speedup
from forge.verdict import Rejected

NOISE = 0.002
CALLS = 8


def kernel(**says):
    """A kernel whose text says how it fares."""
    words = " ".join(f"{key}={value}" for key, value in says.items())
    return KernelSource(files={"kernel.cpp": f'// {words}\nextern "C" void launch() {{}}\n'})


def said(source, key, default):
    match = re.search(rf"\b{key}=(\S+)", next(iter(source.files.values())))
    return match[1] if match else default


def call_ns(source, phase):
    if source.language == "reference":
        return 1000.0
    slower = float(said(source, "rot", 1)) if phase == "reconfirm" else 1.0
    return float(said(source, "ns", 1000)) * slower


class FakeJudge:
    """Keeps to ``forge.judge.base.Judge``; notes what it was asked in ``calls``."""

    def __init__(self, environment="fake-env", on_phase=None):
        self.calls = []
        self.environment = environment
        self.on_phase = on_phase
        self.is_running = False
        self._faulted = Counter()
        self._random = random.Random(5)

    def __enter__(self):
        self.is_running = True
        return self

    def __exit__(self, *_):
        self.is_running = False

    def build(self, source):
        if said(source, "bad", "") == "builds":
            return Rejected(check="builds", reason="kernel.cpp:1:1: error: this is not C++")
        return Built(source=source)

    def build_many(self, sources):
        return [self.build(source) for source in sources]

    def calibrate(self, task, baseline, *, rounds=7):
        evidence = self._evidence("calibrate", task, (baseline, baseline), rounds, {})
        noise = noise_of(evidence.rounds, evidence.workloads)
        return _judged(evidence.model_copy(update={"noise": noise}))

    def screen(self, task, candidate, baseline, *, noise, rounds=2):
        return _judged(self._evidence("screen", task, (candidate, baseline), rounds, noise))

    def confirm(  # noqa: PLR0913
        self, task, candidate, baseline, *, noise, alpha, secret, deadline, on_round
    ):
        assert len(secret) == 32
        policy = Policy(alpha=alpha)
        for rounds in range(2, 61):
            arms = (candidate, baseline)
            evidence = self._evidence("confirm", task, arms, rounds, noise, policy)
            judged = _judged(evidence)
            if on_round is not None:
                on_round(judged.evidence, judged.verdict)
            if type(judged.verdict).__name__ != "Inconclusive":
                break
        return judged

    def reconfirm(self, task, candidate, baseline, origin, *, noise, secret, rounds=8):  # noqa: PLR0913
        arms = (candidate, baseline, origin)
        return _judged(self._evidence("reconfirm", task, arms, rounds, noise))

    def by_hand(self, task, candidate, baseline, *, noise, secret):
        return _judged(self._evidence("by-hand", task, (candidate, baseline), 40, noise))

    def time_rivals(self, task, kernel, names):
        self.calls.append(("rivals", kernel.source.digest))
        ns = call_ns(kernel.source, "rivals")
        points = {"eager": 1000 / ns, "torch.compile": 600 / ns}
        return {n: Speedup(point=points[n], lower=points[n], upper=points[n]) for n in names}

    def use_roof(self, roof):
        self.roof = roof

    def measure_roof(self):
        self.calls.append(("roof", ""))
        return Roof(
            bytes_per_s=1e10, flops_per_s=1e11, call_ns=100.0, environment=self.environment
        )

    def roof_share(self, task, kernel, roof):
        return 250 / call_ns(kernel.source, "roof")

    def _evidence(self, phase, task, arms, rounds, noise, policy=None):
        candidate, baseline, *origin = arms
        source = candidate.source
        if phase != "confirm" or rounds == 2:
            self.calls.append((phase, source.digest))
            if self.on_phase is not None:
                self.on_phase(phase, source)
        if self._faulted[source.digest] < int(said(source, "faults", 0)):
            self._faulted[source.digest] += 1
            raise HarnessFault("an arm was lost")
        bad = said(source, "bad", "")
        specs = _specs(task)
        names = {"candidate": candidate, "baseline": baseline}
        if origin:
            names["origin"] = origin[0]
        return Evidence(
            phase=phase,
            task=task.task.name,
            target="fake",
            candidate_digest=source.digest,
            baseline_digest=baseline.source.digest,
            origin_digest=origin[0].source.digest if origin else None,
            environment=self.environment,
            harness="fake",
            policy=policy or Policy(),
            noise=dict(noise),
            workloads=specs,
            rounds=() if bad else tuple(self._round(phase, specs, names) for _ in range(rounds)),
            findings=(Finding(check=bad, reason=f"it fails {bad}"),) if bad else (),
            holdouts="not-run",
            device_s=0.001,
            wall_s=0.001,
        )

    def _round(self, phase, specs, arms):
        samples = []
        for spec in specs:
            burst_ns = {
                name: max(
                    1,
                    round(
                        CALLS
                        * 1000
                        * call_ns(built.source, phase)
                        * self._random.lognormvariate(0, NOISE)
                    ),
                )
                for name, built in arms.items()
            }
            samples.append(Sample(workload=spec.id, order=tuple(burst_ns), burst_ns=burst_ns))
        return Round(seed_digest="5eed", samples=tuple(samples))


@dataclass
class FakeStudent:
    """Proposes from a fixed list what the trials do not hold yet; keeps nothing itself."""

    menu: list
    name: str = "fake"
    briefs: list = field(default_factory=list)

    def propose(self, brief, limit):
        self.briefs.append(brief)
        tried = [dict(trial.knobs) for trial in brief.trials]
        left = [choice for choice in self.menu if choice not in tried]
        return [
            Proposal(
                source=kernel(**choice),
                title=", ".join(f"{key} {value}" for key, value in choice.items()),
                family="fake",
                knobs=choice,
            )
            for choice in left[:limit]
        ]


def _specs(task):
    return tuple(
        WorkloadSpec(
            id=f"tune-{index}",
            axes=workload.axes,
            split="tune",
            weight=workload.weight,
            protected=workload.protected,
            distribution=workload.distribution,
            offset=workload.offset,
            calls=CALLS,
        )
        for index, workload in enumerate(task.task.workloads)
    )


def _judged(evidence):
    return Judged(evidence=evidence, verdict=decide(evidence))
