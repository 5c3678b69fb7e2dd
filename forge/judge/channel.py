"""Messages between the judge's own processes: JSON with file descriptors, length-checked.

Only trusted processes speak on a channel. A candidate's words are numbers in a control page.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

from forge.errors import HarnessFault

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BYTES = 8 << 20
MAX_FDS = 16
_HEADER = struct.Struct("!QI")


class ChannelClosed(HarnessFault):
    """The other end is gone. A process of the judge that hears nothing more ends quietly."""


class Channel:
    """One end of a stream between two of the judge's processes."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        """The descriptor, to wait on."""
        return self._sock.fileno()

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Send one message; ``ChannelClosed`` if the other end is gone."""
        body = json.dumps(message).encode()
        try:
            socket.send_fds(self._sock, [_HEADER.pack(len(body), len(fds))], list(fds))
            self._sock.sendall(body)
        except OSError as error:
            raise ChannelClosed(f"A process of the judge is gone: {error}.") from error

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """Receive one message and its descriptors.

        Raises:
            ChannelClosed: The other end is gone.
            HarnessFault: What came is no message.
        """
        try:
            header, fds, _, _ = socket.recv_fds(self._sock, _HEADER.size, MAX_FDS)
            header += self._exactly(_HEADER.size - len(header)) if header else b""
            if not header:
                raise ChannelClosed("A process of the judge ended.")
            size, n_fds = _HEADER.unpack(header)
            if size > MAX_BYTES or n_fds != len(fds):
                raise HarnessFault(f"A malformed message: {size} bytes, {len(fds)} descriptors.")
            return json.loads(self._exactly(size)), list(fds)
        except OSError as error:
            raise ChannelClosed(f"A process of the judge is gone: {error}.") from error
        except ValueError as error:
            raise HarnessFault(f"A malformed message: {error}.") from error

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            part = self._sock.recv(min(size, 1 << 20))
            if not part:
                raise ChannelClosed("A process of the judge ended in the middle of a message.")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Close this end."""
        self._sock.close()
