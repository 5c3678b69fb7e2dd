"""Start and kill the processes of ``ledger_child``."""

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def child(what: str, folder: Path) -> Generator[subprocess.Popen[str]]:
    """Run a child that is killed at the end, if nothing ended it before."""
    command = [sys.executable, "-m", "tests.integration.ledger_child", what, str(folder)]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Wait for the child's next ``count`` lines."""
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(count)]


def killed(process: subprocess.Popen[str]) -> list[str]:
    """Kill -9 the child and return the whole lines that it still had said."""
    process.send_signal(signal.SIGKILL)
    assert process.stdout is not None
    rest = process.stdout.read()
    assert process.wait() == -signal.SIGKILL
    return rest.split("\n")[:-1]
