"""The walls around candidate code: namespaces, an allow-list root, limits, a system-call filter.

Two stages. ``enter_zygote_walls`` runs once, in the zygote: a root file system that holds only
what Python and a compiler need (read-only), no network, no IPC, a process namespace of its own.
``enter_arm_walls`` runs in each forked child, which is already process 1 of a namespace of its
own: private /proc and scratch, no privileges, limits, filter. Killing a child kills its children.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from forge.judge import seccomp

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_CAPSET = {"x86_64": 126, "aarch64": 91}
_SYS_MOUNT_SETATTR = 442
_AT_RECURSIVE, _ATTR_RDONLY, _ATTR_NOSUID = 0x8000, 1, 2
_PR_SET_DUMPABLE, _PR_SET_PDEATHSIG, _PR_CAPBSET_DROP = 4, 1, 24
_LAST_CAP = 63
NOBODY = 65534
SCRATCH = "/scratch"
SCRATCH_BYTES = 64 << 20
DEVICES = ("null", "zero", "full", "random", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one child may use.

    Attributes:
        memory_bytes: Address space beyond what the zygote already has mapped.
        cpu_s: Processor seconds.
        file_bytes: Largest file.
        processes: Processes and threads.
        allow_processes: Whether it may start programs (a builder) or only threads (an arm).
    """

    memory_bytes: int
    cpu_s: int = 120
    file_bytes: int = SCRATCH_BYTES
    processes: int = 256
    allow_processes: bool = False


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if s is None else s.encode() for s in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def enter_namespaces() -> list[str]:
    """Leave the host's namespaces; the next fork is process 1 of a new one.

    Returns:
        The layers this host does not grant.
    """
    wanted = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    uid, gid = os.getuid(), os.getgid()
    if uid != 0:
        wanted |= _NEWUSER
    if _libc.unshare(wanted) != 0:
        return ["namespaces"]
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    return []


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def visible_paths() -> list[str]:
    """Return what candidates may read: programs, libraries, this Python, its packages."""
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"]
    system += ["/etc/alternatives", "/sys/devices/system/cpu"]
    venv = [f"{sys.prefix}/{name}" for name in ("bin", "lib", "pyvenv.cfg")]
    python = [sys.base_prefix, *venv, *(p for p in sys.path if "-packages" in p)]
    return [p for p in dict.fromkeys(system + python) if Path(p).exists()]


def build_root(paths: list[str], writable: dict[str, str]) -> None:
    """Make a root file system of binds and move into it. Needs the new namespaces.

    Args:
        paths: What may be read.
        writable: Folders of the host that may be written, by where they are seen; none for
            candidates.
    """
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    root = _mount_point([*paths, *writable.values()])
    _mount("tmpfs", root, "tmpfs", _MS_NOSUID | _MS_NODEV, "size=16m,mode=755")
    for path in paths:
        _bind(path, root)
    for path, folder in writable.items():
        Path(root + path).mkdir(parents=True, exist_ok=True)
        _mount(folder, root + path, None, _MS_BIND)
    for name in DEVICES:
        _bind(f"/dev/{name}", root)
    for name in ("proc", "tmp", SCRATCH, "old"):
        Path(root, name.lstrip("/")).mkdir(parents=True, exist_ok=True)
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(number, root.encode(), f"{root}/old".encode()), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(b"/old", _MNT_DETACH), "umount /old")
    Path("/old").rmdir()
    _set_read_only("/")


def _mount_point(paths: list[str]) -> str:
    """Return an existing folder that hides none of ``paths`` when it is mounted over."""
    for candidate in ("/mnt", "/media", "/srv", "/opt", "/home"):
        is_free = not any(path.startswith(candidate + "/") for path in paths)
        if is_free and Path(candidate).is_dir():
            return candidate
    raise OSError("no folder of /mnt, /media, /srv, /opt, /home is free to build a root in")


def _bind(path: str, root: str) -> None:
    source, target = Path(path), Path(root + path)
    if source.is_symlink():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source.readlink())
        return
    if target.exists() and any(target.parents[i].is_mount() for i in range(1)):
        return
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(path, str(target), None, _MS_BIND | _MS_REC)
    if not path.startswith("/dev/"):
        _set_read_only(str(target))


def _set_read_only(path: str) -> None:
    attributes = (ctypes.c_uint64 * 4)(_ATTR_RDONLY | _ATTR_NOSUID, 0, 0, 0)
    recursive = 0 if path == "/" else _AT_RECURSIVE
    _check(
        _libc.syscall(_SYS_MOUNT_SETATTR, -100, path.encode(), recursive, attributes, 32),
        f"read-only {path}",
    )


class ProcessNamespaces:
    """Forks each child as process 1 of a namespace of its own."""

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def fork(self) -> int:
        """Fork; 0 in the child. ``OSError`` where the host refuses."""
        _check(_libc.unshare(_NEWPID), "unshare pid")
        pid = os.fork()
        if pid:
            # Children of the next fork would otherwise join the namespace just made.
            _check(_libc.setns(self._own, _NEWPID), "setns pid")
        return pid


def enter_arm_walls(limits: Limits, *, has_namespaces: bool) -> list[str]:
    """Give up everything a candidate does not need. Called in the forked child.

    Returns:
        The layers this host does not grant.
    """
    missing: list[str] = []
    if has_namespaces:
        _check(_libc.unshare(_NEWNS | _NEWIPC), "unshare mount, ipc")
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV)
        options = f"size={SCRATCH_BYTES},mode=1777"
        _mount("tmpfs", SCRATCH, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
        os.chdir(SCRATCH)
    _limit(limits)
    _drop_privileges(has_namespaces=has_namespaces)
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if seccomp.is_supported():
        seccomp.install(allow_processes=limits.allow_processes)
    else:
        missing.append("seccomp")
    return missing


def _limit(limits: Limits) -> None:
    mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4096
    for which, value in (
        (resource.RLIMIT_AS, mapped + limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_s),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
    ):
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _drop_privileges(*, has_namespaces: bool) -> None:
    if os.getuid() != 0:
        return
    for capability in range(_LAST_CAP + 1):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if Path("/proc/self/uid_map").read_text(encoding="ascii").split()[2] != "1":
        # Real root: become another user. In a user namespace only root is mapped.
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    number = _SYS_CAPSET[os.uname().machine]
    if _libc.syscall(number, header, nothing) != 0 and has_namespaces:
        raise OSError(ctypes.get_errno(), "capset")
