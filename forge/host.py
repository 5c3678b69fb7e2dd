"""This machine: its clock, its compiler, and the identity of the target it is.

The one module that reads the wall clock, ``/proc/cpuinfo`` and the compiler's version. Probing
reads files and asks the compiler; naming is pure, so it is tested with other machines' values.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from forge.errors import UsageError
from forge.types import Slot, content_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# How every C++ kernel is built. Never fast-math: it deletes ``isnan`` and turns flush-to-zero on
# for the whole process that loads the kernel.
CPU_BUILD_FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-shared",
    "-fPIC",
)
# Taken when the system does not say: larger than most, so that bursts are cold rather than warm.
LLC_BYTES_UNKNOWN = 64 * 2**20

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}

# Family and model as in ``/proc/cpuinfo``, to the compilers' short names, lower case.
_INTEL_6 = {
    **dict.fromkeys((60, 63, 69, 70), "haswell"),
    **dict.fromkeys((61, 71, 79, 86), "broadwell"),
    **dict.fromkeys((78, 94, 142, 158, 165, 166), "skylake"),
    85: "skylake-avx512",
    **dict.fromkeys((125, 126), "icelake"),
    **dict.fromkeys((106, 108), "icelake-server"),
    **dict.fromkeys((140, 141), "tigerlake"),
    167: "rocketlake",
    **dict.fromkeys((151, 154), "alderlake"),
    **dict.fromkeys((183, 186, 191), "raptorlake"),
    **dict.fromkeys((170, 172), "meteorlake"),
    **dict.fromkeys((197, 198), "arrowlake"),
    189: "lunarlake",
    143: "sapphirerapids",
    207: "emeraldrapids",
    **dict.fromkeys((173, 174), "graniterapids"),
    175: "sierraforest",
}
_ARM_PARTS = {
    (0x41, 0xD08): "cortex-a72",
    (0x41, 0xD0C): "neoverse-n1",
    (0x41, 0xD40): "neoverse-v1",
    (0x41, 0xD49): "neoverse-n2",
    (0x41, 0xD4F): "neoverse-v2",
}


class Environment(BaseModel):
    """What a time was measured on and built with; equal ids mean comparable times."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """First 12 hex digits of the SHA-256 over every other field."""
    target: str
    """Full id of the target: ``<model>-<isa>-<n>t``."""
    model: str
    """Short name of the processor, for example ``sapphirerapids``."""
    model_name: str
    """What the processor calls itself."""
    isa: str
    """Widest vector extension: ``avx512``, ``avx2``, ``sse2``, ``sve``, ``neon`` or ``scalar``."""
    cores: int
    """Cores this process may run on."""
    arm_threads: int
    """Threads of an arm: all cores but one, at least one."""
    llc_bytes: int
    """Size of the last-level cache."""
    compiler: str
    """First line of the compiler's ``--version``; empty when there is none."""
    flags: str
    """Flags that C++ kernels are built with."""
    torch: str
    """Version of torch; empty when it is not installed."""
    python: str
    kernel: str
    """Release of the operating system's kernel."""
    libc: str

    @classmethod
    def identified(cls, **fields: str | int) -> Environment:
        """Build an environment from every field but ``id``, which is derived from them."""
        body = json.dumps(fields, sort_keys=True)
        digest = content_digest(body.encode())[:12]
        return cls.model_validate({**fields, "id": digest})


def wall_clock() -> datetime:
    """Return the time of day in UTC; pass it on as a ``Clock`` instead of calling it deep down."""
    return datetime.now(UTC)  # noqa: TID251 - the one place


def find_compiler() -> str | None:
    """Return the path of ``g++``, or ``None`` when this machine has none on its PATH."""
    return shutil.which("g++")


def require_compiler() -> str:
    """Return the path of ``g++``.

    Raises:
        UsageError: There is none.
    """
    compiler = find_compiler()
    if compiler is None:
        raise UsageError(
            "There is no C++ compiler: g++ is not on the PATH, and kernels are built with it; "
            "install g++ (on Debian or Ubuntu: apt-get install g++)."
        )
    return compiler


def probe_environment() -> Environment:
    """Describe this machine; imports no torch, and costs one start of the compiler."""
    facts = parse_cpuinfo(_read(_CPUINFO))
    cores = len(os.sched_getaffinity(0))
    arm_threads = max(1, cores - 1)
    model, isa = cpu_model(facts), vector_isa(facts.get("flags", "") or facts.get("features", ""))
    libc = "-".join(platform.libc_ver())
    return Environment.identified(
        target=cpu_target(model, isa, arm_threads),
        model=model,
        model_name=facts.get("model name", platform.machine()),
        isa=isa,
        cores=cores,
        arm_threads=arm_threads,
        llc_bytes=last_level_cache_bytes(_CACHES),
        compiler=_compiler_version(find_compiler()),
        flags=" ".join(CPU_BUILD_FLAGS),
        torch=_version_of("torch"),
        python=platform.python_version(),
        kernel=platform.release(),
        libc=libc,
    )


