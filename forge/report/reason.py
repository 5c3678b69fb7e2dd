"""What a check says of a kernel, without what is ours: a traceback down to the kernel's frames."""

from __future__ import annotations

import re
from pathlib import PurePath

_HEADER = "Traceback (most recent call last):"
_FRAME = re.compile(r' *File "(?P<file>[^"]*)", line (?P<line>\d+)(?:, in (?P<where>.*))?')
_MARKS = re.compile(r"[\s^~]*")
_KERNEL = "kernel.py"


def shown_reason(reason: str) -> str:
    """Return ``reason``, a Python traceback in it reduced to the kernel's frames and its error.

    A frame is one line: ``kernel.py:2 in launch: raise ValueError("no")``. A traceback whose
    beginning was cut off begins at its first whole frame.
    """
    lines = reason.splitlines()
    frames = [number for number, line in enumerate(lines) if _FRAME.fullmatch(line)]
    if not frames:
        return "\n".join(line for line in lines if line != _HEADER)
    is_whole = _HEADER in lines[: frames[0]]
    start = lines.index(_HEADER) if is_whole else frames[0]
    shown = lines[:start] if is_whole else []
    is_own = False
    for line in lines[start:]:
        frame = _FRAME.fullmatch(line)
        if frame:
            is_own = _is_kernel(frame["file"])
            if is_own:
                where = f" in {frame['where']}" if frame["where"] else ""
                shown.append(f"{_KERNEL}:{frame['line']}{where}")
        elif not line.startswith(" "):
            is_own = False
            if line and line != _HEADER:
                shown.append(line)
        elif is_own and not _MARKS.fullmatch(line):
            shown[-1] += f": {line.strip()}"
    return "\n".join(shown)


def _is_kernel(file: str) -> bool:
    return file == "<kernel>" or PurePath(file).name == _KERNEL


def indented(text: str) -> list[str]:
    """Return the lines of ``text``, each moved in by two."""
    return [f"  {line}".rstrip() for line in text.splitlines()]
