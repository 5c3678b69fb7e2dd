"""``forge night`` as a person runs it: its own Prefect, its signals, its exit codes."""

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.calling import forge

ROOT = Path(__file__).parents[2]
MENU = json.dumps([{"ns": 700}, {"ns": 500}])
NIGHT = ("night", "--json", "--minutes", "0.5", "--task", "softmax", "--student", "fake")
# A profile of the cloud, and a server that is not there.
HOSTILE = {
    "PREFECT_API_URL": "http://127.0.0.1:9/api",
    "PREFECT_API_KEY": "pnu_0123456789",
    "PREFECT_PROFILE": "cloud",
    "PREFECT_LOGGING_LEVEL": "DEBUG",
    "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
    "PREFECT_TEST_MODE": "1",
}


@pytest.fixture
def home(tmp_path, prefect_home):
    shutil.copytree(prefect_home, tmp_path / "home" / "prefect")
    return tmp_path / "home"


def servers_of(home):
    """Server processes that a night of ``home`` left behind."""
    return [
        entry.parent.name
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if b"flows.prefect_server" in entry.read_bytes()
        and (entry.parent / "cwd").resolve() == (home / "prefect").resolve()
    ]


def test_inherited_prefect_settings_do_not_touch_a_night(home):
    (home.parent / ".env").write_text("PREFECT_API_URL=http://127.0.0.1:9/api\n")
    (home.parent / "prefect.toml").write_text("[api]\nkey = 'pnu_x'\n")
    ran = forge(home, *NIGHT, FORGE_FAKE_MENU=MENU, **HOSTILE)
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["slots"][0]["generation_after"] == 1
    assert "Traceback" not in ran.stderr
    assert "refect" not in ran.stderr
    assert "git -C" in ran.stderr or "sealed generation 1" in ran.stderr
    assert servers_of(home) == []
    with sqlite3.connect(home / "prefect" / "prefect.db") as database:
        runs = database.execute("select name, state_name from flow_run").fetchall()
        tasks = database.execute("select name, state_name from task_run").fetchall()
    database.close()
    assert runs == [(report["night"], "Completed")]
    assert ("softmax/" + report["slots"][0]["target"] + " round 1", "Completed") in tasks


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_a_night_and_keeps_what_was_sealed(home, name):
    ran = forge(home, *NIGHT, FORGE_FAKE_MENU=MENU, FORGE_FAKE_SIGNAL=f"reconfirm={name}")
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert report["slots"][0]["generation_after"] == 1
    where = f"softmax/{report['slots'][0]['target']}"
    said = f"Stopping, after measuring ns 500 afresh ({where}), which takes 25 s at most."
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    shown = forge(home, "show", report["night"], "--json")
    assert json.loads(shown.stdout)["status"] == "stopped"


def test_the_summary_says_that_a_night_was_stopped(home):
    plain = [word for word in NIGHT if word != "--json"]
    ran = forge(home, *plain, FORGE_FAKE_MENU=MENU, FORGE_FAKE_SIGNAL="screen=SIGINT")
    assert ran.returncode == 0, ran.stderr
    assert "Stopping, after screening ns 700" in ran.stderr
    assert "\nstopped early: what was sealed is kept" in ran.stdout


