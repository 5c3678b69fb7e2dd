"""What this machine has and lacks for a night: probes that change nothing and judge nothing.

Each probe takes what it looks at, so that it can be shown another machine. Whether a missing
sandbox layer stops a night is policy, and not decided here.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from forge.host import find_compiler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge.host import Environment

# What a night's processes may take together, compilers aside; tests/bench measures it.
MEMORY_NEEDED_BYTES = 4 * 2**30
# A store, a ledger and the evidence of a month of nights fit well into this.
DISK_NEEDED_BYTES = 2 * 2**30

_GIB = 2**30
_LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
_LANDLOCK_VERSION = 1


class Probe(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: A short id, for example ``compiler`` or ``sandbox.landlock``.
        ok: Whether it is there.
        sentence: What was found, with its value, and what to do when it is missing.
    """

    name: str
    ok: bool
    sentence: str


def examine(environment: Environment, home: Path) -> list[Probe]:
    """Look at everything a night needs; the sandbox's layers come last, each with its own name.

    Args:
        environment: This machine.
        home: The workspace's folder, which need not exist yet.
    """
    return [
        probe_compiler(environment),
        probe_tool("git", "the store of sealed kernels is a git repository"),
        probe_cores(environment),
        probe_memory(Path("/proc/meminfo")),
        probe_disk(home),
        *sandbox_layers(),
    ]


def sandbox_layers() -> list[Probe]:
    """Say which layers this machine can enforce around a kernel."""
    return [
        probe_bubblewrap(),
        probe_namespaces(),
        probe_seccomp(Path("/proc/sys/kernel/seccomp/actions_avail")),
        probe_landlock(),
    ]


def probe_compiler(environment: Environment) -> Probe:
    """Say which compiler builds the kernels."""
    if find_compiler() is None:
        return _lacks("compiler", "There is no g++ on the PATH; kernels need it: install g++.")
    version = environment.compiler
    if not version:
        return _lacks("compiler", "g++ is on the PATH but does not start; reinstall it.")
    return _has("compiler", f"Kernels are built by {version} with {environment.flags}.")


def probe_tool(name: str, why: str) -> Probe:
    """Say whether a program is on the PATH."""
    path = shutil.which(name)
    if path is None:
        return _lacks(name, f"There is no {name} on the PATH, and {why}: install {name}.")
    return _has(name, f"{path}: {why}.")


def probe_cores(environment: Environment) -> Probe:
    """Say how the cores are shared out; one core alone cannot keep the clock apart."""
    cores, threads = environment.cores, environment.arm_threads
    if cores < 2:
        return _lacks(
            "cores",
            "There is 1 core: the kernel and the clock share it, and times are noisy; "
            "give this process 2 cores or more.",
        )
    return _has(
        "cores", f"{cores} cores: {threads} for the kernel, 1 for the clock and the checks."
    )


def probe_memory(meminfo: Path) -> Probe:
    """Say how much memory is free, from the text of ``/proc/meminfo``."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", _read(meminfo), re.MULTILINE)
    if match is None:
        return _lacks("memory", f"{meminfo} does not say how much memory is available.")
    free = int(match[1]) * 1024
    sentence = f"{free / _GIB:.1f} GiB of memory are available; a night takes up to "
    sentence += f"{MEMORY_NEEDED_BYTES / _GIB:.0f} GiB"
    if free < MEMORY_NEEDED_BYTES:
        return _lacks("memory", f"{sentence}: end other programs first.")
    return _has("memory", f"{sentence}.")


def probe_disk(home: Path) -> Probe:
    """Say how much room the file system of ``home`` has, or of the nearest folder above it."""
    place = next(folder for folder in (home, *home.resolve().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    sentence = f"{free / _GIB:.1f} GiB are free at {place}; a month of nights takes up to "
    sentence += f"{DISK_NEEDED_BYTES / _GIB:.0f} GiB"
    if not os.access(place, os.W_OK):
        return _lacks("disk", f"{place} cannot be written; choose another FORGE_HOME.")
    if free < DISK_NEEDED_BYTES:
        return _lacks("disk", f"{sentence}: free some, or choose another FORGE_HOME.")
    return _has("disk", f"{sentence}.")


def probe_bubblewrap() -> Probe:
    """Say whether bubblewrap starts a program in a file system of its own."""
    name = "sandbox.bubblewrap"
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return _lacks(name, "There is no bwrap on the PATH: install bubblewrap.")
    said = _complaint([bwrap, "--ro-bind", "/", "/", "--unshare-all", "/bin/true"])
    if said is not None:
        return _lacks(name, f"{bwrap} cannot make a sandbox here: {said}")
    return _has(name, f"{bwrap} makes a read-only file system without a network.")


def probe_namespaces() -> Probe:
    """Say whether this user may make user, network, process and mount namespaces."""
    name = "sandbox.namespaces"
    unshare = shutil.which("unshare")
    if unshare is None:
        return _lacks(name, "There is no unshare on the PATH: install util-linux.")
    said = _complaint(
        [unshare, "--user", "--map-root-user", "--net", "--pid", "--mount", "--fork", "/bin/true"]
    )
    if said is not None:
        return _lacks(name, f"Namespaces are not to be had: {said}")
    return _has(name, "User, network, process and mount namespaces can be made.")


def probe_seccomp(actions: Path) -> Probe:
    """Say whether the kernel filters system calls, from the list of actions it knows."""
    known = _read(actions).split()
    if "errno" not in known:
        return _lacks("sandbox.seccomp", "This system's kernel does not filter system calls.")
    return _has("sandbox.seccomp", "System calls can be filtered.")


def probe_landlock() -> Probe:
    """Say whether the kernel restricts files without privilege, and in which version."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), _LANDLOCK_VERSION)
    if version < 1:
        reason = os.strerror(ctypes.get_errno())
        return _lacks("sandbox.landlock", f"This system's kernel has no Landlock: {reason}.")
    return _has("sandbox.landlock", f"Landlock version {version} restricts files.")


def _has(name: str, sentence: str) -> Probe:
    return Probe(name=name, ok=True, sentence=sentence)


def _lacks(name: str, sentence: str) -> Probe:
    return Probe(name=name, ok=False, sentence=sentence)


def _complaint(command: Sequence[str]) -> str | None:
    """Run a command; return nothing when it succeeds, else the last thing it said."""
    try:
        ran = subprocess.run(  # noqa: S603 - a path from PATH and literals
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if ran.returncode == 0:
        return None
    return ran.stderr.strip().rpartition("\n")[2] or f"exit code {ran.returncode}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
