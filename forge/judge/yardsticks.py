"""What a kernel is compared with besides its baseline: the machine's roof, and rivals.

They run as arms like any kernel: same draws, same clock, same checks.
"""

from __future__ import annotations

import math
import secrets
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from forge.errors import HarnessFault
from forge.judge.arms import Runnable
from forge.judge.bench import Bench, Pool
from forge.judge.evidence import Finding
from forge.judge.processes import Process, await_ready, start
from forge.judge.samples_v1 import published_interval
from forge.judge.session import tune_specs
from forge.tasks.load import load_task
from forge.teacher.base import Roof

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge.judge.evidence import WorkloadSpec
    from forge.judge.session import Record
    from forge.tasks.load import LoadedTask
    from forge.types import Speedup

RIVALS = {"eager": "reference", "torch.compile": "compiled"}
_FOLDER = Path(__file__).with_name("roof")
# Trusted ways over memory: the fastest of them is the roof.
_YARDSTICKS = (
    ("roof_copy", "forge_copy"),
    ("roof_copy", "forge_stream_copy"),
    ("roof_read", "forge_read"),
)
_ROOF_ROUNDS = 3
_RIVAL_ROUNDS = 3
_SHARE_ROUNDS = 3
_FMA_ROUNDS = 2_000_000
_ROOF_MARGIN = 1.25


class Yardsticks:
    """Times trusted kernels and rivals on a bench."""

    def __init__(self, bench: Bench, library: Path, cache: Path, environment: str) -> None:
        self._bench = bench
        self._library = library
        self._inductor = cache / "inductor"
        self._environment = environment
        self._own: Process | None = None
        # Bursts of a kernel at its heaviest workload, taken beside rivals.
        self._seen: dict[Runnable, list[int]] = {}

    def roof(self) -> Roof:
        """Measure what an arm's threads can do at best."""
        best = 0.0
        fastest = float("inf")
        for folder, function in _YARDSTICKS:
            task = load_task(_FOLDER / folder)
            runnable = Runnable(language="native", entry=function)
            for spec in tune_specs(task):
                times = self._times(task, spec, runnable, _ROOF_ROUNDS)
                call_ns = min(times) / spec.calls
                fastest = min(fastest, call_ns)
                moved = task.task.bytes_moved(task.task.resolve(spec.axes))
                best = max(best, moved / (call_ns * 1e-9))
        self._bench.forget()
        rate = self._bench.native.library.forge_fma_rate(_FMA_ROUNDS)
        threads = len(self._bench.cores.arms)
        return Roof(
            bytes_per_s=best,
            flops_per_s=rate * threads,
            call_ns=fastest,
            environment=self._environment,
        )

    def share(self, task: LoadedTask, kernel: Runnable, roof: Roof) -> float:
        """Return the roof's time over the kernel's at the heaviest workload."""
        spec = heaviest(task)
        times = self._seen.get(kernel) or self._times(task, spec, kernel, _SHARE_ROUNDS)
        return roof_ns(task, spec, roof) / (statistics.median(times) / spec.calls)

    def rivals(
        self, task: LoadedTask, kernel: Runnable, names: Sequence[str]
    ) -> dict[str, Speedup]:
        """Return each rival's time over the kernel's at the heaviest workload.

        Raises:
            HarnessFault: A rival is unknown, or does not run this task.
        """
        spec = heaviest(task)
        found: dict[str, Speedup] = {}
        self._seen.clear()
        for name in names:
            if name not in RIVALS:
                raise HarnessFault(f"No rival {name!r}; known: {sorted(RIVALS)}.")
            rival = Runnable(language=RIVALS[name], entry=task.reference_source)
            if rival.language == "compiled":
                self._bench.compiling = self._compiling_zygote()
            logs = [self._ratio(task, spec, kernel, rival) for _ in range(_RIVAL_ROUNDS)]
            found[name] = published_interval(logs)
        return found

    def _ratio(
        self, task: LoadedTask, spec: WorkloadSpec, kernel: Runnable, rival: Runnable
    ) -> float:
        pool = Pool.of(f"rival/{spec.id}", secrets.token_bytes(32), spec.calls)
        turned = self._bench.sample(task, spec, pool, {"baseline": rival, "candidate": kernel})
        if turned.sample is None:
            raise HarnessFault(f"A sealed kernel failed beside a rival: {turned.findings}.")
        times = turned.sample.burst_ns
        self._seen.setdefault(kernel, []).append(times["candidate"])
        return math.log(times["baseline"] / times["candidate"])

    def _times(
        self, task: LoadedTask, spec: WorkloadSpec, kernel: Runnable, rounds: int
    ) -> list[int]:
        times: list[int] = []
        for _ in range(rounds):
            pool = Pool.of(f"yardstick/{spec.id}", secrets.token_bytes(32), spec.calls)
            turned = self._bench.sample(task, spec, pool, {"candidate": kernel})
            if turned.sample is None or turned.findings:
                raise HarnessFault(f"A trusted kernel failed: {turned.findings}.")
            times.append(turned.sample.burst_ns["candidate"])
        return times

    def _compiling_zygote(self) -> Process:
        """Start a zygote whose arms may run a compiler and keep what torch.compile makes.

        Only rivals run in it, so no candidate can reach that folder. It is kept for the next
        rival: its imports take 3 s.
        """
        if self._own is not None:
            return self._own
        self._inductor.mkdir(parents=True, exist_ok=True)
        self._inductor.chmod(0o777)
        cores = self._bench.cores
        arguments = [str(self._library), str(self._inductor)]
        process = start("zygote", arguments, len(cores.arms), cores.all)
        await_ready(process)
        self._own = process
        return process

    def close(self) -> None:
        """End the process that compiles rivals, if there is one."""
        if self._own is not None:
            self._own.end()
            self._own = None


def above_roof(task: LoadedTask, record: Record, roof: Roof) -> list[Finding]:
    """Return a finding for each tune workload on which the candidate beat the machine itself.

    By more than ``_ROOF_MARGIN``, over the median of its rounds: the roof has noise too.
    """
    findings: list[Finding] = []
    for spec in (s for s in record.specs if s.split == "tune"):
        times = [
            sample.burst_ns["candidate"] / spec.calls
            for round_ in record.rounds
            for sample in round_.samples
            if sample.workload == spec.id
        ]
        least, took = roof_ns(task, spec, roof), statistics.median(times)
        if took < least / _ROOF_MARGIN:
            reason = f"{took:.0f} ns a call on {spec.id}, and this machine needs {least:.0f} ns"
            findings.append(Finding(check="above-roof", reason=reason, workload=spec.id))
    return findings


def heaviest(task: LoadedTask) -> WorkloadSpec:
    """Return the tune workload that moves the most bytes."""
    return max(tune_specs(task), key=lambda s: task.task.bytes_moved(task.task.resolve(s.axes)))


def roof_ns(task: LoadedTask, spec: WorkloadSpec, roof: Roof) -> float:
    """Return the least time of one call: bytes and operations at the roof, whichever is longer."""
    axes = task.task.resolve(spec.axes)
    memory = task.task.bytes_moved(axes) / roof.bytes_per_s
    compute = task.task.operations(axes) / roof.flops_per_s
    return max(memory, compute) * 1e9
