"""The page through which the coordinator and one arm exchange words.

Everything on it may be forged by the arm. It can only end its own clock or name its own failure,
and it is killed and its outputs are compared whatever it says.
"""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum

PAGE_BYTES = 8192
GO, STATE, TEXT = 0, 64, 128
TEXT_BYTES = 4096


class Word(IntEnum):
    """What an arm says. From ``LOADS`` on it is an error, with a text."""

    STARTING = 0
    READY = 1
    DONE = 2
    COPIED = 3
    LOADS = 8
    LACKS_LAUNCH = 9
    PYTHON_ERROR = 10
    OUT_OF_MEMORY = 11
    FORBIDDEN_CALL = 12
    COLD_MEMORY = 13


class Go(IntEnum):
    """What the coordinator lets an arm do."""

    BURST = 1
    COPY = 2
    """For a reference: put the results where they are compared."""


class ControlPage:
    """A mapped page; both sides use it."""

    def __init__(self, fd: int) -> None:
        self.memory = mmap.mmap(fd, PAGE_BYTES)

    def word(self) -> int:
        """Return the arm's word."""
        return struct.unpack_from("Q", self.memory, STATE)[0]

    def say(self, word: Word, text: str = "") -> None:
        """Say ``word``, with a text if it is an error."""
        body = text.encode(errors="replace")[8 - TEXT_BYTES :]  # an error is told at the end
        struct.pack_into("Q", self.memory, TEXT, len(body))
        self.memory[TEXT + 8 : TEXT + 8 + len(body)] = body
        struct.pack_into("Q", self.memory, STATE, int(word))

    def text(self) -> str:
        """Return the arm's text as printable characters; it is shown, never interpreted."""
        size = min(struct.unpack_from("Q", self.memory, TEXT)[0], TEXT_BYTES - 8)
        raw = bytes(self.memory[TEXT + 8 : TEXT + 8 + size]).decode(errors="replace")
        return "".join(c if c.isprintable() or c == "\n" else "?" for c in raw)

    def close(self) -> None:
        """Unmap the page."""
        self.memory.close()
