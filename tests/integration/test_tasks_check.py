"""``forge tasks check`` on tasks whose author made a mistake: a sentence and never a pass."""

import re
from pathlib import Path

import pytest

from forge.tasks.load import load_task
from forge.tasks.scaffold import new_task
from forge.tasks.sizes import memory_bytes, needs
from tests.integration.calling import forge

ROOT = Path(__file__).parents[2]
RUN = "    return F.silu(x)\n"
TERMS = "    (x,), (out,) = inputs, outputs\n"


@pytest.fixture
def task(tmp_path):
    """A working task of a workspace's own, in which one thing is then broken."""
    return new_task(tmp_path / "home" / "tasks", "mine")


def change(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_working_task_passes(tmp_path, task):
    ran = forge(tmp_path / "home", "tasks", "check", "mine")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^(\d+) of \1 controls behave as they must", ran.stdout)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (RUN, "    import sys\n    sys.exit(0)\n", "fails when it is run: SystemExit: 0"),
        (RUN, "    import os\n    os._exit(0)\n", r"ended the process .*\(exit code 0\)"),
        (RUN, "    import os\n    os.kill(os.getpid(), 9)\n", r"ended the process .*\(SIGKILL\)"),
        (
            "import torch",
            "import sys\nsys.exit(0)\nimport torch",
            "fails when it is read: SystemExit",
        ),
        (RUN, "    return F.silu(x)[:, :1]\n", r"\[\d+, 1\] of float64 for output out on rows="),
        (RUN, "    return F.silu(x).sum()\n", r"returns \[\] of float64 for output out"),
        (RUN, "    return F.silu(x).float()\n", "of float32 for output out .* of float64"),
        (RUN, "    return F.silu(x).double()\n", "of float64 for output out .* of float32"),
        (RUN, "    return F.silu(x), x\n", "returns 2 tensors on rows=.*the outputs out"),
        (RUN, "    return None\n", "fails when it is run: TypeError"),
        (RUN, "    raise KeyError('x')\n", "fails when it is run: KeyError"),
        (TERMS, f"{TERMS}    return x[:1, :3]\n", r"terms .* returns \[1, 3\] for output out"),
    ],
    ids=lambda value: value.strip().splitlines()[0] if isinstance(value, str) else "",
)
def test_a_wrong_reference_never_passes(tmp_path, task, old, new, sentence):
    change(task / "reference.py", old, new)
    ran = forge(tmp_path / "home", "tasks", "check", "mine", "--json")
    assert (ran.returncode, ran.stdout) == (2, "")
    checking, line = ran.stderr.splitlines()
    assert checking == "Checking mine ..."
    assert line.startswith("forge: Task mine: ")
    assert re.search(sentence, line)


def test_what_a_reference_prints_is_not_taken_for_a_result(tmp_path, task):
    change(task / "reference.py", RUN, f"    print('[]')\n{RUN}")
    ran = forge(tmp_path / "home", "tasks", "check", "mine")
    assert ran.returncode == 0, ran.stderr
    assert "[]" not in ran.stdout
    assert "[]" in ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("tasks", "check", "mine"),
        ("night", "--task", "mine", "--minutes", "1"),
        ("judge", "--task", "mine", "kernel.cpp"),
    ],
    ids=lambda command: command[0],
)
@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("{ rows = 256, cols = 4096 }", "{ rows = 1_000_000, cols = 1_000_000 }",
         r"Workload rows=1000000 cols=1000000 of task mine needs about 298023\.2 GiB"),
        ("{ rows = 256, cols = 4096 }", "{ rows = 4_000_000_000_000, cols = 4_000_000_000_000 }",
         "Workload rows=4000000000000 cols=4000000000000 of task mine"),
        ("rows = [1, 500], cols = [1, 5000] }\nmax_elements = 1_000_000",
         "rows = [1, 5_000_000], cols = [1, 5_000_000] }\nmax_elements = 10_000_000_000_000",
         "A holdout of 10000000000000 elements of task mine"),
    ],
    ids=["workload", "beyond a number", "holdout"],
)  # fmt: skip
def test_a_task_too_large_is_refused_before_anything_starts(
    tmp_path, task, command, old, new, named
):
    change(task / "task.toml", old, new)
    (tmp_path / "kernel.cpp").write_text("// ns=500\n")
    ran = forge(tmp_path / "home", *command)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    assert re.search(named, line)
    assert f"this machine has {memory_bytes() / 2**30:.1f} GiB" in line
    assert not (tmp_path / "home" / "ledger.duckdb").exists()


def test_every_task_of_the_catalogue_fits_into_a_small_machine():
    for folder in sorted((ROOT / "baselines" / "catalog").glob("*/task.toml")):
        for name, needed in needs(load_task(folder.parent).task):
            assert needed < 2 * 2**30, (folder.parent.name, name)
