"""Open the DuckDB file, and turn what can go wrong with a file into one clear sentence."""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import duckdb

from forge.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from duckdb import DuckDBPyConnection

# Without limits it takes every core and most of the memory, beside kernels being measured.
# Nothing is ever fetched: extensions are neither installed nor loaded behind our back.
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "512MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
}
_HOLDER = re.compile(r"\(PID (\d+)\)")
_FULL = ("No space left on device", "File too large", "Disk quota exceeded")
_READ_ONLY = ("Read-only file system", "Permission denied", "read-only mode")
# The last is what it says of an SQLite file, for which it would load an extension.
_NOT_OURS = (
    "not a valid DuckDB database",
    "Could not read enough bytes",
    "Loading external extensions",
)
_TOO_NEW = ("version number",)
_DAMAGED = ("Corrupt", "corrupt", "checksum", "Serialization Error", "Failure while replaying WAL")
_RETRY_S = 0.02


class DatabaseBusy(UsageError):
    """Another process holds the file.

    Attributes:
        holder: Its process id, or ``None`` if DuckDB did not say.
    """

    def __init__(self, path: Path, holder: int | None) -> None:
        self.holder = holder
        who = "another process" if holder is None else f"process {holder}"
        super().__init__(
            f"The ledger {path} is in use by {who}, most likely a night that runs: wait for it "
            "to end, or stop it with Ctrl-C."
        )


def open_database(path: Path, *, is_read_only: bool) -> DuckDBPyConnection:
    """Open an existing file.

    Raises:
        DatabaseBusy: Another process holds it.
        UsageError: It cannot be opened for a reason that an operator can mend.
    """
    if not path.is_file():
        raise UsageError(f"There is no ledger at {path}: run a night first, or name its home.")
    with translated(path):
        return duckdb.connect(path, read_only=is_read_only, config=CONFIG)


def open_patiently(path: Path, *, is_read_only: bool, patience_s: float) -> DuckDBPyConnection:
    """Open an existing file, waiting at most ``patience_s`` for short readers to leave it."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return open_database(path, is_read_only=is_read_only)
        except DatabaseBusy:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_RETRY_S)


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Turn DuckDB's and the system's errors about ``path`` into ``UsageError`` or ours."""
    try:
        yield
    except duckdb.Error as error:
        raise _meaning(path, str(error)) from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES}:
            raise _meaning(path, os.strerror(error.errno)) from error
        raise


def _meaning(path: Path, said: str) -> UsageError | HarnessFault:
    if "Conflicting lock" in said:
        holder = _HOLDER.search(said)
        return DatabaseBusy(path, int(holder[1]) if holder else None)
    first = said.splitlines()[0]
    for signs, sentence in (
        (_FULL, f"The disk of {path} is full: free some space; nothing acknowledged is lost."),
        (_READ_ONLY, f"{path} cannot be written ({first}): check its permissions and its disk."),
        (_NOT_OURS, f"{path} is not a DuckDB database: move it away, or restore a backup."),
        (_TOO_NEW, f"{path} was written by another DuckDB version than this one ({first})."),
        (_DAMAGED, f"{path} is damaged ({first}): restore a backup."),
    ):
        if any(sign in said for sign in signs):
            return UsageError(sentence)
    return HarnessFault(f"The ledger {path} failed: {first}")
