"""The server process of a local night: ``python -m flows.prefect_server FD PID``."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int) -> None:
    """Serve Prefect's API on the listening socket ``descriptor`` for the process ``parent``."""
    _die_with(parent)
    import uvicorn  # noqa: PLC0415 - after the tie to the parent, which takes no time
    from prefect.server.api.server import create_app  # noqa: PLC0415

    config = uvicorn.Config(create_app, factory=True, log_level="error", lifespan="on")
    with socket.socket(fileno=descriptor) as listener:
        uvicorn.Server(config).run(sockets=[listener])


def _die_with(parent: int) -> None:
    """End this process when its parent does, even by kill -9, which runs nothing at exit."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit("The night ended before its server started.")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
