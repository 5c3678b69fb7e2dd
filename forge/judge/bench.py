"""One sample: every arm's burst on one workload, on one pool of draws, one after the other.

The order of events is the defence. Every arm is forked, warmed up on throwaway draws and stopped;
only then are the draws written. One arm after the other gets its turn: the clock starts before the
stopped arm can run and stops at its word, and then it is stopped again. All are killed before any
output is compared. See ``docs/judge.md``.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.errors import HarnessFault
from forge.judge.arms import Arm, ArmEnded, Runnable, start_arm
from forge.judge.evidence import Finding, NumericError, Sample
from forge.judge.layout import BurstLayout, as_json, plan
from forge.judge.lease import Lease
from forge.judge.memory import MemoryFile, MemoryFiles
from forge.judge.native.library import POISON
from forge.judge.processes import raise_priority

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.judge.evidence import Arm as Role
    from forge.judge.evidence import WorkloadSpec
    from forge.judge.native.library import Native
    from forge.judge.processes import Cores, Process, Trio
    from forge.tasks.load import LoadedTask

WARM_DRAWS = 2
PROBES = 256
BURST_S = 20
"""Longest burst; a task's own sizes make milliseconds, so only a hung kernel meets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A burst's worth of secret draws of one workload.

    Attributes:
        key: Name in feeder and oracle.
        seeds: One per call.
        is_kept: Whether other candidates' arms will see the same draws (screens only; every
            arm process still sees them once).
    """

    key: str
    seeds: tuple[int, ...]
    is_kept: bool = False

    @classmethod
    def of(cls, key: str, round_seed: bytes, calls: int, *, is_kept: bool = False) -> Pool:
        """Derive the seeds of a pool from a round's secret seed."""
        seeds = tuple(
            int.from_bytes(hashlib.sha256(round_seed + f"/{key}/{i}".encode()).digest()[:7], "big")
            for i in range(calls)
        )
        return cls(key=key, seeds=seeds, is_kept=is_kept)


@dataclass(slots=True)
class Turned:
    """What one sample showed.

    Attributes:
        sample: The times; ``None`` when an arm did not finish.
        findings: What the candidate failed.
        error: The candidate's worst numeric error.
        device_s: Seconds the measured cores were held.
    """

    sample: Sample | None = None
    findings: list[Finding] = field(default_factory=list[Finding])
    error: NumericError | None = None
    device_s: float = 0.0


class Bench:
    """Runs samples. Knows processes, memory and the clock, and nothing of decisions."""

    def __init__(self, trio: Trio, native: Native, cores: Cores) -> None:
        self.trio = trio
        self.native = native
        self.cores = cores
        self._files = MemoryFiles()
        self._prepared: dict[str, bool] = {}
        self._owed: dict[tuple[str, frozenset[Role]], tuple[Role, ...]] = {}
        self._lease = Lease()
        self.compiling: Process | None = None
        """The zygote of arms that may run a compiler (rivals), where there is one."""
        guarded = np.array(cores.arms, dtype=np.int64)
        native.library.forge_guard_cores(guarded.ctypes.data, len(guarded))

    def sample(
        self,
        loaded: LoadedTask,
        spec: WorkloadSpec,
        pool: Pool,
        arms: Mapping[Role, Runnable],
    ) -> Turned:
        """Run one burst of every arm on the same draws, in random order, and check every output.

        Args:
            loaded: The task.
            spec: The workload.
            pool: The draws; one per call of ``spec``.
            arms: Kernel by role.

        Raises:
            HarnessFault: A process of ours failed, or an arm other than the candidate did.
        """
        with self._lease.held():
            return _Turn(self, loaded, spec, pool, arms).run()

    def close(self) -> None:
        """End the processes and give everything back."""
        self.forget()
        self.trio.end()
        self._lease.close()

    def forget(self, *, keep: Sequence[str] = ()) -> None:
        """Drop every prepared pool but those in ``keep``, and all shared memory."""
        for key in [k for k in self._prepared if k not in keep]:
            self.drop(key)
        self._files.clear()
        self._owed.clear()

    def file(self, role: str, size: int) -> MemoryFile:
        """Return the memory file of a role."""
        return self._files.get(role, size)

    def prepare(self, loaded: LoadedTask, spec: WorkloadSpec, pool: Pool) -> None:
        """Let feeder and oracle make a pool; their answers are awaited by ``settle``."""
        if pool.key in self._prepared:
            return
        self._prepared[pool.key] = True
        message: dict[str, Any] = {
            "folder": str(loaded.folder),
            "axes": spec.axes,
            "distribution": spec.distribution,
            "seeds": pool.seeds,
            "pool": pool.key,
            "threads": len(self.cores.all),
        }
        self.trio.oracle.send("prepare", **message)
        self.trio.feeder.send("prepare", **message)

    def settle(self) -> None:
        """Wait until feeder and oracle are idle, as they are whenever a clock runs."""
        self.trio.feeder.settle()
        self.trio.oracle.settle()

    def order_of_turns(self, workload: str, roles: tuple[Role, ...]) -> tuple[Role, ...]:
        """Return a random order, and the next time its reverse.

        Who comes first finds everything a little colder (3 % of a burst of 3 ms): over two samples
        that cancels, where a fresh order each time would leave it as noise.
        """
        order = self._owed.pop((workload, frozenset(roles)), None)
        if order is None:
            shuffled = list(roles)
            secrets.SystemRandom().shuffle(shuffled)
            order = tuple(shuffled)
            self._owed[workload, frozenset(roles)] = order[::-1]
        return order

    def drop(self, key: str) -> None:
        """Let feeder and oracle forget a pool."""
        if self._prepared.pop(key, None):
            self.trio.feeder.send("drop", pool=key)
            self.trio.oracle.send("drop", pool=key)


