"""Judging one kernel file for a person: nothing is sealed, no alpha is spent."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from baselines.store import BaselineStore
from flows import wiring
from flows.agreement import refuse_lost_generation
from flows.standing import reference_source
from flows.workspace import hold_lock, make_workspace
from forge.errors import HarnessFault, UsageError
from forge.host import probe_environment, require_compiler, resolve_target, wall_clock
from forge.report.judgement import judge_report, unmeasured_report
from forge.tasks.sizes import refuse_too_large
from forge.types import Slot
from forge.verdict import Inconclusive, Rejected
from ledger.blobs import BlobStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from forge.config import Config, Workspace
    from forge.judge.base import Judge, Judged
    from forge.report.shapes import JudgeReport
    from forge.tasks.load import LoadedTask
    from forge.types import KernelSource

TRIES = 3
CALIBRATION_ROUNDS = 6


def _nobody(_phase: str) -> None:
    """Tell nobody."""


def judge_by_hand(
    config: Config,
    task_name: str,
    source: KernelSource,
    against: int | None,
    tell: Callable[[str], None] = _nobody,
) -> JudgeReport:
    """Judge ``source``.

    Args:
        config: The settings.
        task_name: The task it is a kernel for.
        source: The kernel.
        against: Generation to judge it against; ``None`` is the present baseline, or the
            reference where nothing is sealed.
        tell: Told which phase begins.

    Raises:
        UsageError: The task, target or generation does not exist, the task does not fit into
            memory, or a night is measuring.
        HarnessFault: It could not be measured.
    """
    paths = config.workspace
    known = wiring.all_tasks(paths)
    task = wiring.lookup("task", task_name, known)
    environment = probe_environment()
    slot = Slot(task=task_name, target=resolve_target(config.settings.target, environment))
    require_compiler()
    refuse_too_large([task])
    baseline = opponent(paths, slot, task, against)
    make_workspace(paths)
    with hold_lock(paths.lock):
        tell("Starting the judge")
        with wiring.judge_for(paths, environment) as judge:
            blobs = BlobStore(paths.evidence_dir)
            return _judged(judge, task, (source, baseline), blobs, tell)


def opponent(paths: Workspace, slot: Slot, task: LoadedTask, against: int | None) -> KernelSource:
    """Return the kernel to judge against.

    Raises:
        UsageError: There is no such generation.
    """
    store = BaselineStore(paths.baselines_git, wall_clock)
    head = store.head(slot) if paths.baselines_git.exists() else None
    refuse_lost_generation(paths, slot, head)
    if against is None:
        return reference_source(task) if head is None else head.source
    if head is None:
        if against == 0:
            return reference_source(task)
        raise UsageError(f"{slot} has no generation {against}: nothing is sealed yet.")
    return store.at_generation(slot, against).source


def _judged(
    judge: Judge,
    task: LoadedTask,
    sources: tuple[KernelSource, KernelSource],
    blobs: BlobStore,
    tell: Callable[[str], None],
) -> JudgeReport:
    source, baseline = sources
    tell("Building")
    built = judge.build(source)
    if isinstance(built, Rejected):
        return unmeasured_report(built)
    opposite = judge.build(baseline)
    if isinstance(opposite, Rejected):
        raise HarnessFault(f"The baseline does not build on this machine: {opposite.reason}")

    def measure() -> Judged:
        tell("Checking its values")
        # What is wrong on its smallest workload needs no measuring.
        first = judge.screen(task, built, opposite, noise={}, rounds=0)
        if isinstance(first.verdict, Rejected):
            return first
        tell("Measuring the noise of what it is judged against")
        noise = judge.calibrate(task, opposite, rounds=CALIBRATION_ROUNDS).noise
        # Holdouts of its own: a slot's secret is for its candidates alone.
        secret = secrets.token_bytes(32)
        tell("Checking unlisted shapes and values, then timing both in turns, a minute at most")
        return judge.by_hand(task, built, opposite, noise=noise, secret=secret)

    try:
        judged = _trying(measure)
    except HarnessFault as fault:
        return unmeasured_report(Inconclusive(reason=f"faults: {fault}"))
    digest, _ = blobs.write(judged.evidence)
    return judge_report(judged.evidence, judged.verdict, digest)


def _trying(measure: Callable[[], Judged]) -> Judged:
    for left in reversed(range(TRIES)):
        try:
            return measure()
        except HarnessFault:
            if not left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")
