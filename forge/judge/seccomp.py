"""A system-call filter for candidates, as classic BPF: everything but what is named is allowed.

Numbers: linux/arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

# Every call that is refused, by what it could do: its numbers on x86-64 and AArch64 (-1: none).
_REFUSED = {
    # Memory that the limit of the address space does not count.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194),
    "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "semget": (64, 190),
    "mq_open": (240, 180), "io_setup": (206, 0), "socket": (41, 198), "socketpair": (53, 199),
    "inotify_init": (253, -1), "inotify_init1": (294, 26), "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    # Other processes; kill, tgkill, prlimit64 and fcntl are in ``_RULES``.
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "process_mrelease": (448, 448), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "kcmp": (312, 272),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "ioprio_set": (251, 30),
    # Namespaces, mounts, files by handle, devices.
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "open_tree": (428, 428), "open_tree_attr": (467, 467),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "mknod": (133, -1),
    "mknodat": (259, 33), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    # Doors into the system's kernel.
    "bpf": (321, 280), "perf_event_open": (298, 241), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "personality": (135, 92), "modify_ldt": (154, -1),
    "uselib": (134, -1), "lookup_dcookie": (212, 18), "syslog": (103, 116),
    # Its cores, its turn, the clock.
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "setpriority": (141, 140),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    # The machine.
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "swapon": (167, 224),
    "swapoff": (168, 225), "reboot": (169, 142), "acct": (163, 89), "ioperm": (173, -1),
    "iopl": (172, -1), "sethostname": (170, 161), "setdomainname": (171, 162),
    "vhangup": (153, 58),
    # New processes and programs; a builder may. clone is in ``_clone``.
    "fork": (57, -1), "vfork": (58, -1), "execve": (59, 221), "execveat": (322, 281),
    "clone3": (435, 435),
}  # fmt: skip
PROCESSES = frozenset({"clone", "fork", "vfork", "execve", "execveat"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A call that is refused by the value of one argument."""

    numbers: tuple[int, int]
    argument: int
    values: tuple[int, ...]
    """``_OWN`` stands for the process's own id."""
    is_allowed: bool
    """Whether these values alone are allowed, or all but these."""


_OWN = -1
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_RULES = {
    "kill": _Rule(numbers=(62, 129), argument=0, values=(_OWN,), is_allowed=True),
    "tgkill": _Rule(numbers=(234, 131), argument=0, values=(_OWN,), is_allowed=True),
    "prlimit64": _Rule(numbers=(302, 261), argument=0, values=(0, _OWN), is_allowed=True),
    # The owner of a file gets signals when it can be read, and may be any process of the user.
    "fcntl": _Rule(
        numbers=(72, 25), argument=1, values=(_F_SETOWN, _F_SETSIG, _F_SETOWN_EX), is_allowed=False
    ),
}
_CLONE = (56, 220)
_CLONE_THREAD, _CLONE_NAMESPACES = 0x10000, 0x7E020000

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_MACHINES = tuple(_ARCHITECTURES)

_Code = list[tuple[int, int, int, int]]
_LD, _JEQ, _JSET, _JGE, _RET = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in what the filter is shown
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER_MODE = 38, 22, 2
_X32_BIT = 0x40000000


def is_supported() -> bool:
    """Whether the numbers of this machine's architecture are known."""
    return platform.machine() in _ARCHITECTURES


def number_of(machine: str, name: str) -> int:
    """Return the number of a call that the filter knows; -1 where the machine has none."""
    numbers = _CLONE if name == "clone" else _REFUSED.get(name)
    return (numbers or _RULES[name].numbers)[_MACHINES.index(machine)]


def program(machine: str, *, allow_processes: bool, own: int = 1) -> bytes:
    """Return the filter.

    Args:
        machine: As ``platform.machine()`` says it.
        allow_processes: Whether new processes and programs are allowed (a compiler needs them);
            threads always are.
        own: The process's id, as its own namespace counts.
    """
    code: _Code = [
        (_LD, 0, 0, _ARCHITECTURE),
        (_JEQ, 1, 0, _ARCHITECTURES[machine]),
        (_RET, 0, 0, _KILL),
        (_LD, 0, 0, _NUMBER),
        (_JGE, 0, 1, _X32_BIT),
        (_RET, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for name in _REFUSED:
        number = number_of(machine, name)
        if number < 0 or (allow_processes and name in PROCESSES):
            continue
        # clone3 hides its flags behind a pointer; ENOSYS makes the C library use clone.
        answer = errno.ENOSYS if name == "clone3" else errno.EPERM
        code += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ERRNO | answer)]
    code += _clone(number_of(machine, "clone"), allow_processes=allow_processes)
    for name, rule in _RULES.items():
        code += _by_argument(number_of(machine, name), rule, own)
    code.append((_RET, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in code)


def _clone(number: int, *, allow_processes: bool) -> _Code:
    """Refuse namespaces to everybody, and to an arm whatever is not a thread of its own."""
    refuse = (_RET, 0, 0, _ERRNO | errno.EPERM)
    body: _Code = [(_JSET, 0, 1, _CLONE_NAMESPACES), refuse]
    if not allow_processes:
        body += [(_JSET, 1, 0, _CLONE_THREAD), refuse]
    return _when(number, 0, body)


def _by_argument(number: int, rule: _Rule, own: int) -> _Code:
    values = [own if value == _OWN else value for value in rule.values]
    body: _Code = []
    for i, value in enumerate(values):
        left = len(values) - 1 - i
        if rule.is_allowed:
            body.append((_JEQ, left + 1, 0, value))
        else:
            body.append((_JEQ, left, 0 if left else 1, value))
    return _when(number, rule.argument, [*body, (_RET, 0, 0, _ERRNO | errno.EPERM)])


def _when(number: int, argument: int, body: _Code) -> _Code:
    """Run ``body`` on the low word of an argument if this is the call."""
    return [
        (_JEQ, 0, len(body) + 2, number),
        (_LD, 0, 0, _ARGUMENTS + 8 * argument),
        *body,
        (_LD, 0, 0, _NUMBER),
    ]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def no_new_privileges() -> None:
    """Let no program that this process starts gain privileges; ``OSError`` if refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no new privileges")


def install(*, allow_processes: bool) -> None:
    """Filter this process and all it starts, for good; ``OSError`` where the kernel refuses."""
    no_new_privileges()
    install_program(program(platform.machine(), allow_processes=allow_processes, own=os.getpid()))


def install_program(code: bytes) -> None:
    """Install a filter; "no new privileges" must be set. ``OSError`` where it is refused."""
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code)
    header = _Program(len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_SECCOMP, _FILTER_MODE, ctypes.byref(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
