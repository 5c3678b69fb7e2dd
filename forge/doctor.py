"""What this machine has and lacks for a night: probes that change nothing and judge nothing.

Each probe takes what it looks at, so that it can be shown another machine. Whether a missing
sandbox layer stops a night is policy, and not decided here.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from forge.host import find_compiler
from forge.judge.layers import LAYERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge.host import Environment

# What a night's processes may take together, compilers aside; tests/bench measures it.
MEMORY_NEEDED_BYTES = 4 * 2**30
# A store, a ledger and the evidence of a month of nights fit well into this.
DISK_NEEDED_BYTES = 2 * 2**30

_GIB = 2**30
SURVEY = (sys.executable, "-I", "-m", "forge.judge.sandbox")


class Probe(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: A short id, for example ``compiler`` or ``sandbox.files``.
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
    """Say which of the layers that the judge puts around a kernel this machine can enforce."""
    missing, reason = missing_layers()
    reason = f" ({reason})" if reason else ""
    walls = [
        _lacks(
            f"sandbox.{layer.name}",
            f"{layer.lacks}{reason}: {layer.remedy}; or name it in may_lack, and an unattended "
            "night does without.",
        )
        if layer.name in missing
        else _has(f"sandbox.{layer.name}", layer.holds)
        for layer in LAYERS.values()
    ]
    return [*walls, probe_limits()]


def missing_layers(survey: Sequence[str] = SURVEY) -> tuple[tuple[str, ...], str]:
    """Return the names of the layers that this user cannot have here, and what the host said.

    Args:
        survey: The command that builds the walls around a process and says, as JSON, what was
            not to be had: the judge's own code, because whatever else was tried might differ.
    """
    try:
        found = json.loads(_output(survey))
        return tuple(found["missing"]), str(found["reason"])
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return tuple(LAYERS), str(error).rpartition("\n")[2]


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


def probe_limits() -> Probe:
    """Say whether memory, processor time, file size and processes can be limited."""
    wanted = {
        "memory": resource.RLIMIT_AS,
        "processor time": resource.RLIMIT_CPU,
        "file size": resource.RLIMIT_FSIZE,
        "processes": resource.RLIMIT_NPROC,
    }
    kept = [name for name, limit in wanted.items() if resource.getrlimit(limit)[1] == 0]
    if kept:
        return _lacks("sandbox.limits", f"This process may use no {kept[0]}; raise its limit.")
    return _has("sandbox.limits", f"A kernel's {', '.join(wanted)} are limited.")


def _has(name: str, sentence: str) -> Probe:
    return Probe(name=name, ok=True, sentence=sentence)


def _lacks(name: str, sentence: str) -> Probe:
    return Probe(name=name, ok=False, sentence=sentence)


def _output(command: Sequence[str]) -> str:
    ran = subprocess.run(  # noqa: S603 - this interpreter and our own module
        command, capture_output=True, text=True, timeout=60, check=False
    )
    if ran.returncode:
        raise subprocess.SubprocessError(ran.stderr.strip() or f"exit code {ran.returncode}")
    return ran.stdout


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
