"""Compile a candidate inside the walls: no network, no secrets, a scratch that vanishes."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from forge.judge.control import Word
from forge.judge.native.library import FLAGS
from forge.judge.sandbox import Limits, die_with_parent

if TYPE_CHECKING:
    from forge.judge.control import ControlPage

KERNEL_FLAGS = (*FLAGS, "-Wall")
# What makes no other code: a source that is wrong everywhere is told so in a few lines.
_BRIEFLY = ("-fmax-errors=5", "-fdiagnostics-color=never")
MAX_SOURCE_BYTES = 256 << 10
MAX_LIBRARY_BYTES = 32 << 20
BUILD_S = 60
COMPILER_BYTES = 2 << 30
_SAID_BYTES = 64 << 10
_ERROR = re.compile(r"^[^\n]*?(?:kernel\.cpp:\d+:(?:\d+:)? )?(?:fatal )?error: .*$", re.MULTILINE)
_LINK = re.compile(r"^.*undefined reference.*$", re.MULTILINE)
# What the compiler says of a part of itself that met a limit, and what that means.
_LIMITS = tuple(
    (re.compile(rf"^(?!kernel\.cpp|In file)[^\n]*(?:{said})", re.MULTILINE), need)
    for said, need in (
        ("CPU time limit exceeded|Killed signal", "more than {seconds} s"),
        (
            "out of memory|[Cc]annot allocate memory|memory exhausted|bad_alloc",
            f"more than {COMPILER_BYTES >> 30} GiB of memory",
        ),
        (
            "File size limit exceeded|[Ff]ile too large|No space left",
            f"more than {MAX_LIBRARY_BYTES >> 20} MiB for what it writes",
        ),
    )
)


class BuildSpec(BaseModel):
    """One compilation."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    files: dict[str, str]
    """Text by file name; ``kernel.cpp`` is compiled, the others may be included."""
    compiler: str
    seconds: int = BUILD_S
    """Processor time of each of the compiler's programs."""

    def limits(self) -> Limits:
        """What the builder and its compiler may use."""
        return Limits(
            memory_bytes=COMPILER_BYTES,
            cpu_s=self.seconds,
            file_bytes=MAX_LIBRARY_BYTES,
            allow_processes=True,
            may_write=True,
        )


def run_build(spec: BuildSpec, out: int, control: ControlPage) -> None:
    """Compile ``spec`` and write the library into the memory file ``out``; say how it went."""
    scratch = Path.cwd()  # private to this builder, gone with it
    for name, text in spec.files.items():
        path = scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    command = [spec.compiler, *KERNEL_FLAGS, *_BRIEFLY, "-o", "kernel.so", "kernel.cpp"]
    # Into a file, whose size is limited: a pipe would fill this process's memory.
    with (scratch / "said").open("w+b") as said:
        done = subprocess.run(  # noqa: S603  (fixed flags; the text is the only thing not ours)
            command,
            cwd=scratch,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": str(scratch)},
            stdout=said,
            stderr=said,
            check=False,
            preexec_fn=_limit_compiler,  # this process has one thread
        )
        said.seek(0)
        text = said.read(_SAID_BYTES).decode(errors="replace")
        if os.fstat(said.fileno()).st_size >= MAX_LIBRARY_BYTES:
            text += "\nFile too large"
    if done.returncode:
        control.say(Word.LOADS, reason(text, spec.seconds, -done.returncode))
        return
    library = (scratch / "kernel.so").read_bytes()
    os.ftruncate(out, len(library))
    os.pwrite(out, library, 0)
    control.say(Word.DONE)


def _limit_compiler() -> None:
    """Count the compiler's own address space alone, and end it with this process."""
    resource.setrlimit(resource.RLIMIT_AS, (COMPILER_BYTES, COMPILER_BYTES))
    die_with_parent()


def reason(said: str, seconds: int, number: int = 0) -> str:
    """Return in one line why there is no library.

    Args:
        said: What the compiler wrote.
        seconds: The processor time it might use.
        number: The signal that ended it, if one did.
    """
    if number in (signal.SIGXCPU, signal.SIGKILL):
        said += "\nCPU time limit exceeded"
    for pattern, need in _LIMITS:
        if pattern.search(said):
            return f"the compiler needs {need.format(seconds=seconds)}, and may not"
    return first_error(said)


def first_error(stderr: str) -> str:
    """Return the compiler's first error in one line, for example ``kernel.cpp:3:5: error: ..``."""
    found = _ERROR.search(stderr) or _LINK.search(stderr)
    line = found.group(0) if found else (stderr.strip().splitlines() or ["no message"])[-1]
    return line.strip()[:500]
