"""Namespaces, and the root that an arm sees: an allow-list of the host's files, read-only."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Kind = Literal["root", "user", "none"]
"""Namespaces by right of root, within a user namespace, or none."""

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_MNT_DETACH = 2
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442
_AT_RECURSIVE, _ATTR_RDONLY, _ATTR_NOSUID = 0x8000, 1, 2
NOBODY = 65534
SCRATCH = "/scratch"
# No more: from /dev/zero a compiler would read for ever.
DEVICES = ("null", "urandom")

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if s is None else s.encode() for s in (source, target, kind)]
    _check(_libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None), f"mount {target}")


def enter(kind: Kind) -> None:
    """Leave the host's namespaces; the next fork is process 1 of a new one.

    Raises:
        OSError: The host refuses.
    """
    wanted = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    if kind == "root":
        _check(_libc.unshare(wanted), "unshare")
        return
    uid, gid = os.getuid(), os.getgid()
    _check(_libc.unshare(wanted | _NEWUSER), "unshare, with a user namespace")
    # Even its own user is nobody in there; the capabilities of a namespace need no root.
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1", encoding="ascii")


def build_root(paths: Sequence[str], writable: Mapping[str, str]) -> None:
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
    mount_proc(f"{root}/proc")
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(number, root.encode(), f"{root}/old".encode()), "pivot_root")
    os.chdir("/")
    _check(_libc.umount2(b"/old", _MNT_DETACH), "umount /old")
    Path("/old").rmdir()
    _set_read_only("/")


def mount_proc(target: str) -> None:
    """Show the processes of this namespace; where a container forbids that, none at all."""
    with contextlib.suppress(PermissionError):
        _mount("proc", target, "proc", _MS_NOSUID | _MS_NODEV)


def mount_scratch(size: int, files: int) -> None:
    """Give this process mounts and an IPC namespace of its own, and an empty scratch."""
    _check(_libc.unshare(_NEWNS | _NEWIPC), "unshare mount, ipc")
    mount_proc("/proc")
    options = f"size={size},nr_inodes={files},mode=1777"
    _mount("tmpfs", SCRATCH, "tmpfs", _MS_NOSUID | _MS_NODEV, options)


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
    """Forks each child as process 1 of a namespace of its own. Made before ``build_root``."""

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
