"""Go behind the walls of an arm, or of a builder, and say from there what can be had.

``python behind_walls.py PROBE`` prints what the probe of that name found, as JSON.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import sys
from pathlib import Path

from forge.judge import sandbox

libc = ctypes.CDLL(None, use_errno=True)
# x86-64, by the table of the system's kernel and not by the filter's own.
CALLS = {
    "memfd_create": 319, "memfd_secret": 447, "shmget": 29, "shmat": 30, "msgget": 68,
    "semget": 64, "mq_open": 240, "io_setup": 206, "socket": 41, "socketpair": 53,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "userfaultfd": 323,
    "inotify_init1": 294, "fanotify_init": 300, "ptrace": 101, "process_vm_readv": 310,
    "process_vm_writev": 311, "process_madvise": 440, "pidfd_open": 434, "pidfd_getfd": 438,
    "pidfd_send_signal": 424, "tkill": 200, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297,
    "kcmp": 312, "migrate_pages": 256, "move_pages": 279, "ioprio_set": 251, "unshare": 272,
    "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
    "mount_setattr": 442, "move_mount": 429, "open_tree": 428, "fsopen": 430, "fsmount": 432,
    "open_by_handle_at": 304, "name_to_handle_at": 303, "mknod": 133, "mknodat": 259,
    "bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249,
    "personality": 135, "modify_ldt": 154, "syslog": 103, "sched_setaffinity": 203,
    "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314, "setpriority": 141,
    "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
    "kexec_load": 246, "init_module": 175, "finit_module": 313, "reboot": 169, "acct": 163,
    "swapon": 167, "ioperm": 173, "iopl": 172, "sethostname": 170,
}  # fmt: skip
PROCESSES = {"fork": 57, "vfork": 58, "clone": 56, "execve": 59, "execveat": 322, "clone3": 435}
NAMESPACES = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
CLONE, KILL, TGKILL, PRLIMIT, SIGCHLD = 56, 62, 234, 302, 17


def answer(number, *arguments):
    """Return 0 or the name of the error."""
    padded = [ctypes.c_long(a) for a in (*arguments, *[0] * (6 - len(arguments)))]
    result = libc.syscall(ctypes.c_long(number), *padded)
    return 0 if result >= 0 else errno.errorcode[ctypes.get_errno()]


def calls():
    """What each call answers that an arm has no use for."""
    return {name: answer(number) for name, number in (CALLS | PROCESSES).items()}


def builders_calls():
    """The same in a builder, which may start programs but no namespaces."""
    found = {name: answer(number) for name, number in CALLS.items()}
    for flag in NAMESPACES:
        found[f"clone {flag:#x}"] = answer(CLONE, flag | SIGCHLD)
    return found


def others():
    """What reaches another process, beside what reaches this one alone."""
    own, pipe = os.getpid(), os.pipe()
    return {
        "refused": {
            "kill of all": answer(KILL, -1, 0),
            "kill of the group": answer(KILL, 0, 0),
            "kill of another": answer(KILL, own + 1, 0),
            "tgkill of another": answer(TGKILL, own + 1, own + 1, 0),
            "limits of another": answer(PRLIMIT, own + 1, 7, 0, 0),
            "owner of a file": answer(72, pipe[0], fcntl.F_SETOWN, own + 1),
            "signal of a file": answer(72, pipe[0], fcntl.F_SETSIG, 9),
        },
        "allowed": {
            "kill of itself": answer(KILL, own, 0),
            "tgkill of itself": answer(TGKILL, own, own, 0),
            "limits of itself": answer(PRLIMIT, 0, 7, 0, 0),
            "flags of a file": answer(72, pipe[0], fcntl.F_GETFL),
        },
    }


def memory():
    """How much can be put into the scratch, and how much can be mapped beside it."""
    files, size = 0, 0
    try:
        while files < 100_000:
            Path(f"f{files}").touch()
            files += 1
    except OSError as error:
        why_files = errno.errorcode[error.errno]
    for i in range(files):
        Path(f"f{i}").unlink()
    block = bytes(1 << 20)
    try:
        while size < 1 << 30:
            with Path(f"g{size}").open("wb", buffering=0) as out:
                size += out.write(block)
    except OSError as error:
        why_size = errno.errorcode[error.errno]
    return {
        "files": [files, why_files],
        "bytes": [size, why_size],
        "mapped": resource.getrlimit(resource.RLIMIT_AS)[0] - WALLS.mapped_bytes,
    }


PROBES = {f.__name__: f for f in (calls, builders_calls, others, memory)}
MEMORY = 256 << 20


if __name__ == "__main__":
    probe = PROBES[sys.argv[1]]
    WALLS = sandbox.survey()
    forks = sandbox.enter_zygote_walls(WALLS)
    child = forks.fork() if forks else os.fork()
    if child == 0:
        sandbox.make_scratch(WALLS)
        may = probe is builders_calls
        sandbox.close_walls(WALLS, sandbox.Limits(memory_bytes=MEMORY, allow_processes=may))
        os.write(1, json.dumps(probe()).encode())
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
