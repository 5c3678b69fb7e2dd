"""Build and load ``forge_native.cpp``: our own code, compiled outside any sandbox."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from forge.errors import HarnessFault
from forge.host import CPU_BUILD_FLAGS
from forge.types import content_digest

SOURCE = Path(__file__).with_name("forge_native.cpp")
# As kernels are built (DESIGN.md section 3); never finite-math or flush-to-zero.
FLAGS = (*CPU_BUILD_FLAGS,)
POISON = 0x7FC0DEAD
"""Bit pattern of a float32 NaN that outputs hold before a call; no arithmetic produces it."""


class Comparison(ctypes.Structure):
    """Result of one pass over an output; see ``forge_compare``."""

    _fields_ = (
        ("max_error", ctypes.c_double),
        ("allowed_error", ctypes.c_double),
        ("worst_ratio", ctypes.c_double),
        ("worst_index", ctypes.c_int64),
        ("wrong", ctypes.c_int64),
        ("wrong_nan", ctypes.c_int64),
        ("unwritten", ctypes.c_int64),
        ("first_wrong", ctypes.c_int64),
    )
    max_error: float
    allowed_error: float
    worst_ratio: float
    worst_index: int
    wrong: int
    wrong_nan: int
    unwritten: int
    first_wrong: int


def build_native(cache: Path, compiler: str, environment: str) -> Path:
    """Return the shared library for this machine, compiled on first use into ``cache``.

    Args:
        cache: Folder of build products, made if missing.
        compiler: Path of a C++ compiler.
        environment: Environment id; ``-march=native`` code belongs to one machine model.

    Raises:
        HarnessFault: Our own source does not compile here; the message holds the first error.
    """
    key = content_digest(SOURCE.read_bytes(), " ".join(FLAGS).encode(), environment.encode())
    path = cache / f"forge_native-{key[:16]}.so"
    if path.exists():
        return path
    cache.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(suffix=".so", dir=cache)
    os.close(handle)
    done = subprocess.run(  # noqa: S603  (our own source, our own flags)
        [compiler, *FLAGS, "-o", name, str(SOURCE)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        Path(name).unlink()
        raise HarnessFault(f"The judge's own helper does not compile: {done.stderr.strip()[:400]}")
    Path(name).replace(path)
    return path


@dataclass(frozen=True, slots=True)
class Native:
    """The loaded library, with the types of its functions declared once."""

    library: ctypes.CDLL

    @classmethod
    def load(cls, path: Path) -> Native:
        """Load the library that ``build_native`` returned."""
        library = ctypes.CDLL(str(path))
        i64, u32, u64, ptr = ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
        signatures: dict[str, tuple[object, list[object]]] = {
            "forge_can_flush": (ctypes.c_int, []),
            "forge_flush": (None, [ptr, i64]),
            "forge_guard_cores": (ctypes.c_int, [ptr, i64]),
            "forge_prepare_cores": (None, []),
            "forge_fill": (None, [ptr, i64, u32]),
            "forge_turn": (i64, [ptr, ptr, ctypes.c_int, i64, ptr, ptr, ptr, i64]),
            "forge_await": (i64, [ptr, u64, ctypes.c_int, i64]),
            "forge_say_and_wait": (None, [ptr, u64, ptr, u64]),
            "forge_say": (None, [ptr, u64]),
            "forge_calls": (None, [ptr, ptr, i64, i64]),
            "forge_compare": (None, [ptr, ptr, ptr, i64, u32, ctypes.POINTER(Comparison)]),
            "forge_fma_rate": (ctypes.c_double, [i64]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
        return cls(library)

    def address_of(self, name: str) -> int:
        """Return the address of an exported function, to be called like a kernel."""
        address = ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value
        if address is None:
            raise HarnessFault(f"forge_native lacks {name}.")
        return address
