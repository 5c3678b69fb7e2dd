"""The judge of a CPU: phases, each a record of samples that the decision module reads."""

from __future__ import annotations

import os
import secrets
import time
from typing import TYPE_CHECKING, Self

from forge.errors import HarnessFault, UsageError
from forge.host import require_compiler
from forge.judge import decision_v1
from forge.judge.arms import Runnable
from forge.judge.base import Built, Judged
from forge.judge.bench import Bench, Pool
from forge.judge.build import Builder
from forge.judge.evidence import Evidence, Policy
from forge.judge.harness import harness_digest
from forge.judge.native.library import Native, build_native
from forge.judge.processes import Cores, Trio
from forge.judge.samples_v1 import weighted_logs
from forge.judge.screening import lead
from forge.judge.session import (
    TIMED_HOLDOUTS,
    Record,
    ScreeningPools,
    Subject,
    holdout_specs,
    tune_specs,
    tune_specs_of_all_values,
)
from forge.judge.yardsticks import Yardsticks, above_roof
from forge.verdict import Inconclusive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from forge.host import Environment
    from forge.judge.evidence import Arm as Role
    from forge.judge.evidence import Phase, Sample, WorkloadSpec
    from forge.tasks.load import LoadedTask
    from forge.teacher.base import Roof
    from forge.types import KernelSource, Speedup
    from forge.verdict import Rejected, Verdict

# Even, as every number of rounds here: an arm goes first in one round and last in the next.
SCREEN_ROUNDS = 2
SCREEN_MOST = 4
"""Times ``SCREEN_ROUNDS`` that a screen may take."""
BY_HAND_ROUNDS = 40
BY_HAND_ALPHA = 0.05
BY_HAND_S = 60.0


