"""A Prefect of a night's own: its home, its settings and its server, and nobody else's.

Prefect reads variables, profiles, ``.env``, ``prefect.toml`` and ``pyproject.toml`` of the current
folder when it is first imported. A night must not be reached by any of them: a cloud profile
or a dead server would make it fail or send its data away. So the variables are scrubbed, the
current folder is the night's own while it runs, and its server is one that it started itself.

Prefect can start such a server too, but in the caller's process group, where the first Ctrl-C
stops it under the running flow, and it waits until it is up. Measured with 3.9.1: a server of
our own costs 1.6 s after the start of the judge's processes (8 s the first time, its database
is made) and prints nothing at exit.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from forge.config import child_variables, replace_variables
from forge.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 5.0
# What its database takes when it is made, with its journal; less does not do.
_DATABASE_BYTES = 8 * 2**20
_FULL_DISK = ("disk is full", "No space left on device", "Disk quota exceeded")


class LocalPrefect:
    """A server that was started and may not be ready yet.

    Attributes:
        url: Its API.
    """

    def __init__(self, url: str, server: subprocess.Popen[bytes], log: Path) -> None:
        self.url = url
        self._server = server
        self._log = log

    def wait_until_ready(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Return once the server answers.

        Raises:
            UsageError: It could not start because the disk is full.
            HarnessFault: It ended, or did not answer in time.
        """
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if self._server.poll() is not None:
                break
            # Connections queue on the socket that was opened for the server, so this one
            # request waits until it is up instead of polling.
            if _answers(f"{self.url}/health", left_s):
                return
        raise self._why_not()

    def _why_not(self) -> UsageError | HarnessFault:
        """Return why the server did not start."""
        free, said = (
            shutil.disk_usage(self._log.parent).free,
            self._log.read_text(errors="replace"),
        )
        if free < _DATABASE_BYTES or any(sign in said for sign in _FULL_DISK):
            return UsageError(
                f"The disk of {self._log.parent} is full: Prefect's database needs "
                f"{_DATABASE_BYTES >> 20} MiB and {free / 2**20:.1f} MiB are free; free some room "
                "and start again."
            )
        return HarnessFault(
            f"The local Prefect server did not start (exit code {self._server.poll()}); "
            f"see {self._log}."
        )

    def share_cores(self) -> None:
        """Keep the server on this process's cores, off those that kernels are measured on."""
        cores = os.sched_getaffinity(0)
        for thread in Path(f"/proc/{self._server.pid}/task").glob("*"):
            # A thread may end meanwhile; those that start later inherit.
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), cores)

    def stop(self) -> None:
        """End the server; kill it if it does not end by itself."""
        self._server.terminate()
        try:
            self._server.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()


@contextlib.contextmanager
def local_prefect(home: Path) -> Generator[LocalPrefect]:
    """Point this process's Prefect at ``home`` and start a server for it; stop it at the end.

    Returns at once: call ``wait_until_ready`` before the first flow. Until the end the
    current folder is ``home``.

    Raises:
        HarnessFault: Prefect was imported before, so that it has read its settings already.
    """
    if "prefect" in sys.modules:
        raise HarnessFault("Prefect was imported before its settings were scrubbed.")
    home.mkdir(parents=True, exist_ok=True)
    with socket.socket() as listener:
        # Opened here and handed over, so that the port is known and ours before the server
        # has started; the kernel queues what arrives early.
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
        replace_variables("PREFECT_", client_variables(home, url))
        replace_variables("DO_NOT_TRACK", {"DO_NOT_TRACK": "1"})
        server = _start_server(listener, home)
    local = LocalPrefect(url, server, _log_of(home))
    try:
        with contextlib.chdir(home):
            yield local
    finally:
        local.stop()


def client_variables(home: Path, url: str) -> dict[str, str]:
    """Return the variables that a local night's Prefect runs under, server and client alike."""
    # Anybody on this host can reach a port on the loopback; only we know this word.
    password = f"night:{secrets.token_hex(16)}"
    return {
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "PREFECT_API_URL": url,
        "PREFECT_API_AUTH_STRING": password,
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        # Our own log and the ledger say what happened; at ERROR Prefect prints the traceback
        # of any exception that leaves a flow, a person's mistake included.
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_ENABLED": "false",
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    }


def _answers(url: str, timeout_s: float) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=timeout_s):  # noqa: S310 - our own server
            return True
    except urllib.error.HTTPError:
        return True  # it wants the password, so it is up
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


def _log_of(home: Path) -> Path:
    return home / "server.log"


def _start_server(listener: socket.socket, home: Path) -> subprocess.Popen[bytes]:
    """Start the server on ``listener``, in a session of its own so that Ctrl-C spares it."""
    # The names that Prefect's own temporary server sets: fewer services, no pages.
    environment = {
        "PREFECT_UI_ENABLED": "false",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    with _log_of(home).open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - this interpreter and our own module
            [
                sys.executable,
                "-m",
                "flows.prefect_server",
                str(listener.fileno()),
                str(os.getpid()),
            ],
            pass_fds=[listener.fileno()],
            env=child_variables(environment),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
