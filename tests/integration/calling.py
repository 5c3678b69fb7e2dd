"""Runs ``forge`` with fake judge and student in a process of its own, as a person would."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def forge(home, *arguments, timeout=110, **variables):
    """Run a command on the workspace ``home``; ``variables`` join its environment."""
    return subprocess.run(
        [sys.executable, "-m", "tests.integration.fake_forge", *arguments],
        env={**os.environ, "FORGE_HOME": str(home), "PYTHONPATH": str(ROOT), **variables},
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
