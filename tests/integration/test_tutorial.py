"""Every command of docs/tutorial.md, run in order in a folder of its own; nights are cut short."""

import logging
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Long enough for generation 0, a first round and a clean end of each of the two nights.
MINUTES_HERE = "1"
LONGEST_S = 240

FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    text: str
    exits: frozenset[int]


def steps(text: str) -> list[Command | tuple[str, str]]:
    """The tutorial's commands, and its files as (name, content), in order."""
    found: list[Command | tuple[str, str]] = []
    for fence in FENCE.finditer(text):
        language, _, option = fence["info"].partition(" ")
        key, _, value = option.partition("=")
        if key == "file":
            found.append((value, fence["body"]))
        if language == "console":
            exits = {"": {0}, "exit": {int(value or 0)}, "may-exit": {0, int(value or 0)}}[key]
            found += [
                Command(line.removeprefix("$ "), frozenset(exits))
                for line in fence["body"].splitlines()
                if line.startswith("$ ")
            ]
    return found


def lay_out(folder: Path) -> dict[str, str]:
    """A folder that looks like a clone after ``make setup``; return the environment to run in."""
    for name in ("Makefile", "pyproject.toml", "constraints"):
        (folder / name).symlink_to(ROOT / name)
    bin_folder = folder / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    for name, real in (
        ("python", sys.executable),
        ("forge", Path(sys.executable).with_name("forge")),
    ):
        script = bin_folder / name
        script.write_text(f'#!/bin/sh\nexec "{real}" "$@"\n')
        script.chmod(0o755)
    for stamp in (".stamp-cpu", ".stamp-gpu"):
        (folder / ".venv" / stamp).write_text(f"{folder}\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
    return {**kept, "PATH": f"{bin_folder}:{os.environ['PATH']}"}


@pytest.mark.timeout(600)
def test_the_tutorial_works_as_written(tmp_path: Path):
    environment = lay_out(tmp_path)
    for step in steps(TUTORIAL.read_text(encoding="utf-8")):
        if not isinstance(step, Command):
            name, content = step
            (tmp_path / name).write_text(content, encoding="utf-8")
            continue
        began = time.monotonic()
        ran = subprocess.run(
            ["bash", "-c", re.sub(r"--minutes [\d.]+", f"--minutes {MINUTES_HERE}", step.text)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        said = f"$ {step.text}\n{ran.stdout}{ran.stderr}"
        assert ran.returncode in step.exits, f"exit code {ran.returncode} of {said}"
        assert "Traceback" not in ran.stderr, said
        log.info("%.1f s  %s", time.monotonic() - began, said)


def test_the_tutorial_names_every_command_of_a_first_day():
    commands = [
        step.text for step in steps(TUTORIAL.read_text("utf-8")) if isinstance(step, Command)
    ]
    for start in (
        "make night",
        "forge status",
        "forge history softmax/cpu",
        "forge show",
        "git -C .forge/baselines.git log -p",
        "forge judge --task softmax mine.cpp",
        "forge tasks new",
        "forge tasks check",
        "forge night --task",
        "forge audit",
    ):
        assert any(command.startswith(start) for command in commands), start


def test_the_kernels_of_the_tutorial_compile(tmp_path: Path):
    compiler = shutil.which("g++")
    assert compiler is not None
    files = [step for step in steps(TUTORIAL.read_text("utf-8")) if not isinstance(step, Command)]
    assert [name for name, _ in files] == ["mine.cpp", "broken.cpp"]
    for name, content in files:
        source = tmp_path / name
        source.write_text(content, encoding="utf-8")
        flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        subprocess.run([compiler, *flags, str(source)], check=True, timeout=30)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_link_leads_somewhere(document: Path):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_a_path_that_is_named_exists(document: Path):
    pattern = r"`((?:flows|forge|baselines|ledger|tests|docs|constraints)/[\w./-]*)`"
    for path in re.findall(pattern, document.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path
