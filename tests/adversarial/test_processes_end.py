"""How the judge's processes end when nobody ends them."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PARTS = ["zygote", "feeder", "oracle"]
UNSHARE = 272


def coordinator(*arguments, through=()):
    return subprocess.Popen(
        [sys.executable, *map(str, through), HERE / "coordinator.py", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("when", ["starting", "idle", "working"])
def test_a_process_that_hears_nothing_more_ends_quietly(part, when):
    if (part, when) == ("zygote", "working"):
        pytest.skip("a zygote answers at once")
    with coordinator(when, part) as process:
        _, stderr = process.communicate(timeout=90)
    assert (process.returncode, stderr) == (0, "")


@pytest.mark.parametrize("without", [[], [UNSHARE]])
def test_nothing_outlives_a_killed_coordinator(without):
    with tempfile.TemporaryDirectory(prefix="forge-test-") as folder:
        through = [HERE / "as_plain_user.py", json.dumps(without), folder] if without else []
        survivors, said = after_a_kill(through)
    assert survivors == []
    assert said == ""


def after_a_kill(through):
    """Kill a coordinator; return which of its processes live on, and what they said."""
    with coordinator("kill", through=through) as process:
        found = json.loads(process.stdout.readline())
        assert found["arms"] >= 1
        below = [os.pidfd_open(pid) for pid in found["below"]]
        process.send_signal(signal.SIGKILL)
        survivors = [fd for fd in below if not select.select([fd], [], [], 30)[0]]
        for fd in survivors:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        for fd in below:
            os.close(fd)
        return survivors, process.stderr.read()


def test_a_ctrl_c_is_the_coordinators_alone():
    with coordinator("interrupt") as process:
        assert process.stdout.readline().strip() == '"ready"', process.stderr.read()
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate("go\n", timeout=60)
    assert (json.loads(stdout), stderr) == ("not-faster", "")