class CpuJudge:
    """See ``forge.judge.base.Judge``. The calling process is the coordinator: it keeps the clock,
    is pinned to one core, and never loads anything a candidate touched.
    """  # noqa: D205

    def __init__(self, *, cache: Path, environment: Environment, attended: bool = True) -> None:
        """Remember where to build and what this machine is; nothing is started yet.

        Args:
            cache: Folder of build products.
            environment: This machine.
            attended: Whether a person is there; an unattended judge refuses a host that lacks a
                sandbox layer (DESIGN.md section 4, "Sandbox").

        Raises:
            UsageError: There is no C++ compiler.
        """
        self._compiler = require_compiler()
        self._cache = cache
        self._environment = environment
        self._attended = attended
        self._before = os.sched_getaffinity(0)
        self._cores = Cores.share_out(sorted(self._before))
        self._pools = ScreeningPools()
        self._current = ""
        self._harness = harness_digest()
        self._roof: Roof | None = None

    def __enter__(self) -> Self:
        """Start zygote, feeder and oracle, and pin this process to the coordinator's core."""
        library = build_native(self._cache, self._compiler, self._environment.id)
        self._library = library
        self._native = Native.load(library)
        if not self._native.library.forge_can_flush():
            raise UsageError(
                "This processor cannot evict single cache lines (clflushopt), and times on warm"
                " caches are not what a night promises; use one that can."
            )
        os.sched_setaffinity(0, [self._cores.coordinator])
        self.bench = Bench(Trio.start(library, self._cores), self._native, self._cores)
        self._missing = tuple(self.bench.trio.zygote.hello["missing"])
        if self._missing and not self._attended:
            self.bench.close()
            os.sched_setaffinity(0, self._before)
            raise UsageError(
                f"This host lacks the sandbox layers {list(self._missing)}; an unattended night "
                "needs them all. `forge doctor` says what to do."
            )
        self._yardsticks = Yardsticks(self.bench, library, self._cache, self._environment.id)
        self._builder = Builder(self.bench, self._cache, self._compiler, self._environment.id)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process and give the pinned core back."""
        self._yardsticks.close()
        self.bench.close()
        os.sched_setaffinity(0, self._before)

    def build(self, source: KernelSource) -> Built | Rejected:
        """Build one kernel inside the walls, or say why it does not build."""
        return self._builder.build_many([source])[0]

    def build_many(self, sources: Sequence[KernelSource]) -> list[Built | Rejected]:
        """Build kernels, as many at a time as there are cores."""
        return self._builder.build_many(sources)

    def calibrate(self, task: LoadedTask, baseline: Built, *, rounds: int = 8) -> Judged:
        """Time a kernel against itself."""
        specs = self._take_up(task)
        record = self._record("calibrate", task, (baseline, baseline, None), specs)
        for _ in range(rounds):
            if not self._round(record, specs, kept=True):
                raise HarnessFault(f"The baseline failed: {record.findings[0].reason}.")
        noise = decision_v1.noise_of(record.rounds, specs)
        evidence = record.evidence().model_copy(update={"noise": noise})
        return Judged(evidence=evidence, verdict=decision_v1.decide(evidence))

    def screen(
        self,
        task: LoadedTask,
        candidate: Built,
        baseline: Built,
        *,
        noise: Mapping[str, float],
        rounds: int = SCREEN_ROUNDS,
    ) -> Judged:
        """Check a candidate on its smallest workload alone, then time it on few rounds.

        One that is ahead of the bar by less than noise explains gets more of them.
        """
        specs = self._take_up(task)
        record = self._record("screen", task, (candidate, baseline, None), specs, noise=noise)
        smallest = min(specs, key=lambda s: task.task.bytes_moved(task.task.resolve(s.axes)))
        if self._check(record, smallest, self._pools.take(smallest)):
            while len(record.rounds) < rounds or (
                len(record.rounds) < rounds * SCREEN_MOST and 0 < lead(record.evidence()) < 2
            ):
                if not self._round(record, specs, kept=True) or self._is_far_behind(record):
                    break
        return _judged(record)

    def confirm(  # noqa: PLR0913  (each is one thing the phase needs)
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
        """Decide on fresh draws and holdouts, round by round, until the evidence decides."""
        policy = Policy(alpha=alpha)
        return self._decide(
            "confirm", (task, candidate, baseline), (noise, secret, policy), (deadline, on_round)
        )

    def by_hand(
        self,
        task: LoadedTask,
        candidate: Built,
        baseline: Built,
        *,
        noise: Mapping[str, float],
        secret: bytes,
    ) -> Judged:
        """Judge one kernel for a person, as a first candidate would be, within a minute."""
        policy = Policy(alpha=BY_HAND_ALPHA, max_rounds=BY_HAND_ROUNDS)
        return self._decide(
            "by-hand",
            (task, candidate, baseline),
            (noise, secret, policy),
            (time.monotonic() + BY_HAND_S, None),
        )

    def reconfirm(  # noqa: PLR0913  (each is one thing the phase needs)
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
        """Measure for publication: new processes, new draws, a fixed number of rounds.

        The generation before and generation 0 are both arms; one process serves as both while
        they are the same kernel.
        """
        self._restart()
        specs = self._take_up(task)
        apart = None if origin.source.digest == baseline.source.digest else origin
        record = self._record("reconfirm", task, (candidate, baseline, apart), specs, noise=noise)
        for _ in range(rounds):
            if not self._round(record, specs, kept=False):
                break
        return _judged(record)

    def time_rivals(
        self, task: LoadedTask, kernel: Built, names: Sequence[str]
    ) -> dict[str, Speedup]:
        """Return each rival's time over the kernel's at the heaviest workload."""
        self._take_up(task)
        return self._yardsticks.rivals(task, Runnable.of(kernel), names)

    def use_roof(self, roof: Roof) -> None:
        """Hold later confirmations against ``roof``."""
        self._roof = roof

    def measure_roof(self) -> Roof:
        """Measure trusted copies, reads and multiply-adds on an arm's threads."""
        self.bench.forget()
        self._current = ""
        return self._yardsticks.roof()

    def roof_share(self, task: LoadedTask, kernel: Built, roof: Roof) -> float:
        """Return the roof's time over the kernel's at the heaviest workload."""
        self._take_up(task)
        return self._yardsticks.share(task, Runnable.of(kernel), roof)

    def _decide(
        self,
        phase: Phase,
        who: tuple[LoadedTask, Built, Built],
        rules: tuple[Mapping[str, float], bytes, Policy],
        pace: tuple[float | None, Callable[[Evidence, Verdict], None] | None],
    ) -> Judged:
        task, candidate, baseline = who
        noise, secret, policy = rules
        deadline, on_round = pace
        tune, holdouts = self._take_up(task), holdout_specs(task, secret)
        timed = (*tune, *holdouts[:TIMED_HOLDOUTS])
        record = self._record(
            phase, task, (candidate, baseline, None), timed, noise=noise, policy=policy
        )
        unlisted = (*holdouts[TIMED_HOLDOUTS:], *tune_specs_of_all_values(task))
        if not self._check_holdouts(record, unlisted):
            return _judged(record)
        while len(record.rounds) < policy.max_rounds:
            record.holdouts = "passed"
            if not self._round(record, timed, kept=False):
                if record.findings[0].workload in {h.id for h in holdouts}:
                    record.holdouts = "failed"
                break
            if self._roof is not None:
                record.findings += above_roof(task, record, self._roof)
            evidence, verdict = record.verdict()
            if on_round is not None:
                on_round(evidence, verdict)
            is_late = deadline is not None and time.monotonic() > deadline
            if is_late or not isinstance(verdict, Inconclusive):
                break
        return _judged(record)

    def _check_holdouts(self, record: Record, holdouts: Sequence[WorkloadSpec]) -> bool:
        for spec in holdouts:
            pool = Pool.of(f"check/{spec.id}", secrets.token_bytes(32), spec.calls)
            if not self._check(record, spec, pool):
                record.holdouts = "failed"
                return False
        return True

    def _check(self, record: Record, spec: WorkloadSpec, pool: Pool) -> bool:
        """Run the candidate alone, untimed in effect; whether it was right."""
        kernel = Runnable.of(record.subject.candidate)
        return record.note(
            self.bench.sample(record.subject.loaded, spec, pool, {"candidate": kernel})
        )

    def _round(self, record: Record, specs: Sequence[WorkloadSpec], *, kept: bool) -> bool:
        """Run one sample of every workload; whether the candidate has no finding."""
        seed = secrets.token_bytes(32)
        subject = record.subject
        arms: dict[Role, Runnable] = {
            "baseline": Runnable.of(subject.baseline),
            "candidate": Runnable.of(subject.candidate),
        }
        if subject.origin is not None:
            arms["origin"] = Runnable.of(subject.origin)
        samples: list[Sample] = []
        for spec in specs:
            pool = self._pools.take(spec) if kept else Pool.of(spec.id, seed, spec.calls)
            turned = self.bench.sample(subject.loaded, spec, pool, arms)
            if not record.note(turned) or turned.sample is None:
                return False
            samples.append(turned.sample)
        record.add_round(seed, samples)
        return True

    def _is_far_behind(self, record: Record) -> bool:
        """Whether one round already shows a loss of five standard deviations."""
        evidence = record.evidence()
        last = weighted_logs(evidence, "baseline")[-1]
        return last < -evidence.policy.clip_sigmas * evidence.noise["x"]

    def _take_up(self, task: LoadedTask) -> tuple[WorkloadSpec, ...]:
        """Turn to a task: memory and draws of the one before are given back."""
        if self._current != task.digest:
            self.bench.forget()
            self._pools.clear()
            self._current = task.digest
        return tune_specs(task)

    def _restart(self) -> None:
        """Begin again in cold processes."""
        self.bench.forget()
        self._pools.clear()
        self.bench.trio.end()
        self.bench.trio = Trio.start(self._library, self._cores)
        self._current = ""

    def _record(
        self,
        phase: Phase,
        task: LoadedTask,
        kernels: tuple[Built, Built, Built | None],
        specs: Sequence[WorkloadSpec],
        *,
        noise: Mapping[str, float] | None = None,
        policy: Policy | None = None,
    ) -> Record:
        candidate, baseline, origin = kernels
        subject = Subject(
            phase=phase,
            loaded=task,
            candidate=candidate,
            baseline=baseline,
            origin=origin,
            target=self._environment.target,
            environment=self._environment.id,
            harness=self._harness,
            policy=policy or Policy(),
            noise=noise or {},
            missing_layers=self._missing,
        )
        return Record(subject=subject, specs=list(specs))


def _judged(record: Record) -> Judged:
    evidence, verdict = record.verdict()
    return Judged(evidence=evidence, verdict=verdict)
