"""The right to measure on this machine's cores: one sample at a time, whoever judges.

A file lock, so that the kernel gives it back when its holder dies. Two judges of one user (a
night and a ``forge judge``) take turns by the sample instead of disturbing each other's clocks.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Lease:
    """A lease on the processor, taken for the length of a block."""

    def __init__(self) -> None:
        path = Path(tempfile.gettempdir()) / f"everforge-cpu-{os.getuid()}.lease"
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Wait for the lease and hold it while the block runs."""
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._fd)
