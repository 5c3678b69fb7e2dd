"""How a reader and the ledger's owner speak: one line of JSON each way on a Unix socket."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator, Mapping
    from pathlib import Path

REQUEST_BYTES = 64 * 2**10
ANSWER_BYTES = 64 * 2**20
_CHUNK = 2**16


class WireError(Exception):
    """The other side went away, or said what is no line of JSON of a permitted length."""


def socket_path(ledger: Path) -> Path:
    """Return where the owner of ``ledger`` listens."""
    return ledger.with_suffix(".socket")


@contextmanager
def reachable(path: Path) -> Generator[str]:
    """Hand out a name for ``path`` that is short enough for a socket, however deep it lies.

    A socket's name has at most 107 bytes; through the folder's descriptor it has about thirty.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def send(connection: socket.socket, message: Mapping[str, Any], limit: int) -> None:
    """Send one message.

    Raises:
        WireError: It is longer than ``limit`` bytes, or the other side went away.
    """
    line = json.dumps(message).encode() + b"\n"
    if len(line) > limit:
        raise WireError(f"a message has {len(line)} bytes, more than the {limit} allowed")
    try:
        connection.sendall(line)
    except OSError as error:
        raise WireError(f"it cannot be sent ({error})") from error


def receive(connection: socket.socket, limit: int) -> dict[str, Any]:
    """Receive one message.

    Raises:
        WireError: It is cut short, longer than ``limit`` bytes, or no JSON object.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        try:
            part = connection.recv(_CHUNK)
        except OSError as error:
            raise WireError(f"no answer ({error})") from error
        if not part:
            raise WireError(f"the other side left after {len(line)} bytes of a message")
        line += part
        if len(line) > limit:
            raise WireError(f"a message has more than the {limit} bytes allowed")
    try:
        message = json.loads(line)
    except ValueError as error:
        raise WireError(f"a message is not JSON ({error})") from error
    if not isinstance(message, dict):
        raise WireError("a message is not a JSON object")
    return message  # pyright: ignore[reportUnknownVariableType] - keys of a JSON object are text
