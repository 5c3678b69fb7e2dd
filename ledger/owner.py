"""The owner's ear: a thread that answers readers while a night holds the file."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

from forge.errors import ForgeError, UsageError
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

    from ledger.store import Ledger

log = logging.getLogger(__name__)

# A reader that stalls is left alone after this; others are answered meanwhile.
_STALL_S = 5.0
_WAITING_READERS = 64


class OwnerServer:
    """Answers named queries on a Unix socket beside the ledger, from start to close.

    Only this user may connect. A socket that a killed owner left is replaced: whoever holds the
    ledger's file is its only owner.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.path: Path = socket_path(ledger.path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._thread = threading.Thread(target=self._serve, name="ledger-owner", daemon=True)
        self._is_closing = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin to answer; readers may connect when this returns.

        Raises:
            UsageError: The socket cannot be made.
        """
        try:
            self.path.unlink(missing_ok=True)
            with reachable(self.path) as name:
                self._socket.bind(name)
            # Nobody can connect before listen, so nobody slips in before the mode is set.
            self.path.chmod(0o600)
            self._socket.listen(_WAITING_READERS)
        except OSError as error:
            raise UsageError(
                f"The ledger's socket {self.path} cannot be made ({error.strerror})."
            ) from error
        self._thread.start()

    def close(self) -> None:
        """Stop answering and remove the socket."""
        self._is_closing.set()
        self.path.unlink(missing_ok=True)
        if self._thread.is_alive():
            # Wakes a thread that waits in accept, which closing alone does not.
            self._socket.shutdown(socket.SHUT_RDWR)
            self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._is_closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._is_closing.is_set():
                    return
                log.exception("The socket %s failed; readers wait for the end.", self.path)
                return
            threading.Thread(
                target=self._converse, args=(connection,), name="ledger-reader", daemon=True
            ).start()

    def _converse(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_STALL_S)
            try:
                request = receive(connection, REQUEST_BYTES)
                answer = {"answer": self._ledger.query(**_question(request))}
            except WireError as error:
                log.debug("A reader of the ledger was not understood: %s", error)
                return
            except UsageError as error:
                answer = {"usage": str(error)}
            except ForgeError as error:
                answer = {"fault": str(error)}
            _reply(connection, answer)


def _question(request: dict[str, Any]) -> dict[str, Any]:
    name, params = request.get("query"), request.get("params", {})
    if not isinstance(name, str) or not isinstance(params, dict):
        raise WireError("a request has a query and params")
    return {**params, "name": name}


def _reply(connection: socket.socket, answer: dict[str, Any]) -> None:
    try:
        send(connection, answer, ANSWER_BYTES)
    except WireError as error:
        log.debug("A reader of the ledger was not answered: %s", error)
