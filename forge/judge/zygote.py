"""The process from which arms and builders are forked: torch imported, nothing run.

It runs no candidate code itself and answers one request at a time. (fork after any OpenMP
operation hangs, and a fork with torch loaded costs about 10 ms against 1.3 s for a fresh one.)
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from forge.judge import sandbox
from forge.judge.arm import ArmFailure, ArmSpec, run_arm
from forge.judge.builder import BuildSpec, run_build
from forge.judge.channel import Channel
from forge.judge.control import ControlPage, Word
from forge.judge.native.library import Native
from forge.judge.processes import raise_priority

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
    paths = sandbox.visible_paths()
    writable: dict[str, str] = {}
    for folder in arguments[2:]:
        # Imported here, before any fork: each arm would spend a second on it. It also keeps some
        # of what it makes in a folder of its own choice, whatever it is told.
        for name in _COMPILER_PARTS:
            importlib.import_module(name)
        writable[folder] = folder
        writable[importlib.import_module(_INDUCTOR_FOLDER).default_cache_dir()] = folder
    missing = sandbox.enter_namespaces()
    if not missing:
        pid = os.fork()
        if pid:
            channel.close()
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sandbox.die_with_parent()
        try:
            sandbox.build_root(paths, writable)
        except OSError as error:
            channel.send({"fault": f"The sandbox cannot be built: {error}."})
            return 1
    # Once, here: a collection in each child would cost 80 ms, and one in a burst its time.
    gc.collect()
    gc.freeze()
    gc.disable()
    channel.send({"ready": True, "missing": missing})
    return _serve(channel, native, has_namespaces=not missing)


def _serve(channel: Channel, native: Native, *, has_namespaces: bool) -> int:
    namespaces = sandbox.ProcessNamespaces() if has_namespaces else None
    # With namespaces each child mounts a scratch of its own over this folder.
    scratch = sandbox.SCRATCH if has_namespaces else tempfile.mkdtemp(prefix="forge-arms-")
    while True:
        message, fds = channel.receive()
        if message["op"] == "end":
            return 0
        if message["op"] == "reap":
            status = os.waitpid(message["pid"], 0)[1]
            shutil.rmtree(f"{scratch}/{message['pid']}", ignore_errors=True)
            channel.send({"status": status})
            continue
        try:
            pid = namespaces.fork() if namespaces else os.fork()
        except OSError as error:
            channel.send({"fault": f"fork: {error}"})
            continue
        if pid == 0:
            channel.close()
            if not has_namespaces:
                Path(scratch, str(os.getpid())).mkdir()
                os.chdir(Path(scratch, str(os.getpid())))
            _child(message, fds, native, has_namespaces=has_namespaces)
        pidfd = os.pidfd_open(pid)
        channel.send({"pid": pid}, [pidfd])
        for fd in (pidfd, *fds):
            os.close(fd)


def _child(
    message: dict[str, Any], fds: list[int], native: Native, *, has_namespaces: bool
) -> None:
    """Run one request and end. Whatever happens in here is told by a word on the control page."""
    control = ControlPage(fds[0])
    _silence()
    tempfile.tempdir = sandbox.SCRATCH if has_namespaces else str(Path.cwd())
    try:
        if message["op"] == "build":
            build = BuildSpec.model_validate(message["spec"], strict=False)
            sandbox.enter_arm_walls(build.limits(), has_namespaces=has_namespaces)
            run_build(build, fds[1], control)
        else:
            spec = ArmSpec.model_validate(message["spec"], strict=False)
            _enter_arm(spec, has_namespaces=has_namespaces)
            spec, fds = _place_library(spec, fds)
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


def _enter_arm(spec: ArmSpec, *, has_namespaces: bool) -> None:
    os.sched_setaffinity(0, spec.cores)
    raise_priority()
    limits = sandbox.Limits(memory_bytes=spec.memory_bytes)
    if spec.language == "compiled":
        # torch.compile's precompiled header alone has 300 MB.
        limits = replace(limits, allow_processes=True, file_bytes=1 << 30)
    sandbox.enter_arm_walls(limits, has_namespaces=has_namespaces)


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
