"""Read the ledger whether or not a night holds it: ask the owner, or open the file."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Protocol

from forge.errors import HarnessFault, UsageError
from ledger.database import DatabaseBusy, open_database, translated
from ledger.migrate import check_version
from ledger.queries import answer
from ledger.schema import NEWEST
from ledger.wire import (
    ANSWER_BYTES,
    REQUEST_BYTES,
    WireError,
    reachable,
    receive,
    send,
    socket_path,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ledger.chain import Json

# A slow answer is one of a few seconds; an owner that says nothing for longer is stuck.
_ANSWER_S = 20.0
# How long an owner may hold the file without answering: while it opens, or between two.
_PATIENCE_S = 5.0
_RETRY_S = 0.02


class Reader(Protocol):
    """Whoever answers named questions: ``ledger.queries.QUERIES``."""

    def query(self, name: str, **params: Json) -> Json:
        """Return the answer.

        Raises:
            UsageError: There is no such question, or what it names does not exist.
        """
        ...


class OwnerReader:
    """Asks the owner, one connection a question."""

    def __init__(self, ledger: Path) -> None:
        self._path = socket_path(ledger)

    def query(self, name: str, **params: Json) -> Json:
        """Return the owner's answer.

        Raises:
            OwnerGone: Nobody listens.
            UsageError: The owner says that the question is wrong, or says nothing at all.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(_ANSWER_S)
                with reachable(self._path) as address:
                    connection.connect(address)
                send(connection, {"query": name, "params": params}, REQUEST_BYTES)
                said = receive(connection, ANSWER_BYTES)
        except (OSError, WireError) as error:
            raise OwnerGone(
                f"The ledger's owner does not answer on {self._path}: {error}."
            ) from error
        if "usage" in said:
            raise UsageError(said["usage"])
        if "answer" not in said:
            raise HarnessFault(f"The ledger's owner failed: {said.get('fault', said)}")
        return said["answer"]


class OwnerGone(UsageError):
    """Nobody answers on the ledger's socket."""


class FileReader:
    """Opens the file for the length of one question, so that a night can start meanwhile."""

    def __init__(self, ledger: Path) -> None:
        self._path = ledger

    def query(self, name: str, **params: Json) -> Json:
        """Return the answer found in the file.

        Raises:
            DatabaseBusy: A process owns it.
            UsageError: It cannot be read, or the question is wrong.
        """
        with open_database(self._path, is_read_only=True) as connection, translated(self._path):
            if check_version(connection, self._path, NEWEST) < NEWEST:
                raise UsageError(
                    f"The ledger {self._path} has an older schema than this program: run "
                    "`forge audit` or a night once to bring it up to date."
                )
            return answer(connection, name, params)


class LedgerReader:
    """Asks the owner where one lives, and opens the file where none does."""

    def __init__(self, ledger: Path, patience_s: float = _PATIENCE_S) -> None:
        self._ways: tuple[Reader, ...] = (OwnerReader(ledger), FileReader(ledger))
        self._patience_s = patience_s

    def query(self, name: str, **params: Json) -> Json:
        """Return the answer, by whichever way is open.

        An owner holds the file a moment before it listens and after it stopped, so both ways are
        tried again for a while.

        Raises:
            UsageError: The question is wrong, or the owner holds the file and does not answer.
        """
        deadline = time.monotonic() + self._patience_s
        while True:
            busy = self._try(name, params)
            if not isinstance(busy, DatabaseBusy):
                return busy[0]
            if time.monotonic() >= deadline:
                raise busy
            time.sleep(_RETRY_S)

    def _try(self, name: str, params: dict[str, Any]) -> tuple[Json] | DatabaseBusy:
        """Return the answer in a tuple, or why there is none yet."""
        owner, file = self._ways
        try:
            return (owner.query(name, **params),)
        except OwnerGone:
            pass
        try:
            return (file.query(name, **params),)
        except DatabaseBusy as busy:
            return busy


def open_reader(ledger: Path) -> LedgerReader:
    """Return a reader of the ledger at ``ledger``; nothing is opened before it is asked."""
    return LedgerReader(ledger)
