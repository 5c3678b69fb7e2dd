"""A person's mistake is one sentence on stderr, no traceback, and the right exit code."""

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flows.workspace import hold_lock, make_workspace
from forge.config import Settings, Workspace

ROOT = Path(__file__).parents[2]
KERNEL = '// ns=500\nextern "C" void launch() {}\n'


def forge(folder, *arguments, module="tests.integration.fake_forge", **variables):
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**environ, "FORGE_HOME": str(folder / "home")},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("night", "--task", "sofmax"), "There is no task 'sofmax'; known: .*softmax"),
        (("night", "--student", "genius"), "There is no student 'genius'; known: .*sweep"),
        (("night", "--target", "cuda"), "no GPU path yet"),
        (("night", "--target", "z80"), "no target 'z80'"),
        (("night", "--minutes", "0"), r"minutes = 0.0 \(flag\) is not acceptable"),
        (("judge", "--task", "softmax", "gone.cpp"), "gone.cpp cannot be read: No such file"),
        (("judge", "--task", "softmax", "a.txt"), "a.txt is not a kernel"),
        (("judge", "--task", "nothing", "a.cpp"), "There is no task 'nothing'"),
        (("judge", "--task", "softmax", "--against", "3", "a.cpp"), "has no generation 3"),
        (("night", "--minutes", "-1"), r"minutes = -1.0 \(flag\) is not acceptable"),
        (
            ("night", "--minutes", "nan"),
            r"minutes = nan \(flag\) is not acceptable",
        ),
        (("night", "--minutes", "inf"), r"minutes = inf \(flag\) is not acceptable"),
        (
            ("night", "--minutes", "0.01"),
            r"minutes = 0.01 .* too short.*0.5 minutes at least",
        ),
        (("judge", "--task", "nothing", "gone.cpp"), "There is no task 'nothing'; known: .*rope"),
        (("history", "nosuch/cpu"), "There is no task 'nosuch'; known: .*softmax"),
        (("history", "sofmax/cpu"), "There is no task 'sofmax'; close to it: softmax"),
        (("history", "sofmax"), "There is no task 'sofmax'; close to it: softmax"),
        (("history", "softmax/z80"), "no target 'z80'"),
        (("history", "Soft max"), "'Soft max' is not a slot; write task/target"),
        (("show", "abcdef"), "No night has run"),
        (("audit",), "nothing to audit"),
        (("tasks", "check", "nothing"), "There is no task 'nothing'"),
        (("tasks", "new", "Bad Name"), "Bad Name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_is_one_sentence(tmp_path, arguments, sentence):
    (tmp_path / "a.cpp").write_text(KERNEL)
    ran = forge(tmp_path, *arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    (line,) = ran.stderr.splitlines()
    assert re.search(sentence, line)


def test_reading_an_empty_place_makes_nothing(tmp_path):
    ran = forge(tmp_path, "status", "--json")
    assert (ran.returncode, json.loads(ran.stdout)) == (0, [])
    assert "No night has run" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_malformed_task_is_named_with_its_line(tmp_path):
    folder = tmp_path / "home" / "tasks" / "mine"
    shutil.copytree(ROOT / "baselines" / "catalog" / "softmax", folder)
    text = (folder / "task.toml").read_text().replace('name = "softmax"', 'name = "mine"')
    (folder / "task.toml").write_text(text + "\nunheard_of = 3\n")
    ran = forge(tmp_path, "night", "--task", "mine")
    assert ran.returncode == 2
    assert "task.toml, line" in ran.stderr
    assert "unheard_of" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_no_compiler_is_said(tmp_path):
    ran = forge(tmp_path, "night", "--task", "softmax", PATH=str(tmp_path))
    assert ran.returncode == 2
    assert "g++" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_second_night_names_the_first(tmp_path):
    paths = Workspace(home=tmp_path / "home")
    make_workspace(paths)
    with hold_lock(paths.lock):
        ran = forge(tmp_path, "night", "--task", "softmax")
    assert ran.returncode == 2
    assert f"process {os.getpid()}" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "code", "verdict", "check"),
    [
        (KERNEL, 0, "accepted", ""),
        (KERNEL.replace("500", "1300"), 3, "rejected", "not-faster"),
        (KERNEL.replace("ns=500", "bad=builds"), 3, "rejected", "builds"),
        (KERNEL.replace("ns=500", "bad=crashed"), 3, "rejected", "crashed"),
        (KERNEL.replace("ns=500", "ns=1009"), 4, "inconclusive", ""),
        (KERNEL.replace("ns=500", "faults=9"), 4, "inconclusive", ""),
    ],
)
def test_judge_by_hand(tmp_path, text, code, verdict, check):
    (tmp_path / "a.cpp").write_text(text.replace("1009", "989"))
    ran = forge(tmp_path, "judge", "--task", "softmax", "a.cpp", "--json")
    assert ran.returncode == code, ran.stderr
    report = json.loads(ran.stdout)
    assert (report["verdict"], report["check"]) == (verdict, check)
    assert list(report) == [
        "verdict",
        "check",
        "reason",
        "speedup",
        "workloads",
        "holdouts",
        "evidence",
    ]
    assert not (tmp_path / "home" / "ledger.duckdb").exists()


