"""A whole night: what it needs, its passes over the slots, and how it is closed. No Prefect."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flows import schedule, wiring
from flows.improve import RoundReport, improve
from flows.parts import Budget, Parts
from flows.standing import Standing, stand
from flows.stop import Stop, stop_on_signals
from flows.summary import night_report
from forge.errors import HarnessFault, UsageError
from forge.host import probe_environment, require_compiler, resolve_target, wall_clock
from forge.report.table import counted
from forge.types import Slot
from ledger.budgets import BudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import datetime

    from flows.parts import Watcher
    from flows.workspace import OpenWorkspace
    from forge.config import Config
    from forge.host import Environment
    from forge.judge.base import Judge
    from forge.report.shapes import NightReport
    from forge.tasks.load import LoadedTask

# How one round is run: directly, or as a Prefect task run around the same function.
TakeTurn = Callable[[Parts, Standing, float], RoundReport]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A night that has been asked for and can be had on this machine.

    Attributes:
        config: What was asked for.
        environment: This machine.
        target: Full id of the target.
        tasks: What to work on, by name.
    """

    config: Config
    environment: Environment
    target: str
    tasks: tuple[LoadedTask, ...]


def plan_night(config: Config) -> Plan:
    """Check what was asked for, before anything is started or created.

    Raises:
        UsageError: A task, target, student or the compiler is not to be had.
    """
    settings = config.settings
    known = wiring.all_tasks(config.workspace)
    names = settings.tasks or tuple(known)
    tasks = tuple(wiring.lookup("task", name, known) for name in dict.fromkeys(names))
    if not tasks:
        raise UsageError("There is no task to work on; forge tasks new NAME writes one.")
    wiring.lookup("student", settings.student, wiring.STUDENTS)
    environment = probe_environment()
    target = resolve_target(settings.target, environment)
    require_compiler()
    return Plan(config=config, environment=environment, target=target, tasks=tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNight:
    """A night that holds its workspace.

    Attributes:
        parts: What it works with.
        plan: What was asked for.
        started: When it began.
    """

    parts: Parts
    plan: Plan
    started: datetime


@contextlib.contextmanager
def open_night(
    plan: Plan, workspace: OpenWorkspace, judge: Judge, watcher: Watcher
) -> Generator[OpenNight]:
    """Open a night in the ledger; whatever happens, it is closed again.

    Args:
        plan: What was asked for.
        workspace: Where; its lock is held.
        judge: Who decides; its processes are running.
        watcher: Who shows it.
    """
    config, began = plan.config, time.monotonic()
    started = wall_clock()
    # Two nights may start in one second: the first was killed at once.
    night = f"{started:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    ledger, stop = workspace.ledger, Stop()
    settings = {str(row["setting"]): row["value"] for row in config.rows()}
    ledger.record_environment(plan.environment.id, plan.environment.model_dump(mode="json"))
    ledger.open_night(night, settings)
    seconds = config.settings.minutes * 60
    parts = Parts(
        night=night,
        settings=config.settings,
        environment=plan.environment,
        ledger=ledger,
        store=workspace.store,
        judge=judge,
        student=wiring.STUDENTS[config.settings.student](),
        teacher=wiring.TEACHERS["rules"](),
        budget=Budget(ledger, night, seconds, config.settings.drain_s, began),
        stop=stop,
        watcher=watcher,
    )
    with stop_on_signals(stop, watcher.say):
        try:
            yield OpenNight(parts=parts, plan=plan, started=started)
        except BaseException:  # cleaned up, then raised again
            ledger.close_night(night, "interrupted", {})
            raise


def conduct(night: OpenNight, take: TakeTurn = improve) -> NightReport:
    """Work on the slots until the time is used up, nothing is left to try, or somebody stops it.

    Args:
        night: The night.
        take: Runs one round.

    Returns:
        What it came to; the ledger has closed the night with the same numbers.
    """
    parts = night.parts
    known = {(row["task"], row["target"]): row for row in parts.ledger.query("status")}
    target = night.plan.target
    standings = [
        _stand(parts, task, target, known.get((task.task.name, target)))
        for task in night.plan.tasks
    ]
    parts.watcher.show(standings, parts.budget.left_s)
    parts.watcher.say(
        f"Night {parts.night}: {counted(len(standings), 'slot')} on {target},"
        f" {parts.settings.minutes:g} minutes."
    )
    try:
        first_pass(parts, standings, take)
        later_passes(parts, standings, take)
    except BudgetExceeded as spent:
        parts.watcher.say(f"The budget is used up: {spent}")
    parts.budget.settle_rest()
    status = "stopped" if parts.stop.is_requested else "done"
    report = night_report(night, standings)
    parts.ledger.close_night(parts.night, status, report.model_dump(mode="json"))
    return report


def first_pass(parts: Parts, standings: Sequence[Standing], take: TakeTurn) -> None:
    """Give every slot one turn, each an equal share of the time that is left then.

    Slots that nothing is sealed for yet come first: they have most to gain.
    """
    for index, standing in enumerate(sorted(standings, key=lambda s: s.generation > 0)):
        if parts.is_over:
            return
        share_s = schedule.first_share_s(parts.budget.usable_s, len(standings) - index)
        if standing.is_workable:
            _turn(parts, standing, take, share_s)


def later_passes(parts: Parts, standings: Sequence[Standing], take: TakeTurn) -> None:
    """Give turns to whatever has most to gain, until nothing has or the time is used up."""
    while not parts.is_over and (standing := schedule.most_promising(standings)) is not None:
        _turn(parts, standing, take, parts.budget.usable_s)


def _turn(parts: Parts, standing: Standing, take: TakeTurn, at_most_s: float) -> None:
    report = take(parts, standing, time.monotonic() + at_most_s)
    _log.info("%s", report)
    if report.said:
        parts.watcher.say(f"{standing.slot}: {report.said}")
    parts.watcher.show([standing], parts.budget.left_s)


def _stand(
    parts: Parts, task: LoadedTask, target: str, known: Mapping[str, Any] | None
) -> Standing:
    """Return how a slot stands; one that cannot be worked on is told about and left alone."""
    try:
        return stand(parts, task, target, known)
    except (UsageError, HarnessFault) as error:
        slot = Slot(task=task.task.name, target=target)
        parts.watcher.say(f"{slot}: left alone tonight: {error}")
        return Standing(slot=slot, task=task, trouble=str(error))