def parse_cpuinfo(text: str) -> dict[str, str]:
    """Return the fields of the first processor in the text of ``/proc/cpuinfo``, keys lowered."""
    first = text.strip().partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines() if ":" in line)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def cpu_model(facts: Mapping[str, str]) -> str:
    """Name a processor from its ``/proc/cpuinfo`` fields; the same with or without a compiler.

    A known family and model decide. A virtual machine may carry a number that its instruction
    set contradicts (a desktop's number, with tile registers); then the instruction set names the
    first server generation that has it. An unknown processor is named by its own words.
    """
    flags = set(facts.get("flags", "").split())
    named = _table_name(facts)
    if "amx_tile" in flags and named not in {"sapphirerapids", "emeraldrapids", "graniterapids"}:
        return "graniterapids" if "amx_fp16" in flags else "sapphirerapids"
    return named or _slug(facts.get("model name", "")) or _slug(platform.machine()) or "cpu"


def vector_isa(flags: str) -> str:
    """Name the widest vector extension among the space-separated ``flags`` of a processor."""
    known = set(flags.split())
    for flag, isa in (
        ("avx512f", "avx512"),
        ("avx2", "avx2"),
        ("sse2", "sse2"),
        ("sve", "sve"),
        ("asimd", "neon"),
        ("neon", "neon"),
    ):
        if flag in known:
            return isa
    return "scalar"


def cpu_target(model: str, isa: str, arm_threads: int) -> str:
    """Return the id of a CPU target: ``<model>-<isa>-<n>t``, all of it in ``[a-z0-9-]``.

    Raises:
        ValueError: There is no thread to run an arm on.
    """
    if arm_threads < 1:
        raise ValueError(f"An arm needs a thread; got {arm_threads}.")
    return f"{_slug(model)}-{_slug(isa)}-{arm_threads}t"


def resolve_target(name: str, environment: Environment, known: Collection[str] = ()) -> str:
    """Return the full id that ``name`` stands for.

    Args:
        name: ``cpu``, this machine's id, or one of ``known``.
        environment: This machine.
        known: Further ids that may be read about, such as those in the store.

    Raises:
        UsageError: ``name`` is none of them.
    """
    if name in {"cpu", environment.target}:
        return environment.target
    if name in known:
        return name
    if name == "cuda":
        raise UsageError("Target 'cuda': there is no GPU path yet; use --target cpu.")
    others = "".join(f", {target!r}" for target in sorted(set(known) - {environment.target}))
    raise UsageError(
        f"There is no target {name!r}; known here: 'cpu', {environment.target!r}{others}."
    )


def parse_slot(text: str, environment: Environment, known: Collection[str] = ()) -> Slot:
    """Read a slot as a person writes it, ``task/target``, the target an id or an alias.

    Raises:
        UsageError: It is no such pair, or the target is unknown.
    """
    match = re.fullmatch(r"([a-z][a-z0-9_-]*)/([A-Za-z0-9._-]+)", text)
    if match is None:
        raise UsageError(f"{text!r} is not a slot; write task/target, for example softmax/cpu.")
    return Slot(task=match[1], target=resolve_target(match[2], environment, known))


def last_level_cache_bytes(caches: Path) -> int:
    """Return the size of the largest cache under a sysfs ``cache`` folder of one core.

    A machine that lists none is taken to have ``LLC_BYTES_UNKNOWN``.
    """
    sizes = [_size_bytes(_read(size)) for size in sorted(caches.glob("index*/size"))]
    return max(sizes, default=0) or LLC_BYTES_UNKNOWN


def _table_name(facts: Mapping[str, str]) -> str | None:
    vendor = facts.get("vendor_id", "")
    family, model = _number(facts, "cpu family"), _number(facts, "model")
    if vendor == "GenuineIntel" and family == 6:
        return _INTEL_6.get(model)
    if vendor == "AuthenticAMD":
        return _amd_name(family, model)
    return _ARM_PARTS.get((_number(facts, "cpu implementer"), _number(facts, "cpu part")))


def _amd_name(family: int, model: int) -> str | None:
    if family == 23:
        return "zen2" if model >= 48 else "zen"
    if family == 25:
        is_fourth = 16 <= model < 32 or 96 <= model < 128 or model >= 160
        return "zen4" if is_fourth else "zen3"
    return "zen5" if family == 26 else None


def _number(facts: Mapping[str, str], key: str) -> int:
    """Return a decimal or ``0x`` field, or -1, a number that no processor has."""
    text = facts.get(key, "")
    return int(text, 0) if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", text) else -1


def _slug(text: str) -> str:
    """Lower ``text`` and keep its letters and digits, without trade marks and filler words."""
    lowered = re.sub(r"\((r|tm)\)|@.*|\bcpu\b|\bprocessor\b|\d+-core", " ", text.lower())
    return re.sub(r"[^a-z0-9]+", "-", lowered).strip("-")


def _size_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    return int(match[1]) * _UNITS.get(match[2], 1) if match else 0


def _compiler_version(compiler: str | None) -> str:
    """Return the first line of the compiler's ``--version``, or nothing when it does not start."""
    if compiler is None:
        return ""
    try:
        ran = subprocess.run(  # noqa: S603 - a path from PATH and a literal
            [compiler, "--version"], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ran.stdout.partition("\n")[0].strip()


def _version_of(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _read(path: Path) -> str:
    """Return the text of a system file, or nothing where the system does not have it."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
