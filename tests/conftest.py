"""Fixtures that more than one folder of tests uses."""

import subprocess
import sys

import pytest

_MIGRATE = """
import pathlib, sys
from flows.prefect_home import local_prefect
with local_prefect(pathlib.Path(sys.argv[1])) as prefect:
    prefect.wait_until_ready()
"""


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory):
    """A night's Prefect home whose database is made, which takes 7 s; copy it to use it."""
    home = tmp_path_factory.mktemp("prefect")
    subprocess.run([sys.executable, "-c", _MIGRATE, str(home)], check=True, timeout=90)
    return home
