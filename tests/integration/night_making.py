"""Nights of a fake judge and student on real git and a real ledger."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

from flows import conduct, wiring
from flows.improve import improve
from flows.workspace import open_workspace
from forge.config import load_config
from forge.host import Environment
from forge.tasks.load import load_task
from forge.types import Slot
from tests.fakes import FakeJudge, FakeStudent

CATALOG = Path(__file__).parents[2] / "baselines" / "catalog"
ENVIRONMENT = Environment.identified(
    target="fake-avx2-1t",
    model="fake",
    model_name="Fake 1",
    isa="avx2",
    cores=2,
    arm_threads=1,
    llc_bytes=1 << 20,
    compiler="g++ 12",
    flags="-O3",
    torch="2",
    python="3",
    kernel="6",
    libc="glibc",
)


def clock():
    return datetime.now(UTC)


class Told:
    """A watcher that remembers what it was told."""

    def __init__(self):
        self.lines = []
        self.shown = 0

    def say(self, text):
        self.lines.append(text)

    def show(self, standings, left_s):
        self.shown += 1


def slot_of(task):
    return Slot(task=task, target=ENVIRONMENT.target)


def plan_of(home, tasks=("softmax",), **settings):
    flags = {"home": str(home), "tasks": tuple(tasks), "drain_s": 0.0, "minutes": 1.0, **settings}
    config = load_config(flags, Path.cwd(), {})
    loaded = tuple(load_task(CATALOG / name) for name in tasks)
    return conduct.Plan(
        config=config, environment=ENVIRONMENT, target=ENVIRONMENT.target, tasks=loaded
    )


@contextlib.contextmanager
def opened_night(home, menu, judge=None, watcher=None, **plan):
    """A night on ``home`` whose student proposes from ``menu``."""
    plan = plan_of(home, **plan)
    judge = judge or FakeJudge(ENVIRONMENT.id)
    student = menu if isinstance(menu, FakeStudent) else FakeStudent(menu)
    wiring.STUDENTS["fake"] = lambda: student
    try:
        with (
            open_workspace(plan.config.workspace, clock) as workspace,
            judge,
            conduct.open_night(plan, workspace, judge, watcher or Told()) as night,
        ):
            yield night, workspace
    finally:
        del wiring.STUDENTS["fake"]


def run_night(home, menu, judge=None, take=improve, **plan):
    """Run a whole night; return its report as JSON."""
    plan.setdefault("student", "fake")
    with opened_night(home, menu, judge, **plan) as (night, _):
        return conduct.conduct(night, take).model_dump(mode="json")
