"""The walls around candidate code: namespaces, an allow-list root, limits, a system-call filter.

Two stages. ``enter_zygote_walls`` runs once, in the zygote: a root file system that holds only
what Python and a compiler need (read-only), no network, no IPC, a process namespace of its own.
``make_scratch`` and ``close_walls`` run in each forked child, which is already process 1 of a
namespace of its own: private /proc and scratch, no privileges, limits, filter. Killing a child
kills its children. Which of it a host grants is found out by ``survey``, which tries it.

Run as a program it prints, as JSON, what the host lacks.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.judge import landlock, namespaces, seccomp
from forge.judge.namespaces import NOBODY, SCRATCH, Kind, ProcessNamespaces

if TYPE_CHECKING:
    from collections.abc import Mapping

_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 4, 1, 24
_LAST_CAP = 63
SCRATCH_BYTES, SCRATCH_FILES = 64 << 20, 1024
_REHEARSED_BYTES = 256 << 20
_FOLDER = "forge-arms-"

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one child may use.

    Attributes:
        memory_bytes: Address space beyond what the zygote already has mapped, and its scratch.
        cpu_s: Processor seconds.
        file_bytes: Largest file.
        processes: Processes and threads, beside those that the user has anyway.
        allow_processes: Whether it may start programs (a builder) or only threads (an arm).
        may_write: Whether it may write into its scratch where the scratch is not a file system
            of its own, whose size would be limited.
    """

    memory_bytes: int
    cpu_s: int = 120
    file_bytes: int = SCRATCH_BYTES
    processes: int = 256
    allow_processes: bool = False
    may_write: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Walls:
    """What this host grants.

    Attributes:
        kind: How namespaces are had.
        missing: The layers (``forge.judge.layers``) that are not.
        reason: What the host said when it was asked for more.
        paths: What candidates may read.
        writable: Folders of the host that may be written, by where they are seen: for rivals,
            never for candidates.
        scratch: Where children have their scratch.
        mapped_bytes: Address space of the zygote.
    """

    kind: Kind
    missing: tuple[str, ...] = ()
    reason: str = ""
    paths: tuple[str, ...]
    writable: Mapping[str, str]
    scratch: str = SCRATCH
    mapped_bytes: int

    def remove(self) -> None:
        """Remove the scratch, where it is a folder of the host."""
        if self.kind == "none":
            shutil.rmtree(self.scratch, ignore_errors=True)


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel kill this process when its parent ends.

    Args:
        parent: Who that is; a process whose parent has ended already then ends at once.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def visible_paths() -> list[str]:
    """Return what candidates may read: programs, libraries, this Python, its packages."""
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"]
    system += ["/etc/alternatives", "/sys/devices/system/cpu"]
    venv = [f"{sys.prefix}/{name}" for name in ("bin", "lib", "pyvenv.cfg")]
    python = [sys.base_prefix, *venv, *(p for p in sys.path if "-packages" in p)]
    return [p for p in dict.fromkeys(system + python) if Path(p).exists()]


def survey(writable: Mapping[str, str] | None = None) -> Walls:
    """Find the strongest walls this host grants, by building them around a child that then ends.

    Args:
        writable: As ``Walls`` has it.
    """
    mapped = resource.getpagesize() * int(_statm()[0])
    paths = tuple(visible_paths())
    kinds: tuple[Kind, ...] = ("root", "user") if os.getuid() == 0 else ("user",)
    walls = Walls(kind="none", paths=paths, writable=writable or {}, mapped_bytes=mapped)
    said: list[str] = []
    for kind in kinds:
        walls = replace(walls, kind=kind)
        answer = _rehearse(walls)
        if "problem" not in answer:
            return replace(walls, missing=tuple(answer["missing"]))
        said.append(answer["problem"])
    scratch = _folder_for_scratches()
    missing, reason = _lacking_without_namespaces(), "; ".join(dict.fromkeys(said))
    walls = replace(walls, kind="none", scratch=scratch, missing=missing, reason=reason)
    answer = _rehearse(walls)
    if "problem" in answer:
        walls.remove()
        raise OSError(answer["problem"])
    return replace(walls, missing=(*walls.missing, *answer["missing"]))


