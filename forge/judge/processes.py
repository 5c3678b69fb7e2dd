"""Start and speak to the judge's own processes: zygote, feeder, oracle."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from forge.errors import HarnessFault
from forge.judge.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Nothing of the user's environment reaches a process of the judge.
_PATH = "/usr/local/bin:/usr/bin:/bin"
_END_S = 5
_FIRST = -20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Which cores do what (DESIGN.md section 4, "Fairness").

    Attributes:
        coordinator: The core of the clock, and of everything else that is not an arm.
        arms: All others; the same one where there is only one.
    """

    coordinator: int
    arms: tuple[int, ...]

    @classmethod
    def share_out(cls, available: Sequence[int]) -> Cores:
        """Give the first core to the coordinator and the others to arms."""
        ordered = sorted(available)
        return cls(coordinator=ordered[0], arms=tuple(ordered[1:] or ordered))

    @property
    def all(self) -> tuple[int, ...]:
        """Every core, for work that is not timed."""
        return tuple(sorted({self.coordinator, *self.arms}))


def raise_priority() -> int:
    """Let this thread go before the host's other work, where the host allows it.

    Returns:
        The niceness it had.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST)
    return before


@dataclass(slots=True)
class Process:
    """One running process and the channel to it. One request at a time."""

    name: str
    child: subprocess.Popen[bytes]
    channel: Channel
    hello: dict[str, Any] = field(default_factory=dict[str, Any])
    pending: int = 0
    """Answers still owed."""

    def send(self, op: str, fds: Sequence[int] = (), **fields: object) -> None:
        """Send a request without waiting for its answer."""
        self.channel.send({"op": op, **fields}, fds)
        self.pending += 1

    def answer(self) -> tuple[dict[str, Any], list[int]]:
        """Wait for the oldest answer; ``HarnessFault`` if the process failed."""
        message, fds = self.channel.receive()
        self.pending -= 1
        if "fault" in message:
            raise HarnessFault(f"The {self.name} failed: {message['fault']}")
        return message, fds

    def settle(self) -> None:
        """Wait for every answer still owed."""
        while self.pending:
            self.answer()

    def call(self, op: str, fds: Sequence[int] = (), **fields: object) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self.settle()
        self.send(op, fds, **fields)
        return self.answer()[0]

    def end(self) -> None:
        """End the process; it is killed if it does not go."""
        with contextlib.suppress(HarnessFault):
            self.channel.send({"op": "end"})
        self.channel.close()
        try:
            self.child.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def start(name: str, arguments: Sequence[str], threads: int, cores: Sequence[int]) -> Process:
    """Start ``forge.judge.<name>`` without waiting until it is ready.

    Args:
        name: Module under ``forge.judge``.
        arguments: What follows the channel's descriptor on its command line.
        threads: OpenMP threads.
        cores: Cores it may use.
    """
    ours, theirs = socket.socketpair()
    environment = {
        "PATH": _PATH,
        "LC_ALL": "C.UTF-8",
        "HOME": "/nonexistent",
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        **(
            {"TORCHINDUCTOR_CACHE_DIR": arguments[1]} if name == "zygote" and arguments[1:] else {}
        ),
    }
    command = [sys.executable, "-I", "-m", f"forge.judge.{name}", str(theirs.fileno()), *arguments]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        child = subprocess.Popen(  # noqa: S603  (this interpreter, our own module)
            command,
            env=environment,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            # A terminal's Ctrl-C is the coordinator's to hear: it ends what it measures first.
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, before)
    theirs.close()
    return Process(name=name, child=child, channel=Channel(ours), pending=1)


def await_ready(process: Process) -> None:
    """Wait until the process has said hello."""
    process.hello = process.answer()[0]


@dataclass(slots=True)
class Trio:
    """The processes beside the coordinator, started together."""

    zygote: Process
    feeder: Process
    oracle: Process

    @classmethod
    def start(cls, library: Path, cores: Cores) -> Trio:
        """Start all three at once (about 1.5 s, torch's import) and wait until they are ready."""
        trio = cls(
            zygote=start("zygote", [str(library)], len(cores.arms), cores.all),
            feeder=start("feeder", [], 1, cores.all),
            oracle=start("oracle", [str(library)], len(cores.all), cores.all),
        )
        for process in (trio.zygote, trio.feeder, trio.oracle):
            await_ready(process)
        return trio

    def end(self) -> None:
        """End all three."""
        for process in (self.zygote, self.feeder, self.oracle):
            process.end()