@pytest.mark.timeout(300)
def test_ctrl_c_at_a_terminal_spares_the_judge_while_the_roof_is_measured(home):
    """The terminal signals every process of the night; the real judge must finish the roof."""
    command = ("night", "--minutes", "2", "--task", "row_sum")
    night = subprocess.Popen(
        [sys.executable, "-c", "from flows.cli.app import main; main()", *command],
        env={**os.environ, "FORGE_HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said = []
    for line in night.stderr:
        said.append(line)
        if "Measuring once" in line:
            os.killpg(night.pid, signal.SIGINT)
            break
    out, rest = night.communicate(timeout=240)
    text = "".join(said) + rest
    assert night.returncode == 0, text
    assert "Stopping, after preparing (row_sum/" in text
    assert "stopped early" in out
    for word in ("Broken pipe", "left alone", "gone", "Traceback"):
        assert word not in text
    assert servers_of(home) == []


LOST = """
from flows import wiring
from flows.cli.app import main
from forge.errors import HarnessFault
from tests.fakes import FakeStudent
from tests.integration import fake_forge

class Lost:
    def __init__(self, judge):
        self._judge = judge
    def __getattr__(self, name):
        return getattr(self._judge, name)
    def __enter__(self):
        self._judge.__enter__()
        return self
    def __exit__(self, *_):
        raise HarnessFault("A process of the judge is gone: [Errno 32] Broken pipe.")

wiring.JUDGES["cpu"] = lambda *of: Lost(fake_forge.make_judge(*of))
wiring.STUDENTS["fake"] = lambda: FakeStudent([{"ns": 700}])
main()
"""


@pytest.mark.parametrize(("phase", "code"), [("reconfirm", 0), ("never", 1)])
def test_a_judge_that_was_stopped_with_the_night_is_no_fault(home, phase, code):
    ran = subprocess.run(
        [sys.executable, "-c", LOST, *NIGHT],
        env={
            **os.environ,
            "FORGE_HOME": str(home),
            "PYTHONPATH": str(ROOT),
            "FORGE_FAKE_SIGNAL": f"{phase}=SIGINT",
        },
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    assert ("Broken pipe" in ran.stderr) is (code == 1)
    if code == 0:
        assert json.loads(ran.stdout)["slots"][0]["generation_after"] == 1


def test_a_disk_without_room_for_prefect_is_named(tmp_path):
    small = tmp_path / "home" / "prefect"
    small.mkdir(parents=True)
    night = shlex.join([sys.executable, "-m", "tests.integration.fake_forge", *NIGHT])
    script = f"mount -t tmpfs -o size=256k none {small} || exit 77; exec {night}"
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script],
        env={**os.environ, "FORGE_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip("this user may not mount a small disk")
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"forge: The disk of {small} is full: Prefect's database needs 8 MiB")


def test_a_second_ctrl_c_ends_it_at_once(home):
    ran = forge(home, *NIGHT, FORGE_FAKE_MENU=MENU, FORGE_FAKE_SIGNAL="confirm=SIGINT,SIGINT")
    assert ran.returncode == 130, ran.stderr
    assert ran.stdout == ""
    assert "Ended at once" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert servers_of(home) == []
    assert forge(home, "audit").returncode == 0


def test_kill_9_is_repaired_by_the_next_night(home):
    ran = forge(home, *NIGHT, FORGE_FAKE_MENU=MENU, FORGE_FAKE_SIGNAL="reconfirm=SIGKILL")
    assert ran.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 20
    while servers_of(home) and time.monotonic() < deadline:
        os.sched_yield()  # the kernel tells the server; nobody can wait for it as its parent
    assert servers_of(home) == []
    again = forge(home, *NIGHT, FORGE_FAKE_MENU=MENU)
    assert again.returncode == 0, again.stderr
    assert "closed as interrupted" in again.stderr
    assert json.loads(again.stdout)["slots"][0]["generation_after"] == 1
    assert forge(home, "audit").returncode == 0


def test_what_a_person_can_read_afterwards(home):
    ran = forge(home, *NIGHT[:1], *NIGHT[2:], FORGE_FAKE_MENU=MENU)
    assert ran.returncode == 0, ran.stderr
    assert "generation 1" in ran.stdout
    assert f"git -C {home / 'baselines.git'} log -p" in ran.stderr
    (row,) = json.loads(forge(home, "status", "--json").stdout)
    assert list(row) == [
        "task",
        "target",
        "generation_before",
        "generation_after",
        "speedup",
        "lower",
        "upper",
        "rival",
        "rival_speedup",
        "roof_share",
    ]
    lineage = json.loads(forge(home, "history", "softmax/cpu", "--json").stdout)
    assert [entry["generation"] for entry in lineage] == [0, 1]
    assert lineage[1]["parent"] == lineage[0]["commit"]
    assert list(lineage[1]) == [
        "generation",
        "commit",
        "candidate",
        "parent",
        "speedup",
        "lower",
        "evidence",
        "student",
        "at",
    ]
    shown = forge(home, "show", lineage[1]["candidate"])
    assert "ns 500" in shown.stdout
    assert "confirm: accepted" in shown.stdout
    assert "softmax" in forge(home, "history").stdout
