"""Run kernels on buffers that end where memory does. A script: no torch, and it may crash.

    family_child.py LIBRARY PLAN INPUTS OUTPUTS

PLAN is JSON: {"functions": [name], "calls": [{"inputs": [bytes], "outputs": [bytes],
"offset": bytes, "axes": [int]}]}. INPUTS holds the bytes of every call's inputs; OUTPUTS gets
those of every function's outputs for every call. Every buffer ends ``offset`` bytes before a page
that nobody may touch; what is around it, and all of an input, must come out as it went in.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import sys
from pathlib import Path

PATTERN = 0xA5
PROT_NONE = 0


class Buffer:
    """``size`` bytes that end ``offset`` bytes before a guard page."""

    def __init__(self, size: int, offset: int) -> None:
        pages = -(-(size + offset + 64) // mmap.PAGESIZE)
        self.map = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.usable = pages * mmap.PAGESIZE
        self.size = size
        self.begin = self.usable - offset - size
        ctypes.memset(self.base, PATTERN, self.usable)
        libc = ctypes.CDLL(None, use_errno=True)
        guard = ctypes.c_void_p(self.base + self.usable)
        if libc.mprotect(guard, ctypes.c_size_t(mmap.PAGESIZE), PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    @property
    def address(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.base + self.begin)

    def read(self) -> bytes:
        return ctypes.string_at(self.base + self.begin, self.size)

    def write(self, content: bytes) -> None:
        ctypes.memmove(self.base + self.begin, content, self.size)

    def surroundings_are_intact(self) -> bool:
        before = ctypes.string_at(self.base, self.begin)
        behind = self.begin + self.size
        after = ctypes.string_at(self.base + behind, self.usable - behind)
        return not (before + after).strip(bytes([PATTERN]))


def main(library: str, plan: str, inputs: str, outputs: str) -> None:
    """Make every call of the plan with every function."""
    kernels = ctypes.CDLL(library)
    work = json.loads(Path(plan).read_text())
    with Path(inputs).open("rb") as source, Path(outputs).open("wb") as sink:
        for call in work["calls"]:
            content = [source.read(size) for size in call["inputs"]]
            for name in work["functions"]:
                sink.write(run(kernels[name], call, content))


def run(kernel: object, call: dict[str, list[int]], content: list[bytes]) -> bytes:
    """Return the bytes of one call's outputs."""
    given = [Buffer(size, call["offset"]) for size in call["inputs"]]
    taken = [Buffer(size, call["offset"]) for size in call["outputs"]]
    for buffer, text in zip(given, content, strict=True):
        buffer.write(text)
    for buffer in taken:
        buffer.write(b"\xff" * buffer.size)
    axes = [ctypes.c_int64(value) for value in call["axes"]]
    kernel(*(buffer.address for buffer in (*given, *taken)), *axes)
    for buffer, text in zip(given, content, strict=True):
        if buffer.read() != text:
            raise SystemExit("an input was written")
    if not all(buffer.surroundings_are_intact() for buffer in (*given, *taken)):
        raise SystemExit("memory around a buffer was written")
    return b"".join(buffer.read() for buffer in taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
