"""Memory files shared between processes, made once per role and size; and running out of it."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from forge.judge.control import Word

if TYPE_CHECKING:
    from forge.judge.control import ControlPage


@dataclass(slots=True)
class MemoryFile:
    """An anonymous file, mapped by the coordinator."""

    fd: int
    reader: int
    """The same file opened for reading only: what an arm gets of its inputs."""
    size: int
    memory: mmap.mmap
    address: int

    @classmethod
    def create(cls, name: str, size: int) -> MemoryFile:
        """Make a file of ``size`` bytes, all of them in memory already."""
        fd = os.memfd_create(f"forge-{name}", os.MFD_CLOEXEC)
        os.ftruncate(fd, size)
        os.fchmod(fd, 0o600)
        reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)
        memory = mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        address = int(np.frombuffer(memory, dtype=np.uint8).ctypes.data)
        return cls(fd=fd, reader=reader, size=size, memory=memory, address=address)

    @classmethod
    def nothing(cls) -> MemoryFile:
        """Return a file of no size, for a process that has no buffers."""
        return cls(fd=-1, reader=-1, size=0, memory=mmap.mmap(-1, 1), address=0)

    def words(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        """Return the file as 32-bit words."""
        return np.frombuffer(self.memory, dtype=np.uint32)

    def close(self) -> None:
        """Give the memory back as soon as no arm maps it."""
        os.close(self.fd)
        os.close(self.reader)


class MemoryFiles:
    """Files by role. A role whose size changes gets a new file."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}

    def get(self, role: str, size: int) -> MemoryFile:
        """Return the file of ``role`` with exactly ``size`` bytes."""
        found = self._files.get(role)
        if found is not None and found.size == size:
            return found
        if found is not None:
            found.close()
        self._files[role] = MemoryFile.create(role.replace("/", "-"), size)
        return self._files[role]

    def clear(self) -> None:
        """Give everything back."""
        for file in self._files.values():
            file.close()
        self._files.clear()


_NewHandler = ctypes.CFUNCTYPE(None)
_HANDLERS: list[object] = []  # the C++ library keeps the address alone


def tell_exhaustion(control: ControlPage) -> None:
    """Let C++ code of this process that gets no more memory say so, and end.

    A kernel that forges this is rejected by it. What the C library refuses to give is seen by the
    coordinator only if the process had nearly used up its memory when it died.
    """
    try:
        library = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return

    def on_exhaustion() -> None:
        try:
            control.say(Word.OUT_OF_MEMORY, "no more memory to be had")
        finally:
            os._exit(1)

    _HANDLERS.append(_NewHandler(on_exhaustion))
    library["_ZSt15set_new_handlerPFvvE"](_HANDLERS[-1])
