"""Become a plain user, optionally with system calls taken away, and run a Python program.

``python as_plain_user.py '[272, 444]' FOLDER PROGRAM [ARGUMENT...]`` gives FOLDER to the user and
runs PROGRAM in it. What root alone may read of Python's own files is shown to that user, in mounts
that nobody else sees. Run by a plain user it changes no user.
"""

import ctypes
import json
import os
import stat
import struct
import sys
from pathlib import Path

from forge.judge import seccomp

USER = 54321
_NEWNS, _BIND, _REC, _PRIVATE = 0x20000, 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def checked(result):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags, data=None):
    encoded = [None if s is None else str(s).encode() for s in (source, target, kind, data)]
    checked(libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3]))


def show(paths):
    """Lay an open folder over every closed one above ``paths``, with only them in it."""
    checked(libc.unshare(_NEWNS))
    mount(None, "/", None, _REC | _PRIVATE)
    closed = {}
    for path in paths:
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(folder, []).append((path, os.open(path, os.O_PATH)))
                break
    for folder, inside in closed.items():
        mount("tmpfs", folder, "tmpfs", 0, "mode=755")
        for path, place in inside:
            path.mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{place}", path, None, _BIND | _REC)


def take_away(numbers):
    """Refuse system calls from now on, as a host does that grants no namespaces."""
    seccomp.no_new_privileges()
    code = [(0x20, 0, 0, 0)]
    for number in numbers:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
    code.append((0x06, 0, 0, 0x7FFF0000))
    seccomp.install_program(b"".join(struct.pack("HBBI", *line) for line in code))


def main():
    numbers, folder, program = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if os.getuid() == 0:
        root = Path(__file__).parents[2]
        show([Path(p).resolve() for p in (sys.base_prefix, sys.prefix, root)])
        os.chown(folder, USER, USER)
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    if numbers:
        take_away(numbers)
    os.chdir(folder)
    os.execv(sys.executable, [sys.executable, *program])


if __name__ == "__main__":
    main()
