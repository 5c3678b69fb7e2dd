"""The coordinator's hold on arms: start one, stop it, give it its turn, kill it."""

from __future__ import annotations

import contextlib
import os
import signal
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.errors import HarnessFault
from forge.judge.control import GO, STATE, ControlPage, Go, Word
from forge.judge.control import PAGE_BYTES as CONTROL_BYTES

if TYPE_CHECKING:
    from forge.judge.base import Built
    from forge.judge.bench import Bench
    from forge.judge.memory import MemoryFile
    from forge.judge.native.library import Native
    from forge.judge.processes import Process

READY_S = 20
COPY_S = 60
COMPILE_S = 180
CANDIDATE_MEMORY = 1 << 30
TRUSTED_MEMORY = 8 << 30
_TIMED_OUT, _DIED = -1, -2

_CHECKS = {
    Word.LOADS: "loads",
    Word.LACKS_LAUNCH: "has-launch",
    Word.PYTHON_ERROR: "python-error",
    Word.OUT_OF_MEMORY: "out-of-memory",
    Word.FORBIDDEN_CALL: "forbidden-call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runnable:
    """What an arm is asked to run.

    Attributes:
        language: As ``ArmSpec`` has it.
        entry: Text of the entry file for what is not compiled; for ``native`` the function.
        library: The shared library, for what is.
    """

    language: str
    entry: str = ""
    library: Path | None = None

    @classmethod
    def of(cls, kernel: Built) -> Runnable:
        """Return how a built kernel is run."""
        source = kernel.source
        text = "" if kernel.library else source.files[source.entry]
        return cls(language=source.language, entry=text, library=kernel.library)


class ArmEnded(Exception):
    """An arm did not do what it was asked to."""

    def __init__(self, check: str, reason: str) -> None:
        super().__init__(reason)
        self.check = check
        self.reason = reason


@dataclass(slots=True)
class Arm:
    """One forked process that runs one kernel once."""

    native: Native
    zygote: Process
    control: ControlPage
    pidfd: int
    is_trusted: bool
    """Whether it copies its results after the clock has stopped (a reference)."""
    warm_outputs: MemoryFile
    outputs: MemoryFile
    probes: np.ndarray[Any, np.dtype[np.int64]] = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64)
    )
    seen: np.ndarray[Any, np.dtype[np.uint32]] = field(
        default_factory=lambda: np.zeros(0, dtype=np.uint32)
    )
    is_dead: bool = False
    pid: int = 0
    """As the coordinator's namespace counts."""
    inner_pid: int = 0
    """As the zygote's namespace counts."""
    status: int | None = None
    is_exhausted: bool = False
    """Whether it had used up its memory when it ended."""

    def await_word(self, word: Word, limit_s: float, doing: str) -> None:
        """Wait for the arm's word; ``ArmEnded`` with the reason if it does not come."""
        page = self._page()
        code = self.native.library.forge_await(
            page + STATE, int(word), self.pidfd, int(limit_s * 1e9)
        )
        if code != 0:
            raise self._ended(code, doing, limit_s)

    def stop(self) -> None:
        """Stop every thread of the arm and wait until none runs."""
        signal.pidfd_send_signal(self.pidfd, signal.SIGSTOP)
        tasks = Path(f"/proc/{self.pid}/task")
        for _ in range(100_000):
            states = [_state(task) for task in tasks.iterdir()]
            if all(state in "TtXZ" for state in states):
                return
            os.sched_yield()
        raise HarnessFault(f"Process {self.pid} does not stop.")

    def take_turn(self, limit_ns: int) -> int:
        """Run the burst by the coordinator's clock, stop, and return its nanoseconds."""
        self.seen = np.zeros(len(self.probes), dtype=np.uint32)
        page = self._page()
        spent = self.native.library.forge_turn(
            page + GO,
            page + STATE,
            self.pidfd,
            limit_ns,
            self.outputs.address,
            self.probes.ctypes.data,
            self.seen.ctypes.data,
            0 if self.is_trusted else len(self.probes),
        )
        if spent < 0:
            raise self._ended(spent, "in its burst", limit_ns / 1e9)
        self.stop()
        return spent

    def finish(self) -> None:
        """Let a reference copy its results, now that no clock runs, and kill the arm."""
        if self.is_trusted:
            struct.pack_into("Q", self.control.memory, GO, Go.COPY)
            signal.pidfd_send_signal(self.pidfd, signal.SIGCONT)
            self.await_word(Word.COPIED, COPY_S, "copying its results")
        self.kill()

    def has_late_write(self) -> bool:
        """Whether a probed output word is not what it was when the arm said done."""
        if self.is_trusted:
            return False
        now = self.outputs.words()[self.probes // 4]
        return bool(np.any(now != self.seen))

    def kill(self) -> None:
        """Kill the arm with all it started, and wait until it is gone."""
        if self.is_dead:
            return
        self.is_dead = True
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        answer = self.zygote.call("reap", pid=self.inner_pid)
        self.status, self.is_exhausted = answer["status"], answer["is_exhausted"]
        os.close(self.pidfd)
        self.control.close()

    def _page(self) -> int:
        return int(np.frombuffer(self.control.memory, dtype=np.uint8).ctypes.data)

    def _ended(self, code: int, doing: str, limit_s: float) -> ArmEnded:
        word, text = self.control.word(), self.control.text()
        if code == _TIMED_OUT:
            self.kill()
            return ArmEnded("hung", f"no answer within {limit_s:.0f} s {doing}")
        if code == _DIED and word < Word.LOADS:
            self.kill()
            if self.is_exhausted:
                return ArmEnded("out-of-memory", f"died of using all its memory {doing}")
            return _died(self.status or 0, doing)
        self.kill()
        if self.is_trusted and word == Word.COLD_MEMORY:
            raise HarnessFault(f"The reference's time would be wrong: {text.strip()}.")
        known = word in list(Word) and Word(word) in _CHECKS
        if not known:
            # No word of ours: the candidate wrote it. A fault would buy it another try.
            return ArmEnded("crashed", f"wrote {word} where an arm says how it stands ({doing})")
        return ArmEnded(_CHECKS[Word(word)], f"{text.strip()[-500:]} ({doing})")


def _died(status: int, doing: str) -> ArmEnded:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        hint = {
            "SIGABRT": ": an uncaught exception, or memory beyond the limit of 1 GiB",
            "SIGSEGV": ": a wrong address, or memory beyond the limit of 1 GiB",
            "SIGXCPU": ": more processor time than is allowed",
            "SIGILL": ": an instruction this machine does not have",
        }.get(name, "")
        return ArmEnded("crashed", f"ended by {name} {doing}{hint}")
    return ArmEnded("exited-early", f"exited with {os.WEXITSTATUS(status)} {doing}")


def _state(task: Path) -> str:
    try:
        return (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def start_arm(
    bench: Bench,
    kernel: Runnable,
    spec: dict[str, Any],
    warm: tuple[MemoryFile, MemoryFile],
    timed: tuple[MemoryFile, MemoryFile],
) -> Arm:
    """Fork an arm, let it warm up, and stop it.

    Args:
        bench: Processes and machine code.
        kernel: What it runs.
        spec: ``ArmSpec`` as JSON, without its memory limit.
        warm: Throwaway inputs and outputs.
        timed: Inputs (still without draws) and outputs of the burst.

    Raises:
        ArmEnded: The kernel failed before it was ready.
    """
    is_trusted = kernel.language in ("reference", "compiled")
    memory = TRUSTED_MEMORY if is_trusted else CANDIDATE_MEMORY
    mapped = sum(file.size for file in (*warm, *timed))
    page = os.memfd_create("forge-control", os.MFD_CLOEXEC)
    os.ftruncate(page, CONTROL_BYTES)
    fds = [page, warm[0].reader, warm[1].fd, timed[0].reader, timed[1].fd]
    library = os.open(kernel.library, os.O_RDONLY) if kernel.library else None
    zygote = bench.trio.zygote
    if kernel.language == "compiled" and bench.compiling is not None:
        zygote = bench.compiling
    zygote.settle()
    zygote.send(
        "arm",
        fds if library is None else [*fds, library],
        spec={**spec, "memory_bytes": memory + mapped},
    )
    answer, received = zygote.answer()
    control = ControlPage(page)
    os.close(page)
    if library is not None:
        os.close(library)
    arm = Arm(
        native=bench.native,
        zygote=zygote,
        control=control,
        pidfd=received[0],
        is_trusted=is_trusted,
        warm_outputs=warm[1],
        outputs=timed[1],
        pid=pid_of(received[0]),
        inner_pid=answer["pid"],
    )
    try:
        limit = COMPILE_S if kernel.language == "compiled" else READY_S
        arm.await_word(Word.READY, limit, "while warming up")
        arm.stop()
    except BaseException:  # cleaned up, then raised again
        arm.kill()
        raise
    return arm


def pid_of(pidfd: int) -> int:
    """Return the process id behind a descriptor, as this process's namespace counts."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text(encoding="ascii").splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    raise HarnessFault("A process descriptor without a process.")
