"""Judging one kernel file for a person: nothing is sealed, no alpha is spent."""

from __future__ import annotations

import math
import secrets
from typing import TYPE_CHECKING, Any

from baselines.store import BaselineStore
from flows import wiring
from flows.standing import reference_source
from flows.workspace import hold_lock, make_workspace
from forge.errors import HarnessFault, UsageError
from forge.host import probe_environment, require_compiler, resolve_target, wall_clock
from forge.judge.decisions import summarise
from forge.types import Slot
from forge.verdict import Accepted, Inconclusive, Rejected
from ledger.blobs import BlobStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from forge.config import Config, Workspace
    from forge.judge.base import Judge, Judged
    from forge.judge.evidence import Evidence
    from forge.tasks.load import LoadedTask
    from forge.types import KernelSource
    from forge.verdict import Verdict

TRIES = 3


def judge_by_hand(
    config: Config, task_name: str, source: KernelSource, against: int | None
) -> dict[str, Any]:
    """Judge ``source`` and return the report of ``forge judge --json``.

    Args:
        config: The settings.
        task_name: The task it is a kernel for.
        source: The kernel.
        against: Generation to judge it against; ``None`` is the present baseline, or the
            reference where nothing is sealed.

    Raises:
        UsageError: The task, target or generation does not exist, or a night is measuring.
        HarnessFault: It could not be measured.
    """
    paths = config.workspace
    known = wiring.all_tasks(paths)
    task = wiring.lookup("task", task_name, known)
    environment = probe_environment()
    slot = Slot(task=task_name, target=resolve_target(config.settings.target, environment))
    require_compiler()
    baseline = opponent(paths, slot, task, against)
    make_workspace(paths)
    with hold_lock(paths.lock), wiring.judge_for(paths, environment) as judge:
        return _judged(judge, task, source, baseline, BlobStore(paths.evidence_dir))


def opponent(paths: Workspace, slot: Slot, task: LoadedTask, against: int | None) -> KernelSource:
    """Return the kernel to judge against.

    Raises:
        UsageError: There is no such generation.
    """
    store = BaselineStore(paths.baselines_git, wall_clock)
    head = store.head(slot) if paths.baselines_git.exists() else None
    if against is None:
        return reference_source(task) if head is None else head.source
    if head is None:
        if against == 0:
            return reference_source(task)
        raise UsageError(f"{slot} has no generation {against}: nothing is sealed yet.")
    return store.at_generation(slot, against).source


def report_of(verdict: Verdict, evidence: Evidence | None, digest: str) -> dict[str, Any]:
    """Return the shape of ``forge judge --json``; what was never measured is ``None``."""
    word, check, reason = _words(verdict)
    summary = None
    if evidence is not None and not evidence.findings:
        summary = summarise(evidence)
    over = summary.over_baseline if summary else None
    axes = {spec.id: spec.axes for spec in evidence.workloads} if evidence else {}
    return {
        "verdict": word,
        "check": check,
        "reason": reason,
        "speedup": None
        if over is None
        else {"point": over.point, "lower": over.lower, "upper": over.upper},
        "workloads": [
            {
                "axes": axes[row.id],
                "ratio": row.ratio,
                "lower": row.lower,
                "upper": row.upper,
                "max_error": _finite(row.max_error),
                "allowed_error": _finite(row.allowed_error),
            }
            for row in (summary.workloads if summary else ())
        ],
        "holdouts": evidence.holdouts if evidence else "not-run",
        "evidence": digest,
    }


def report_text(report: dict[str, Any]) -> str:
    """Return the report for a person: the verdict first, then a line for each workload."""
    reason = f": {report['reason']}" if report["reason"] else ""
    check = f" by {report['check']}" if report["check"] else ""
    lines = [f"{report['verdict']}{check}{reason}"]
    if report["speedup"]:
        over = report["speedup"]
        lines.append(f"{over['point']:.3f}x over it [{over['lower']:.3f}, {over['upper']:.3f}]")
    for row in report["workloads"]:
        if row["ratio"] is not None:
            axes = " ".join(f"{name}={size}" for name, size in row["axes"].items())
            lines.append(f"  {axes}: {row['ratio']:.3f}x")
    return "\n".join(lines)


def _judged(
    judge: Judge, task: LoadedTask, source: KernelSource, baseline: KernelSource, blobs: BlobStore
) -> dict[str, Any]:
    built = judge.build(source)
    if isinstance(built, Rejected):
        return report_of(built, None, "")
    opposite = judge.build(baseline)
    if isinstance(opposite, Rejected):
        raise HarnessFault(f"The baseline does not build on this machine: {opposite.reason}")

    def measure() -> Judged:
        noise = judge.calibrate(task, opposite).noise
        # Holdouts of its own: a slot's secret is for its candidates alone.
        secret = secrets.token_bytes(32)
        return judge.by_hand(task, built, opposite, noise=noise, secret=secret)

    try:
        judged = _trying(measure)
    except HarnessFault as fault:
        return report_of(Inconclusive(reason=f"faults: {fault}"), None, "")
    digest, _ = blobs.write(judged.evidence)
    return report_of(judged.verdict, judged.evidence, digest)


def _trying(measure: Callable[[], Judged]) -> Judged:
    for left in reversed(range(TRIES)):
        try:
            return measure()
        except HarnessFault:
            if not left:
                raise
    raise AssertionError("unreachable: the last try returns or raises")


def _words(verdict: Verdict) -> tuple[str, str, str]:
    match verdict:
        case Accepted():
            return "accepted", "", ""
        case Rejected(check=check, reason=reason):
            return "rejected", check, reason
        case Inconclusive(reason=reason):
            return "inconclusive", "", reason


def _finite(value: float | None) -> float | None:
    """Return ``value`` where JSON has a word for it."""
    return value if value is not None and math.isfinite(value) else None