def test_config_show_says_where_from_what_for_and_how_to_set_it(tmp_path):
    ran = forge(tmp_path, "config", "show", "--json")
    rows = {row["setting"]: row for row in json.loads(ran.stdout)}
    assert rows["home"]["origin"] == "FORGE_HOME"
    assert rows["minutes"] == {
        "setting": "minutes",
        "value": 8.0,
        "origin": "default",
        "set_by": "--minutes",
        "what": "Length of a night in minutes.",
    }
    assert set(rows) == {"home", *Settings.model_fields}
    assert all(row["what"] and row["set_by"] for row in rows.values())
    shown = forge(tmp_path, "config", "show")
    assert "Length of a night in minutes." in shown.stdout
    assert str(tmp_path / "home" / "forge.toml") in shown.stderr


def test_a_task_alone_is_its_slot_on_this_machine(tmp_path):
    ran = forge(tmp_path, "history", "softmax")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^softmax/\S+ has no generation yet", ran.stdout)


@pytest.mark.parametrize("below", ["", "further/down"])
@pytest.mark.parametrize(
    "arguments", [("status",), ("night", "--task", "softmax"), ("tasks", "new", "mine")]
)
def test_a_file_where_the_workspace_should_be_is_one_sentence(tmp_path, below, arguments):
    (tmp_path / "home").write_text("not a folder")
    environ = {**os.environ, "FORGE_HOME": str(tmp_path / "home" / below)}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.fake_forge", *arguments],
        env=environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"forge: {tmp_path / 'home'} is a file, and the workspace")
    assert (tmp_path / "home").read_text() == "not a folder"


def test_judge_says_which_phase_it_is_in(tmp_path):
    (tmp_path / "a.cpp").write_text(KERNEL)
    ran = forge(tmp_path, "judge", "--task", "softmax", "a.cpp")
    assert ran.returncode == 0, ran.stderr
    phases = [line for line in ran.stderr.splitlines() if line.endswith(" ...")]
    assert [line.split()[0] for line in phases] == [
        "Starting",
        "Building",
        "Checking",
        "Measuring",
        "Checking",
    ]


def test_judge_rewrites_one_line_on_a_terminal(tmp_path):
    (tmp_path / "a.cpp").write_text(KERNEL)
    judge = ("judge", "--task", "softmax", "a.cpp")
    ours, theirs = pty.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.fake_forge", *judge],
        env={**os.environ, "PYTHONPATH": str(ROOT), "FORGE_HOME": str(tmp_path / "home")},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # Linux's way of saying that nobody holds the other end
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert ran.wait(60) == 0, said
    assert b"\r\x1b[KBuilding ..." in said
    assert b"\n" not in said
    assert said.endswith(b"\r\x1b[K")


def test_a_new_task_can_be_listed(tmp_path):
    made = forge(tmp_path, "tasks", "new", "mine")
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == str(tmp_path / "home" / "tasks" / "mine")
    listed = json.loads(forge(tmp_path, "tasks", "list", "--json").stdout)
    assert "mine" in {row["task"] for row in listed}
    assert {"softmax", "cumsum"} <= {row["task"] for row in listed}
