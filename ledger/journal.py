"""The one way into the ledger's file: a transaction that also appends to the hash chain."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import duckdb

from forge.errors import HarnessFault, StaleState, UsageError
from ledger.blobs import BlobStore
from ledger.chain import GENESIS, canonical, event_hash
from ledger.database import CONFIG, open_patiently, translated
from ledger.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import datetime

    from duckdb import DuckDBPyConnection

    from forge.types import Clock

# A command that reads holds the file for less than this; a night that writes holds it longer.
_READERS_LEAVE_S = 3.0
# The clean-up of a file that a killed process was creating looks for this prefix.
_NEW = ".ledger-new-"


class Transaction:
    """One transaction on the ledger, handed out by ``Journal.writing``.

    Attributes:
        ts: Time of the transaction: UTC, without a zone.
        head: Number and hash of the last event, those of this transaction included.
    """

    def __init__(self, cursor: DuckDBPyConnection, ts: datetime, head: tuple[int, str]) -> None:
        self._cursor = cursor
        self.ts = ts
        self.head = head

    @property
    def next_seq(self) -> int:
        """The number that the next event will have."""
        return self.head[0] + 1

    def run(self, sql: str, *values: object) -> None:
        """Execute a statement."""
        self._cursor.execute(sql, values)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement and return what it returns."""
        return self._cursor.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        """Execute a statement and return its first row, if any."""
        return self._cursor.execute(sql, values).fetchone()

    def event(self, kind: str, subject: str, body: Mapping[str, Any]) -> int:
        """Append one event to the chain and return its number."""
        prev, text = self.head[1], canonical(body)
        seq = self.next_seq
        digest = event_hash(seq, self.ts, kind, subject, text, prev)
        self.run(
            "insert into events values (?, ?, ?, ?, ?, ?, ?)",
            seq,
            self.ts,
            kind,
            subject,
            text,
            prev,
            digest,
        )
        self.head = (seq, digest)
        return seq


class Journal:
    """An open ledger file: base of the parts that ``Ledger`` is made of.

    Methods may be called from any thread of the process that opened it; writes take turns. A
    forked child must not use it: two processes would write one file without noticing.
    """

    def __init__(self, path: Path, evidence_dir: Path, clock: Clock) -> None:
        """Open the ledger at ``path`` as its owner, creating it if there is none.

        Raises:
            UsageError: The file is in use, of a newer schema, or cannot be opened or written.
        """
        self.path = path
        self.evidence_dir = evidence_dir
        self._clock = clock
        self._pid = os.getpid()
        self._lock = threading.RLock()
        # Known only between transactions; read again after one that failed.
        self._head: tuple[int, str] | None = None
        if not path.is_file():
            _create(path, clock)
        self._connection = open_patiently(path, is_read_only=False, patience_s=_READERS_LEAVE_S)
        try:
            with translated(path):
                migrate(self._connection, path, clock)
            for stale in path.parent.glob(f"{_NEW}*"):
                # What a killed process left of a ledger it was creating.
                shutil.rmtree(stale, ignore_errors=True)
            BlobStore(evidence_dir).remove_partial()
        except BaseException:  # cleaned up, then raised again
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write the log into the file and let go of it; harmless when closed already."""
        if os.getpid() == self._pid:
            with self._lock, translated(self.path):
                self._connection.close()

    @contextmanager
    def writing(self) -> Generator[Transaction]:
        """Run one transaction: all of it is on disk when the block has ended, or none of it."""
        with self._lock, self.reading() as cursor:
            head, self._head = self._head, None
            cursor.begin()
            try:
                now = self._clock().astimezone(UTC).replace(tzinfo=None)
                transaction = Transaction(cursor, now, head or read_head(cursor))
                yield transaction
                cursor.commit()
            except BaseException:  # cleaned up, then raised again
                _roll_back(cursor)
                raise
            self._head = transaction.head

    @contextmanager
    def reading(self) -> Generator[DuckDBPyConnection]:
        """Hand out a cursor of this thread's own; it sees what has been committed."""
        if os.getpid() != self._pid:
            raise HarnessFault(
                f"Process {os.getpid()} was forked from {self._pid}, which owns {self.path}: "
                "open the ledger only after a fork."
            )
        with translated(self.path):
            cursor = self._connection.cursor()
            try:
                yield cursor
            finally:
                cursor.close()

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.reading() as cursor:
            return cursor.execute(sql, values).fetchall()

    def _row(self, sql: str, *values: object) -> tuple[Any, ...] | None:
        with self.reading() as cursor:
            return cursor.execute(sql, values).fetchone()


def read_head(connection: DuckDBPyConnection) -> tuple[int, str]:
    """Return number and hash of the last event; 0 and ``GENESIS`` when there is none."""
    row = connection.execute(
        "select seq, hash from events where seq = (select max(seq) from events)"
    ).fetchone()
    return (0, GENESIS) if row is None else (int(row[0]), str(row[1]))


def moved_one(rows: Sequence[object], complaint: str) -> None:
    """Raise ``StaleState`` with ``complaint`` unless a compare-and-swap changed its one row."""
    if len(rows) != 1:
        raise StaleState(f"{complaint}; read it again.")


def _roll_back(cursor: DuckDBPyConnection) -> None:
    """Roll back, unless the failed commit already did: the error to report is the first one."""
    try:
        cursor.rollback()
    except duckdb.Error:
        return


def _create(path: Path, clock: Clock) -> None:
    """Make an empty ledger that appears whole or not at all, whoever else is making one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with translated(path), tempfile.TemporaryDirectory(prefix=_NEW, dir=path.parent) as folder:
            made = Path(folder) / path.name
            with duckdb.connect(made, config=CONFIG) as connection:
                migrate(connection, path, clock)
            # It holds the secrets that holdouts are drawn with.
            made.chmod(0o600)
            _link(made, path)
    except (OSError, HarnessFault) as error:
        if path.is_file():
            # Another process was first, and cleared away what looked like a dead one's leavings.
            return
        raise UsageError(
            f"A ledger cannot be made at {path} ({error}): choose another home."
        ) from error


def _link(made: Path, path: Path) -> None:
    try:
        path.hardlink_to(made)
    except FileExistsError:
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
