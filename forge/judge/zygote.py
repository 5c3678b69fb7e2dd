"""The process from which arms and builders are forked: torch imported, nothing run.

It runs no candidate code itself and answers one request at a time. (fork after any OpenMP
operation hangs, and a fork with torch loaded costs about 10 ms against 1.3 s for a fresh one.)
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.judge import sandbox
from forge.judge.arm import ArmFailure, ArmSpec, run_arm
from forge.judge.builder import BuildSpec, run_build
from forge.judge.channel import Channel, ChannelClosed
from forge.judge.control import ControlPage, Word
from forge.judge.memory import tell_exhaustion
from forge.judge.native.library import Native
from forge.judge.processes import raise_priority
from forge.judge.provenance import computing_operators, refuse_calls

if TYPE_CHECKING:
    from forge.judge.namespaces import ProcessNamespaces
    from forge.judge.sandbox import Walls

_COPY_BYTES = 1 << 20
_COMPILER_PARTS = (
    "torch._inductor.compile_fx",
    "torch._inductor.compiler_bisector",
    "torch.export._trace",
    "torch.utils.cpp_extension",
)
_INDUCTOR_FOLDER = "torch._inductor.runtime.cache_dir_utils"


def main(arguments: list[str]) -> int:
    """Serve requests on the socket whose descriptor is the first argument.

    Args:
        arguments: Descriptor of the channel; path of the native library; for rivals alone, the
            folder in which torch.compile keeps what it makes.
    """
    channel = Channel(socket.socket(fileno=int(arguments[0])))
    native = Native.load(Path(arguments[1]))
    sandbox.die_with_parent()
    writable: dict[str, str] = {}
    for folder in arguments[2:]:
        # Imported here, before any fork: each arm would spend a second on it. It also keeps some
        # of what it makes in a folder of its own choice, whatever it is told.
        for name in _COMPILER_PARTS:
            importlib.import_module(name)
        writable[folder] = folder
        writable[importlib.import_module(_INDUCTOR_FOLDER).default_cache_dir()] = folder
    with contextlib.suppress(ChannelClosed):
        try:
            walls = sandbox.survey(writable)
            forks = sandbox.enter_zygote_walls(walls)
        except OSError as error:
            channel.send({"fault": f"The sandbox cannot be built: {error}."})
            return 1
        computing_operators()
        # Once, here: a collection in each child would cost 80 ms, and one in a burst its time.
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            channel.send({"ready": True, "missing": walls.missing, "reason": walls.reason})
            _Server(channel, native, walls, forks).serve()
        finally:
            walls.remove()
    return 0


class _Server:
    """Forks a child for each request."""

    def __init__(
        self,
        channel: Channel,
        native: Native,
        walls: Walls,
        forks: ProcessNamespaces | None,
    ) -> None:
        self._channel = channel
        self._native = native
        self._walls = walls
        self._forks = forks
        self._own = os.pidfd_open(os.getpid())
        # Resident memory at which a child is taken to have met its limit, by process.
        self._full: dict[int, int] = {}

    def serve(self) -> None:
        """Answer requests until told to end; ``ChannelClosed`` when the coordinator is gone."""
        while True:
            message, fds = self._channel.receive()
            if message["op"] == "end":
                return
            if message["op"] == "reap":
                self._channel.send(self._reap(message["pid"]))
                continue
            try:
                pid = self._forks.fork() if self._forks else os.fork()
            except OSError as error:
                self._channel.send({"fault": f"fork: {error}"})
                continue
            if pid == 0:
                sandbox.die_with_parent()
                if select.select([self._own], [], [], 0)[0]:
                    os._exit(1)  # the zygote ended before anybody could tell its child
                os.close(self._own)
                self._channel.close()
                _child(message, fds, self._native, self._walls)
            memory = int(message["spec"].get("memory_bytes", 0))
            self._full[pid] = _resident_bytes() + memory * 3 // 4 if memory else 0
            pidfd = os.pidfd_open(pid)
            self._channel.send({"pid": pid}, [pidfd])
            for fd in (pidfd, *fds):
                os.close(fd)

    def _reap(self, pid: int) -> dict[str, Any]:
        """Wait for a child that has ended; say how, and whether it had used up its memory."""
        if self._walls.kind == "none":
            # Nothing else ends what a builder has started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        if self._walls.kind == "none":
            shutil.rmtree(sandbox.scratch_of(self._walls, pid), ignore_errors=True)
        full = self._full.pop(pid, 0)
        return {"status": status, "is_exhausted": 0 < full <= usage.ru_maxrss * 1024}


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _child(message: dict[str, Any], fds: list[int], native: Native, walls: Walls) -> None:
    """Run one request and end. Whatever happens in here is told by a word on the control page."""
    control = ControlPage(fds[0])
    _silence()
    try:
        if walls.kind == "none":
            os.setsid()
        sandbox.make_scratch(walls)
        tempfile.tempdir = str(Path.cwd())
        if message["op"] == "build":
            build = BuildSpec.model_validate(message["spec"], strict=False)
            sandbox.close_walls(walls, build.limits())
            run_build(build, fds[1], control)
        else:
            spec = ArmSpec.model_validate(message["spec"], strict=False)
            spec, fds = _place_library(spec, fds)
            _enter_arm(spec, walls, control)
            run_arm(spec, fds, native)
        # Nothing is left to do; the coordinator kills this process when it has read its word.
        while True:
            signal.pause()
    except ArmFailure as failure:
        control.say(failure.word, failure.text)
    except MemoryError:
        control.say(Word.OUT_OF_MEMORY, "out of memory")
    except BaseException:  # noqa: BLE001  (the sandbox boundary: a candidate may raise anything)
        text = traceback.format_exc(limit=-4)
        is_memory = "DefaultCPUAllocator" in text or "MemoryError" in text
        control.say(Word.OUT_OF_MEMORY if is_memory else Word.PYTHON_ERROR, text)
    os._exit(1)


def _enter_arm(spec: ArmSpec, walls: Walls, control: ControlPage) -> None:
    os.sched_setaffinity(0, spec.cores)
    raise_priority()
    limits = sandbox.Limits(memory_bytes=spec.memory_bytes)
    if spec.language == "compiled":
        # torch.compile's precompiled header alone has 300 MB.
        limits = replace(limits, allow_processes=True, file_bytes=1 << 30)
    sandbox.close_walls(walls, limits)
    if spec.language in ("cpp", "py"):
        tell_exhaustion(control)
    if spec.language == "py":
        refuse_calls(spec.allowed_calls, control)


def _place_library(spec: ArmSpec, fds: list[int]) -> tuple[ArmSpec, list[int]]:
    """Copy a built library into this arm's scratch, where the loader can open it."""
    if spec.language != "cpp":
        return spec, fds
    library = fds[5]
    path = Path.cwd() / "kernel.so"
    with path.open("wb") as out:
        offset = 0
        while part := os.pread(library, _COPY_BYTES, offset):
            out.write(part)
            offset += len(part)
    os.close(library)
    return spec.model_copy(update={"entry": str(path)}), fds[:5]


def _silence() -> None:
    """A candidate may print as much as it likes; nobody reads it."""
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
