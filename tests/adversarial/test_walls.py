"""What can be reached from behind the walls, on this host and on hosts that grant less."""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from forge import doctor
from forge.judge.layers import LAYERS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
UNSHARE, LANDLOCK = 272, 444
WITHOUT_NAMESPACES = ["processes", "network", "ipc", "user"]

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of x86-64")


def run(*command, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment | more,
    )


def probe(name):
    done = run(HERE / "behind_walls.py", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def folder():
    """A folder that a plain user can be given."""
    with tempfile.TemporaryDirectory(prefix="forge-test-") as name:
        yield Path(name)


def as_plain_user(folder, *program, without=(), **more):
    """Run a program as a user without rights, on a host that refuses some system calls."""
    return run(HERE / "as_plain_user.py", json.dumps(without), folder, *program, **more)


@pytest.mark.parametrize("who", ["calls", "builders_calls"])
def test_what_a_kernel_has_no_use_for_is_refused(who):
    answers = probe(who)
    refused = {name for name, answer in answers.items() if answer == "EPERM"}
    assert set(answers) - refused <= {"clone3"}
    assert answers.get("clone3", "ENOSYS") == "ENOSYS"  # the C library then uses clone


def test_no_other_process_is_reached():
    found = probe("others")
    assert set(found["refused"].values()) == {"EPERM"}, found
    assert set(found["allowed"].values()) == {0}, found


def test_the_scratch_is_small_and_is_counted():
    found = probe("memory")
    (files, why_files), (size, why_size) = found["files"], found["bytes"]
    assert (why_files, why_size) == ("ENOSPC", "ENOSPC")
    assert 100 < files <= 1024
    assert 32 << 20 < size <= 64 << 20
    assert found["mapped"] + (64 << 20) <= 256 << 20


CASES = {
    "all layers": ([], []),
    "no namespaces": ([UNSHARE], WITHOUT_NAMESPACES),
    "no namespaces and no Landlock": ([UNSHARE, LANDLOCK], ["files", *WITHOUT_NAMESPACES]),
}


@pytest.mark.parametrize("case", CASES)
def test_a_plain_user_judges_behind_what_the_host_grants(case, folder):
    without, missing = CASES[case]
    kernels = ["honest", "cheat", "signals", "secret", "writing"]
    done = as_plain_user(folder, HERE / "small_trial.py", *kernels, without=without)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if os.getuid() != 0 and not without and found["missing"]:
        pytest.skip(f"this host grants no namespaces: {found['reason']}")
    assert found["missing"] == missing
    judged = (None, "not-faster")
    is_open = "files" in missing
    assert {name: check in judged for name, check in found["checks"].items()} == {
        "honest": True,
        "cheat": False,
        "signals": True,
        "secret": not is_open,
        "writing": not is_open,
    }
    assert found["checks"]["cheat"] == "outputs-unwritten"


@pytest.mark.parametrize("case", list(CASES)[1:])
def test_doctor_names_the_layers_that_a_host_lacks(case, folder):
    without, missing = CASES[case]
    program = (
        "import json; from forge.doctor import sandbox_layers;"
        "print(json.dumps([probe._asdict() for probe in sandbox_layers()]))"
    )
    done = as_plain_user(folder, "-c", program, without=without)
    probes = {probe["name"]: probe for probe in json.loads(done.stdout)}
    assert [name for name, p in probes.items() if not p["ok"]] == [
        f"sandbox.{name}" for name in LAYERS if name in missing
    ]
    for name in missing:
        sentence = probes[f"sandbox.{name}"]["sentence"]
        assert sentence.startswith(LAYERS[name].lacks)
        assert "Operation not permitted" in sentence
        assert "may_lack" in sentence


def test_what_a_killed_zygote_left_is_removed_by_the_next_one():
    with tempfile.TemporaryDirectory(prefix="forge-test-") as name:
        left, held = Path(name, "forge-arms-left"), Path(name, "forge-arms-held")
        program = (
            "import fcntl, os, subprocess, sys; from forge.judge import sandbox\n"
            "for name in sys.argv[1:]: os.makedirs(f'{name}/7')\n"
            "fcntl.flock(os.open(sys.argv[2], os.O_RDONLY), fcntl.LOCK_EX)\n"
            "subprocess.run([sys.executable, '-m', 'forge.judge.sandbox'], check=True)"
        )
        done = as_plain_user(name, "-c", program, left, held, without=[UNSHARE], TMPDIR=name)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in Path(name).iterdir()] == [held.name]


def test_a_survey_that_dies_finds_no_layer():
    missing, reason = doctor.missing_layers(
        [sys.executable, "-c", "raise SystemExit('no Python')"]
    )
    assert (missing, reason) == (tuple(LAYERS), "no Python")
