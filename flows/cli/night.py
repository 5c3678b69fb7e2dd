"""``forge night``: one night now, on this machine."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import Json, config_of, default_of, emit, say
from forge.errors import HarnessFault

if TYPE_CHECKING:
    from flows.conduct import Plan
    from forge.report.shapes import NightReport

INTERRUPTED = 130

Minutes = Annotated[
    float | None, typer.Option(help=f"Length of the night in minutes. {default_of('minutes')}")
]
Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--task", metavar="T", help="Work on this task only; may be repeated. [default: all]"
    ),
]
Target = Annotated[
    str | None, typer.Option(help=f"Target that kernels are made for. {default_of('target')}")
]
Student = Annotated[
    str | None, typer.Option(help=f"Who proposes candidates. {default_of('student')}")
]
Seed = Annotated[
    int | None, typer.Option(help=f"Seed of the student's sampler. {default_of('seed')}")
]


def night(
    *,
    minutes: Minutes = None,
    task: Tasks = None,
    target: Target = None,
    student: Student = None,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Run one night: make kernels, judge them, and seal what is faster.

    Ctrl-C ends it cleanly after the measurement under way, and keeps what was sealed; a second
    one ends it at once, and the next night repairs what that left. What is not given here is
    taken from forge.toml in the workspace, if it says so; forge config show tells.
    """
    from flows.asked import refuse_impossible
    from flows.conduct import plan_night
    from forge.report.slots import night_text

    plan = plan_night(
        config_of(
            minutes=minutes,
            tasks=tuple(task) if task else None,
            target=target,
            student=student,
            seed=seed,
        )
    )
    refuse_impossible(plan.config, plan.tasks)
    try:
        report, is_stopped = _run(plan)
    except KeyboardInterrupt:
        say("Ended at once; the next night repairs what this one left, and loses nothing sealed.")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        emit(report.model_dump_json(indent=2))
        return
    emit(night_text(report))
    if is_stopped:
        emit("stopped early: what was sealed is kept, and the next night goes on from there")
    say(f"Read what was sealed: git -C {plan.config.workspace.baselines_git} log -p")


def _run(plan: Plan) -> tuple[NightReport, bool]:
    """Run the night; return what it came to, and whether somebody stopped it."""
    from flows import wiring
    from flows.conduct import open_night
    from flows.display import watcher_for_stderr
    from flows.prefect_home import local_prefect
    from flows.stop import sparing_children
    from flows.workspace import open_workspace
    from forge.host import wall_clock

    paths = plan.config.workspace
    # Started by cron or in a pipe, nobody reads a warning.
    may_lack = plan.config.settings.may_lack
    presence = wiring.Presence(attended=sys.stderr.isatty(), may_lack=may_lack, say=say)
    allowed = wiring.judge_for(paths, plan.environment, presence)
    ended: tuple[NightReport, bool] | None = None
    try:
        with contextlib.ExitStack() as stack:
            workspace = stack.enter_context(open_workspace(paths, wall_clock))
            for repair in workspace.repairs:
                say(repair)
            # The server and the judge's processes start side by side.
            prefect = stack.enter_context(local_prefect(paths.prefect_home))
            with sparing_children():
                judge = stack.enter_context(allowed)
            from flows.night import run_as_flow

            prefect.wait_until_ready()
            prefect.share_cores()
            watcher = stack.enter_context(watcher_for_stderr())
            opened = stack.enter_context(open_night(plan, workspace, judge, watcher))
            ended = run_as_flow(opened), opened.parts.stop.is_requested
    except HarnessFault:
        # Who stopped the night may have stopped the judge's processes with it; then they cannot
        # be told to end, and the night was closed before.
        if ended is None or not ended[1]:
            raise
    return ended
