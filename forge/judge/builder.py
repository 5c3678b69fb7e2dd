"""Compile a candidate inside the walls: no network, no secrets, a scratch that vanishes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from forge.judge.control import Word
from forge.judge.native.library import FLAGS
from forge.judge.sandbox import Limits

if TYPE_CHECKING:
    from forge.judge.control import ControlPage

KERNEL_FLAGS = (*FLAGS, "-Wall")
MAX_SOURCE_BYTES = 256 << 10
MAX_LIBRARY_BYTES = 32 << 20
BUILD_S = 60
_ERROR = re.compile(r"^[^\n]*?(?:kernel\.cpp:\d+:(?:\d+:)? )?(?:fatal )?error: .*$", re.MULTILINE)
_LINK = re.compile(r"^.*undefined reference.*$", re.MULTILINE)


class BuildSpec(BaseModel):
    """One compilation."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    files: dict[str, str]
    """Text by file name; ``kernel.cpp`` is compiled, the others may be included."""
    compiler: str

    def limits(self) -> Limits:
        """What the compiler may use."""
        return Limits(
            memory_bytes=3 << 30, cpu_s=BUILD_S, file_bytes=MAX_LIBRARY_BYTES, allow_processes=True
        )


def run_build(spec: BuildSpec, out: int, control: ControlPage) -> None:
    """Compile ``spec`` and write the library into the memory file ``out``; say how it went."""
    scratch = Path.cwd()  # private to this builder, gone with it
    for name, text in spec.files.items():
        (scratch / name).write_text(text, encoding="utf-8")
    command = [spec.compiler, *KERNEL_FLAGS, "-o", "kernel.so", "kernel.cpp"]
    done = subprocess.run(  # noqa: S603  (fixed flags; the text is the only thing not ours)
        command,
        cwd=scratch,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(scratch)},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        control.say(Word.LOADS, first_error(done.stderr.decode(errors="replace")))
        return
    library = (scratch / "kernel.so").read_bytes()
    os.ftruncate(out, len(library))
    os.pwrite(out, library, 0)
    control.say(Word.DONE)


def first_error(stderr: str) -> str:
    """Return the compiler's first error in one line, for example ``kernel.cpp:3:5: error: ..``."""
    found = _ERROR.search(stderr) or _LINK.search(stderr)
    line = found.group(0) if found else (stderr.strip().splitlines() or ["no message"])[-1]
    return line.strip()[:500]
