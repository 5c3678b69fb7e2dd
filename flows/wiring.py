"""What a name on the command line stands for: the one table of students, teachers and judges."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from forge.doctor import missing_layers
from forge.errors import UsageError
from forge.judge.layers import refusal, warning
from forge.tasks.load import find_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from forge.config import Workspace
    from forge.host import Environment
    from forge.judge.base import Judge
    from forge.students.base import Student
    from forge.tasks.load import LoadedTask
    from forge.teacher.base import Teacher

Made = TypeVar("Made")


def _sweep() -> Student:
    from forge.students.sweep.student import SweepStudent  # noqa: PLC0415 - imports optuna

    return SweepStudent()


def _rules() -> Teacher:
    from forge.teacher.rules import RuleTeacher  # noqa: PLC0415 - only a night needs it

    return RuleTeacher()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """Who is there while kernels run.

    Attributes:
        attended: Whether a person is: told what the host lacks, they decide.
        may_lack: Sandbox layers that the host may lack when nobody is.
        say: Tells the person a sentence.
    """

    attended: bool = True
    may_lack: tuple[str, ...] = ()
    say: Callable[[str], None] = _say


SOMEBODY = Presence()


def _cpu_judge(paths: Workspace, environment: Environment, presence: Presence) -> Judge:
    from forge.judge.judge import CpuJudge  # noqa: PLC0415 - only who measures needs it

    missing, _ = missing_layers()
    refused = None if presence.attended else refusal(missing, presence.may_lack)
    if refused is not None:
        raise UsageError(refused)
    if missing:
        presence.say(warning(missing))
    # What is missing has been allowed; with nothing missing the judge itself sees to it.
    attended = presence.attended or bool(missing)
    return CpuJudge(cache=paths.cache_dir, environment=environment, attended=attended)


STUDENTS: dict[str, Callable[[], Student]] = {"sweep": _sweep}
TEACHERS: dict[str, Callable[[], Teacher]] = {"rules": _rules}
JUDGES: dict[str, Callable[[Workspace, Environment, Presence], Judge]] = {"cpu": _cpu_judge}


def lookup(kind: str, name: str, known: Mapping[str, Made]) -> Made:
    """Return what ``name`` stands for.

    Raises:
        UsageError: Nothing; the message lists what is known.
    """
    if name not in known:
        names = ", ".join(sorted(known))
        raise UsageError(f"There is no {kind} {name!r}; known: {names}.")
    return known[name]


def judge_for(paths: Workspace, environment: Environment, presence: Presence = SOMEBODY) -> Judge:
    """Return the judge of this machine; entering it starts its processes.

    Raises:
        UsageError: Nobody is there, and the host lacks a sandbox layer that it may not lack.
    """
    return lookup("judge", "cpu", JUDGES)(paths, environment, presence)


def catalog_root() -> Path:
    """Return the folder of the tasks that come with the project."""
    return Path(str(files("baselines"))) / "catalog"


def all_tasks(paths: Workspace) -> dict[str, LoadedTask]:
    """Return every task, the catalogue's and the workspace's own, by name."""
    return find_tasks([catalog_root(), paths.tasks_dir])
