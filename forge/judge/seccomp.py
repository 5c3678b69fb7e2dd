"""A system-call filter for candidates, as classic BPF: everything but what is named is allowed.

Numbers: linux/arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

_X86_64 = {
    "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "clone3": 435,
    "socket": 41, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249,
    "userfaultfd": 323, "io_uring_setup": 425, "pidfd_getfd": 438, "sched_setaffinity": 203,
    "sched_setscheduler": 144, "sched_setattr": 314, "setpriority": 141, "open_by_handle_at": 304,
    "personality": 135, "kexec_load": 246, "init_module": 175, "finit_module": 313,
    "mount_setattr": 442, "move_mount": 429, "fsopen": 430, "open_tree": 428, "swapon": 167,
    "reboot": 169, "settimeofday": 164, "clock_settime": 227, "ioperm": 173, "iopl": 172,
}  # fmt: skip
_AARCH64 = {
    "clone": 220, "execve": 221, "execveat": 281, "clone3": 435,
    "socket": 198, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
    "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
    "bpf": 280, "perf_event_open": 241, "keyctl": 219, "add_key": 217, "request_key": 218,
    "userfaultfd": 282, "io_uring_setup": 425, "pidfd_getfd": 438, "sched_setaffinity": 122,
    "sched_setscheduler": 119, "sched_setattr": 274, "setpriority": 140, "open_by_handle_at": 265,
    "personality": 92, "kexec_load": 104, "init_module": 105, "finit_module": 273,
    "mount_setattr": 442, "move_mount": 429, "fsopen": 430, "open_tree": 428, "swapon": 224,
    "reboot": 142, "settimeofday": 170, "clock_settime": 112,
}  # fmt: skip
_TABLES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}

PROCESSES = frozenset({"clone", "fork", "vfork", "execve", "execveat"})
_CLONE_THREAD = 0x10000

_LD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_X32_BIT = 0x40000000


def is_supported() -> bool:
    """Whether the numbers of this machine's architecture are known."""
    return platform.machine() in _TABLES


def program(machine: str, *, allow_processes: bool) -> bytes:
    """Return the filter.

    Args:
        machine: As ``platform.machine()`` says it.
        allow_processes: Whether new processes and programs are allowed (a compiler needs them);
            threads always are.
    """
    arch, table = _TABLES[machine]
    denied = [n for name, n in table.items() if not (allow_processes and name in PROCESSES)]
    code: list[tuple[int, int, int, int]] = [
        (_LD, 0, 0, 4),
        (_JEQ, 1, 0, arch),
        (_RET, 0, 0, _KILL),
        (_LD, 0, 0, 0),
        (_JGE, 0, 1, _X32_BIT),
        (_RET, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for number in sorted(denied):
        if number == table["clone"]:
            # clone with CLONE_THREAD is a thread of this process; anything else is a process.
            code += [
                (_JEQ, 0, 4, number),
                (_LD, 0, 0, 16),
                (_JSET, 1, 0, _CLONE_THREAD),
                (_RET, 0, 0, _ERRNO | errno.EPERM),
                (_LD, 0, 0, 0),
            ]
        else:
            # clone3 hides its flags behind a pointer; ENOSYS makes the C library use clone.
            answer = errno.ENOSYS if number == table["clone3"] else errno.EPERM
            code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ERRNO | answer)]
    code.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in code)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(*, allow_processes: bool) -> None:
    """Filter this process and all it starts, for good; ``OSError`` where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = program(platform.machine(), allow_processes=allow_processes)
    buffer = ctypes.create_string_buffer(code)
    header = _Program(len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or (
        libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(header), 0, 0) != 0
    ):
        number = ctypes.get_errno()
        raise OSError(number, "seccomp")
