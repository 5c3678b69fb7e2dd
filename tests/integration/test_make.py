"""What make would do, asked with ``-n`` or with a stand-in Python; nothing is installed here."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # `make test` runs this suite: its own flags and level must not reach the make asked here.
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    environment.pop("MFLAGS", None)
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def planned(*arguments: str) -> str:
    ran = make("-n", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def environment_made_in(folder: Path, made_in: Path, *, has_gpu: bool = False) -> Path:
    """Lay out what make looks at: a Python that runs and the stamp of an earlier setup."""
    (folder / "bin").mkdir(parents=True)
    script = folder / "bin" / "python"
    script.write_text('#!/bin/sh\nexec python3 "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    stamp = folder / (".stamp-gpu" if has_gpu else ".stamp-cpu")
    stamp.write_text(f"{made_in}\n", encoding="utf-8")
    return folder


@pytest.fixture
def no_gpu(tmp_path: Path) -> str:
    return f"GPU_DEVICE={tmp_path / 'nvidiactl'}"


@pytest.fixture
def gpu(tmp_path: Path) -> str:
    (tmp_path / "nvidiactl").touch()
    return f"GPU_DEVICE={tmp_path / 'nvidiactl'}"


@pytest.mark.parametrize("target", ["setup", "night", "test", "lint"])
def test_every_target_sets_up_what_is_missing_first(target: str, tmp_path: Path, no_gpu: str):
    plan = planned(target, f"VENV={tmp_path / 'venv'}", no_gpu)
    assert f"-m venv {tmp_path / 'venv'}" in plan
    assert "-e '.[dev]'" in plan


def test_setup_says_what_it_does_and_pip_says_nothing(tmp_path: Path, no_gpu: str):
    plan = planned("setup", f"VENV={tmp_path / 'venv'}", no_gpu)
    assert "-m pip install -q " in plan
    assert "pip installs torch, Prefect and the rest" in plan.partition("-m pip install")[0]


def test_a_host_without_a_gpu_takes_the_constraint(tmp_path: Path, no_gpu: str):
    plan = planned("setup", f"VENV={tmp_path / 'venv'}", no_gpu)
    assert "-c constraints/cpu.txt" in plan
    assert "venv/.stamp-cpu" in plan


def test_a_host_with_a_gpu_takes_none(tmp_path: Path, gpu: str):
    plan = planned("setup", f"VENV={tmp_path / 'venv'}", gpu)
    assert "-c " not in plan.partition("pip install")[2]
    assert "venv/.stamp-gpu" in plan


def test_a_fresh_environment_is_left_alone(tmp_path: Path, no_gpu: str):
    venv = environment_made_in(tmp_path / "venv", ROOT)
    plan = planned("night", f"VENV={venv}", no_gpu, "ARGS=--minutes 2 --task softmax")
    assert plan.strip() == f"{venv}/bin/forge night --minutes 2 --task softmax"


@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints/cpu.txt"])
def test_a_changed_requirement_makes_it_stale(changed: str, tmp_path: Path, no_gpu: str):
    venv = environment_made_in(tmp_path / "venv", ROOT)
    assert "pip install" in planned("night", f"VENV={venv}", no_gpu, "-W", changed)


def test_an_environment_of_another_folder_is_stale(tmp_path: Path, no_gpu: str):
    venv = environment_made_in(tmp_path / "venv", tmp_path / "another clone")
    assert "pip install" in planned("night", f"VENV={venv}", no_gpu)


def test_an_environment_whose_python_is_gone_is_stale(tmp_path: Path, no_gpu: str):
    venv = environment_made_in(tmp_path / "venv", ROOT)
    (venv / "bin" / "python").unlink()
    assert "pip install" in planned("night", f"VENV={venv}", no_gpu)


def test_a_gpu_that_came_later_makes_it_stale(tmp_path: Path, gpu: str):
    venv = environment_made_in(tmp_path / "venv", ROOT)
    assert "pip install" in planned("night", f"VENV={venv}", gpu)


def test_lint_runs_every_check_and_fixes_nothing(tmp_path: Path, no_gpu: str):
    venv = environment_made_in(tmp_path / "venv", ROOT)
    lines = planned("lint", f"VENV={venv}", no_gpu).splitlines()
    commands = [line.removeprefix(f"{venv}/bin/") for line in lines]
    assert commands == ["ruff check", "ruff format --check", "pyright", "lint-imports"]


def test_an_old_python_is_named_with_what_to_do(tmp_path: Path, no_gpu: str):
    old = tmp_path / "python-old"
    old.write_text(
        '#!/bin/sh\n[ "$1" = -V ] && echo Python 3.9.2 && exit 0\nexit 1\n', encoding="utf-8"
    )
    old.chmod(0o755)
    ran = make("setup", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}", no_gpu)
    assert ran.returncode == 2
    assert "Python 3.11 or newer is needed" in ran.stderr
    assert "Python 3.9.2" in ran.stderr
    assert not (tmp_path / "venv").exists()


def test_the_list_of_targets_is_what_plain_make_prints(tmp_path: Path):
    ran = make(f"VENV={tmp_path / 'venv'}")
    listed = [line.split("\t")[0] for line in ran.stdout.splitlines()]
    assert listed == ["make help", "make setup", "make night", "make test", "make lint"]


def test_ci_runs_lint_and_tests_and_stops_at_the_first_failure():
    script = ROOT / ".ci" / "run"
    checked = subprocess.run(["bash", "-n", str(script)], check=False, timeout=10)
    assert checked.returncode == 0
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert text.index("make lint") < text.index("make test")