class _Turn:
    """The state of one sample while it runs."""

    def __init__(
        self,
        bench: Bench,
        loaded: LoadedTask,
        spec: WorkloadSpec,
        pool: Pool,
        arms: Mapping[Role, Runnable],
    ) -> None:
        self._bench = bench
        self._loaded = loaded
        self._spec = spec
        self._pool = pool
        self._kernels = arms
        self._axes = loaded.task.resolve(spec.axes)
        self._timed = plan(loaded.task, self._axes, spec.offset, spec.calls)
        self._warm = plan(loaded.task, self._axes, spec.offset, WARM_DRAWS)
        shape = f"{loaded.digest[:12]}/{spec.id}/{sorted(spec.axes.items())}/{spec.distribution}"
        self._warm_pool = Pool.of(
            f"warm/{shape}", secrets.token_bytes(32), WARM_DRAWS, is_kept=True
        )
        # Which memory an arm gets is drawn anew, so that no pages favour a role.
        slots = list(range(len(arms)))
        secrets.SystemRandom().shuffle(slots)
        self._slots = dict(zip(arms, slots, strict=True))
        self._arms: dict[Role, Arm] = {}
        self._result = Turned()

    def run(self) -> Turned:
        bench = self._bench
        bench.prepare(self._loaded, self._spec, self._warm_pool)
        bench.settle()
        try:
            self._publish(self._warm_pool, self._warm, bench.file(*self._warm_in()))
            # Made while the arms start, who are not timed then.
            bench.prepare(self._loaded, self._spec, self._pool)
            inputs = bench.file(self._role("in"), self._timed.inputs.size)
            if self._take_turns(inputs):
                self._compare_all(inputs)
        finally:
            if not self._pool.is_kept:
                bench.drop(self._pool.key)
        return self._result

    def _take_turns(self, inputs: MemoryFile) -> bool:
        """Start all arms, write the draws, and run one arm after the other.

        Returns:
            Whether all of them finished.
        """
        bench, library = self._bench, self._bench.native.library
        order = bench.order_of_turns(self._spec.id, tuple(self._kernels))
        bursts: dict[Role, int] = {}
        role = order[0]
        # Before its clock runs, no arm may find what arms of an earlier sample were given.
        library.forge_fill(inputs.address, inputs.size // 4, POISON)
        try:
            for role in order:
                self._arms[role] = self._start(role, inputs)
            bench.settle()
            self._publish(self._pool, self._timed, inputs)
            for role in order:
                bursts[role] = self._burst(self._arms[role], inputs)
            for role in order:
                self._arms[role].finish()
        except ArmEnded as ended:
            self._fail(role, ended)
            return False
        finally:
            for arm in self._arms.values():
                arm.kill()
        self._result.device_s += sum(bursts.values()) / 1e9
        self._result.sample = Sample(workload=self._spec.id, order=order, burst_ns=bursts)
        return True

    def _start(self, role: Role, inputs: MemoryFile) -> Arm:
        """Fork an arm, let it warm up, and stop it."""
        bench, library = self._bench, self._bench.native.library
        warm_out, out = self._outputs(self._slots[role])
        for file in (warm_out, out):
            library.forge_fill(file.address, file.size // 4, POISON)
        kernel = self._kernels[role]
        return start_arm(
            bench,
            kernel,
            self._arm_spec(kernel),
            (bench.file(*self._warm_in()), warm_out),
            (inputs, out),
        )

    def _burst(self, arm: Arm, inputs: MemoryFile) -> int:
        """Make everything cold, and let one stopped arm go; the others stand still."""
        library = self._bench.native.library
        arm.probes = self._probes()
        for file in (inputs, arm.outputs):
            library.forge_flush(file.address, file.size)
        library.forge_prepare_cores()
        before = raise_priority()
        try:
            return arm.take_turn(int(BURST_S * 1e9))
        finally:
            os.setpriority(os.PRIO_PROCESS, 0, before)

    def _role(self, kind: str) -> str:
        return f"{self._spec.id}/{kind}"

    def _warm_in(self) -> tuple[str, int]:
        return self._role("warm-in"), self._warm.inputs.size

    def _outputs(self, slot: int) -> tuple[MemoryFile, MemoryFile]:
        bench = self._bench
        return (
            bench.file(self._role(f"warm-out-{slot}"), self._warm.outputs.size),
            bench.file(self._role(f"out-{slot}"), self._timed.outputs.size),
        )

    def _publish(self, pool: Pool, layout: BurstLayout, file: MemoryFile) -> None:
        self._bench.trio.feeder.call(
            "publish", [file.fd], pool=pool.key, layout=as_json(layout.inputs)
        )

    def _arm_spec(self, kernel: Runnable) -> dict[str, Any]:
        task = self._loaded.task
        return {
            "language": kernel.language,
            "entry": kernel.entry,
            "warm_inputs": as_json(self._warm.inputs),
            "warm_outputs": as_json(self._warm.outputs),
            "inputs": as_json(self._timed.inputs),
            "outputs": as_json(self._timed.outputs),
            "axes": [self._axes[name] for name in task.var_axes],
            "allowed_calls": list(task.allow.framework),
            "warm_calls": max(WARM_DRAWS, self._spec.calls),
            "threads": len(self._bench.cores.arms),
            "cores": self._bench.cores.arms,
        }

    def _fail(self, role: Role, ended: ArmEnded) -> None:
        if role != "candidate":
            raise HarnessFault(f"The {role} arm ended: {ended.check}: {ended.reason}.")
        self._result.findings.append(
            Finding(check=ended.check, reason=ended.reason, workload=self._spec.id)
        )

    def _probes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        rng = np.random.default_rng(secrets.randbits(64))
        regions = [r for call in self._timed.outputs.calls for r in call if r.span_bytes]
        if not regions:
            return np.zeros(0, dtype=np.int64)
        picked = rng.integers(len(regions), size=PROBES)
        starts = np.array([r.start for r in regions])[picked]
        words = np.array([r.span_bytes // 4 for r in regions])[picked]
        return (starts + 4 * rng.integers(words)).astype(np.int64)

    def _compare_all(self, inputs: MemoryFile) -> None:
        call = secrets.randbelow(self._spec.calls)
        intact = self._bench.trio.feeder.call(
            "intact",
            [inputs.fd],
            pool=self._pool.key,
            call=call,
            layout=as_json(self._timed.inputs),
        )
        if not intact["intact"]:
            self._fail("candidate", ArmEnded("inputs-intact", f"an input of call {call} changed"))
        for role, arm in self._arms.items():
            if arm.has_late_write():
                reason = "an output changed after the kernel had said it was done"
                self._fail(role, ArmEnded("late-write", reason))
            for pool, layout, file in (
                (self._warm_pool, self._warm, arm.warm_outputs),
                (self._pool, self._timed, arm.outputs),
            ):
                self._compare(role, pool, layout, file)

    def _compare(self, role: Role, pool: Pool, layout: BurstLayout, file: MemoryFile) -> None:
        report = self._bench.trio.oracle.call(
            "compare", [file.reader], pool=pool.key, layout=as_json(layout.outputs)
        )
        for check, count in (
            ("canary", report["canary"]),
            ("outputs-unwritten", report["unwritten"]),
            ("wrong-nan", report["wrong_nan"]),
            ("wrong-values", report["wrong"]),
        ):
            if count:
                what = report["first"] or f"{count} words beside the outputs were overwritten"
                where = f"{self._spec.split} workload {_axes_text(self._spec.axes)}"
                self._fail(role, ArmEnded(check, f"{where}, {self._spec.distribution}: {what}"))
                break
        if role == "candidate":
            self._note_error(report)

    def _note_error(self, report: Mapping[str, Any]) -> None:
        worst = self._result.error
        if worst is None or report["worst_ratio"] > worst.worst_ratio:
            self._result.error = NumericError(
                workload=self._spec.id,
                max_error=report["max_error"],
                allowed_error=report["allowed_error"],
                worst_ratio=max(0.0, report["worst_ratio"]),
            )


def _axes_text(axes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in axes.items())
