"""The night as a Prefect flow: one flow run a night, one task run a slot and round."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect import flow

from flows import wiring
from flows.asked import refuse_impossible
from flows.conduct import conduct, open_night, plan_night
from flows.display import watcher_for_stderr
from flows.steps import take_turn
from flows.stop import stop_on_signals
from flows.workspace import open_workspace
from forge.config import load_config
from forge.host import wall_clock
from forge.report.shapes import NightReport

if TYPE_CHECKING:
    from flows.conduct import OpenNight

# Truth is in the ledger: Prefect keeps no result, repeats nothing and catches no output.
_OPTIONS: dict[str, Any] = {"retries": 0, "persist_result": False, "log_prints": False}


@flow(name="night", **_OPTIONS)
def night(
    *,
    minutes: float | None = None,
    tasks: list[str] | None = None,
    target: str | None = None,
    student: str | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """Run one night on this machine, as a schedule starts it; returns its report as JSON."""
    flags = {"minutes": minutes, "target": target, "student": student, "seed": seed}
    config = load_config({**flags, "tasks": tuple(tasks) if tasks else None}, Path.cwd())
    plan = plan_night(config)
    refuse_impossible(config, plan.tasks)
    nobody = wiring.Presence(attended=False, may_lack=config.settings.may_lack)
    allowed = wiring.judge_for(config.workspace, plan.environment, nobody)
    with (
        watcher_for_stderr() as watcher,
        open_workspace(config.workspace, wall_clock) as workspace,
        allowed as judge,
        open_night(plan, workspace, judge, watcher) as opened,
    ):
        return conduct(opened, take_turn).model_dump(mode="json")


def run_as_flow(opened: OpenNight) -> NightReport:
    """Run a night that is open already as a flow run of this process."""

    @flow(name="night", flow_run_name=opened.parts.night, **_OPTIONS)
    def one_night(*, minutes: float, tasks: list[str], target: str) -> NightReport:
        """See ``flows.conduct.conduct``; the parameters are what a person sees in the UI."""
        del minutes, tasks, target
        # Prefect has just put a handler of its own in place of ours for SIGTERM.
        with stop_on_signals(opened.parts.stop, opened.parts.watcher.say):
            return conduct(opened, take_turn)

    return one_night(
        minutes=opened.plan.config.settings.minutes,
        tasks=[task.task.name for task in opened.plan.tasks],
        target=opened.plan.target,
    )
