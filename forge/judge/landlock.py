"""Landlock: which files a process and its children may open, where no namespace hides them.

Numbers and structures: include/uapi/linux/landlock.h. A process behind it cannot look into one
that is not (no ``/proc/<pid>/mem`` or ``fd``), and from version 6 on cannot signal it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_NO_TCP, _NO_OUTSIDE = 3, 3  # bind and connect; abstract sockets and signals

_libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version this kernel knows; 0 where it knows none."""
    return max(0, int(_libc.syscall(_CREATE, None, 0, _VERSION)))


def restrict(readable: Sequence[str], writable: Sequence[str]) -> None:
    """Let this process, for good, read below ``readable`` and write below ``writable`` alone.

    Needs no privileges, but "no new privileges" to be set. ``OSError`` where it is refused.
    """
    known = version()
    handled = _handled(known)
    rules = [handled]
    if known >= 4:
        rules.append(_NO_TCP)
    if known >= 6:
        rules.append(_NO_OUTSIDE)
    attributes = struct.pack(f"{len(rules)}Q", *rules)
    ruleset = _checked(_libc.syscall(_CREATE, attributes, len(attributes), 0))
    for paths, access in ((readable, _READ), (writable, handled)):
        for path in paths:
            _allow(ruleset, path, access & handled)
    _checked(_libc.syscall(_RESTRICT, ruleset, 0))
    os.close(ruleset)


def _handled(known: int) -> int:
    """Return every access to files that a version controls."""
    # Moving files between folders, truncating them, and ioctl on devices came one by one.
    return (1 << 13) - 1 | (known >= 2) << 13 | (known >= 3) << 14 | (known >= 5) << 15


def _allow(ruleset: int, path: str, access: int) -> None:
    if not Path(path).is_dir():
        access &= _OF_A_FILE
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = struct.pack("=Qi", access, place)
    _checked(_libc.syscall(_ADD, ruleset, _PATH_BENEATH, rule, 0))
    os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"landlock: {os.strerror(number)}")
    return result