def _folder_for_scratches() -> str:
    """Make a folder of the host, and remove those whose zygote was killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError):
            if _hold(old):
                shutil.rmtree(old, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix=_FOLDER))
    made.chmod(0o711)
    _hold(made)
    return str(made)


def _hold(folder: Path) -> bool:
    """Hold a folder of ours until this process and its children end; whether nobody did."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(place).st_uid != os.getuid():
            raise PermissionError
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(place)
        return False
    return True


def _lacking_without_namespaces() -> tuple[str, ...]:
    files = () if landlock.version() else ("files",)
    user = () if os.getuid() == 0 else ("user",)  # root becomes nobody
    return (*files, "processes", "network", "ipc", *user)


def _rehearse(walls: Walls) -> dict[str, Any]:
    """Build the walls around a child; return what it lacked, or the problem it met."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            forks = enter_zygote_walls(walls)
            child = forks.fork() if forks else os.fork()
            if child == 0:
                make_scratch(walls)
                missing = close_walls(walls, Limits(memory_bytes=_REHEARSED_BYTES))
                os.write(writer, json.dumps({"missing": missing}).encode())
            else:
                os.waitpid(child, 0)
        except OSError as error:
            os.write(writer, json.dumps({"problem": error.strerror or str(error)}).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else {"problem": "a process behind the walls died"}


def enter_zygote_walls(walls: Walls) -> ProcessNamespaces | None:
    """Go behind the outer walls. Returns in a child: this process itself only waits for it.

    Returns:
        How to fork from now on; ``None`` where there are no namespaces.

    Raises:
        OSError: The host refuses.
    """
    if walls.kind == "none":
        return None
    namespaces.enter(walls.kind)
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)
    die_with_parent()
    forks = ProcessNamespaces()
    namespaces.build_root(walls.paths, walls.writable)
    return forks


def make_scratch(walls: Walls) -> None:
    """Make this child's scratch and go there."""
    if walls.kind != "none":
        namespaces.mount_scratch(SCRATCH_BYTES, SCRATCH_FILES)
        os.chdir(SCRATCH)
        return
    place = scratch_of(walls, os.getpid())
    place.mkdir()
    if os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    os.chdir(place)


def scratch_of(walls: Walls, pid: int) -> Path:
    """Return the scratch of a child where it is a folder of the host."""
    return Path(walls.scratch, str(pid))


def close_walls(walls: Walls, limits: Limits) -> list[str]:
    """Give up everything a candidate does not need. Called in the forked child, in its scratch.

    Returns:
        The layers that could not be had, of those that need no namespaces.
    """
    _limit(walls, limits)
    seccomp.no_new_privileges()
    if walls.kind == "none" and "files" not in walls.missing and not walls.writable:
        writable = ["/dev/null", *([str(Path.cwd())] if limits.may_write else [])]
        landlock.restrict([*walls.paths, "/dev/urandom", str(Path.cwd())], writable)
    parent = os.getppid()
    _drop_privileges(walls)
    # Becoming another user has undone it; without namespaces nothing else ends a child.
    die_with_parent(parent)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if not seccomp.is_supported():
        return ["seccomp"]
    try:
        seccomp.install(allow_processes=limits.allow_processes)
    except OSError:
        return ["seccomp"]
    return []


def _limit(walls: Walls, limits: Limits) -> None:
    processes = limits.processes + 4 * (os.cpu_count() or 1)
    if walls.kind == "none" and os.getuid() != 0:
        processes += _own_threads()
    for which, value in (
        # What lies in the scratch is memory too.
        (resource.RLIMIT_AS, walls.mapped_bytes + limits.memory_bytes - SCRATCH_BYTES),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _own_threads() -> int:
    """Count the threads of this user, which a limit on processes counts too."""
    count, me = 0, os.getuid()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == me:
                count += len(os.listdir(process / "task"))  # noqa: PTH208 - only counted
        except OSError:
            continue  # it has ended
    return count


def _drop_privileges(walls: Walls) -> None:
    if walls.kind == "none" and os.getuid() != 0:
        return
    for capability in range(_LAST_CAP + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if walls.kind != "user":
        # Real root: become another user. In a user namespace it has been one since it was made.
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    number = _SYS_CAPSET[os.uname().machine]
    if _libc.syscall(number, header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _statm() -> list[str]:
    return Path("/proc/self/statm").read_text(encoding="ascii").split()


if __name__ == "__main__":
    found = survey()
    found.remove()
    print(json.dumps({"missing": found.missing, "reason": found.reason}))  # noqa: T201
