"""``forge show``: one candidate, generation or night, from the ledger's ``show`` query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from forge.judge.checks import CHECKS
from forge.judge.decisions import decide, summarise
from forge.report.judgement import axes_text, judge_report, workload_lines
from forge.report.plot import interval_plot, interval_text, scale_for
from forge.report.reason import indented, shown_reason
from forge.report.shapes import CandidateCounts, Spent
from forge.report.slots import NOT_TIMED, counts_text, rival_text, spent_text
from forge.report.table import columns, counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from forge.judge.evidence import Evidence

_SHORT = 12
_OVER = {"confirm": " over the baseline", "reconfirm": " over generation 0"}


class Row(BaseModel):
    """Base of what is read out of a row of the ledger; what is not shown is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ShownPhase(Row):
    """One phase of a candidate and the verdict it led to, if it led to one yet."""

    phase: str
    evidence: str
    rounds: int
    device_s: float
    verdict: str | None = None
    check: str | None = None
    reason: str | None = None
    speedup: float | None = None
    lower: float | None = None
    upper: float | None = None


class ShownCandidate(Row):
    """One candidate with all that was observed of it."""

    candidate: str
    task: str
    target: str
    parent: str
    student: str
    title: str
    night: str
    state: str
    check: str | None = None
    reason: str | None = None
    phases: tuple[ShownPhase, ...] = ()


class ShownWorkload(Row):
    """One line of a promotion: a workload's ratio over the parent."""

    axes: str
    ratio: float
    lower: float
    upper: float


class ShownRival(Row):
    """A rival timed beside a generation: its time over the kernel's."""

    name: str
    speedup: float
    lower: float | None = None
    upper: float | None = None


class ShownGeneration(Row):
    """One sealed generation; generation 0 has neither parent nor candidate."""

    task: str
    target: str
    generation: int
    commit: str | None
    speedup: float
    lower: float
    upper: float
    parent: str | None = None
    night: str | None = None
    rival: str | None = None
    rival_speedup: float | None = None
    rivals: tuple[ShownRival, ...] = ()
    alpha: float | None = None
    workloads: tuple[ShownWorkload, ...] = ()
    candidate: ShownCandidate | None = None


class ShownNight(Row):
    """One night."""

    night: str
    status: str | None
    started: str | None
    ended: str | None
    candidates: CandidateCounts
    spent: Annotated[Spent, Field(strict=False)]


def show_text(row: Mapping[str, Any], evidence: Mapping[str, Evidence]) -> str:
    """Return what the ledger's ``show`` query found, as text.

    Args:
        row: The query's answer; ``what`` says whether it is a candidate, a generation or a night.
        evidence: Evidence by digest, as far as it is still kept; what is there is drawn.
    """
    match row["what"]:
        case "candidate":
            return candidate_text(ShownCandidate.model_validate(row), evidence)
        case "generation":
            return generation_text(ShownGeneration.model_validate(row), evidence)
        case _:
            return shown_night_text(ShownNight.model_validate(row))


def candidate_text(shown: ShownCandidate, evidence: Mapping[str, Evidence]) -> str:
    """Return a candidate: what became of it and why, then each phase with its plots."""
    lines = [
        f"candidate {shown.candidate}: {shown.state}",
        f"  {shown.title}",
        f"  for {shown.task}/{shown.target}, against {shown.parent[:_SHORT]}",
        f"  by {shown.student} in night {shown.night}",
    ]
    lines += indented(shown_reason(shown.reason or ""))
    if shown.check in CHECKS:
        check = CHECKS[shown.check]
        lines.append(f"  {check.id} ({check.where}): {check.sentence}")
    phases = {phase.phase for phase in shown.phases}
    for phase in shown.phases:
        lines += ["", *_phase_lines(phase, phases)]
        if phase.reason != shown.reason:
            lines += indented(shown_reason(phase.reason or ""))
        if phase.evidence in evidence:
            said = (phase.reason or "", shown.reason or "")
            lines += indented("\n".join(evidence_lines(evidence[phase.evidence], said)))
    return "\n".join(lines)


def _outcome(phase: ShownPhase, phases: Collection[str]) -> str:
    """Return what a phase came to; a screen's "inconclusive" is no failure to decide."""
    if phase.phase == "calibrate" and phase.verdict != "rejected":
        return "its own noise was measured, which decides nothing"
    if phase.phase == "screen" and phase.verdict == "inconclusive" and phase.rounds:
        return "went on to confirm" if "confirm" in phases else "fast enough to confirm"
    return phase.verdict or "not judged yet"


def _phase_lines(phase: ShownPhase, phases: Collection[str]) -> list[str]:
    outcome = _outcome(phase, phases)
    if phase.check:
        outcome += f" by {phase.check}"
    if phase.speedup is not None and phase.lower is not None and phase.upper is not None:
        over = _OVER.get(phase.phase, "")
        outcome += f", {interval_text(phase.speedup, phase.lower, phase.upper)}{over}"
    cost = f"{counted(phase.rounds, 'round')} in {phase.device_s:.1f} s"
    return [f"{phase.phase}: {outcome}", f"  {cost}; evidence {phase.evidence[:_SHORT]}"]


def evidence_lines(evidence: Evidence, said: Collection[str] = ()) -> list[str]:
    """Return the plots of one phase: speedups, then every workload, then what failed.

    Args:
        evidence: Of the phase.
        said: Reasons that are shown already.

    Raises:
        ValueError: The evidence is malformed.
    """
    summary = summarise(evidence)
    over = "over itself" if evidence.phase == "calibrate" else "over the baseline"
    named = ((over, summary.over_baseline), ("over generation 0", summary.over_origin))
    known = [(name, over) for name, over in named if over is not None]
    scale = scale_for([bound for _, over in known for bound in (over.lower, over.upper)])
    lines = columns(
        [
            [
                name,
                interval_text(over.point, over.lower, over.upper),
                interval_plot(over.point, over.lower, over.upper, scale),
            ]
            for name, over in known
        ]
    )
    report = judge_report(evidence, decide(evidence), "")
    lines += workload_lines(report.workloads)
    axes = {spec.id: f" on {axes_text(spec.axes)}" for spec in evidence.workloads}
    lines += [
        f"failed {finding.check}{axes.get(finding.workload or '', '')}: "
        f"{shown_reason(finding.reason)}"
        for finding in evidence.findings
        if finding.reason not in said
    ]
    if evidence.missing_layers:
        lines.append(f"sandbox without {', '.join(evidence.missing_layers)}")
    return lines


def generation_text(shown: ShownGeneration, evidence: Mapping[str, Evidence]) -> str:
    """Return a generation: its speedup, its rival, and the candidate it was."""
    over = interval_text(shown.speedup, shown.lower, shown.upper)
    lines = [f"{shown.task}/{shown.target} generation {shown.generation}"]
    if shown.generation == 0:
        lines.append(f"  the reference run eagerly, sealed as {(shown.commit or '')[:_SHORT]}")
        return "\n".join(lines)
    lines += [
        f"  {over} over generation 0, weighted over the workloads",
        f"  sealed as {(shown.commit or 'nothing yet')[:_SHORT]} in night {shown.night}",
        f"  its parent is {(shown.parent or '')[:_SHORT]}",
    ]
    if shown.alpha is not None:
        lines.append(f"  accepted at an error probability of {shown.alpha:.2g}")
    lines += _rival_lines(shown)
    if shown.workloads:
        scale = scale_for([b for row in shown.workloads for b in (row.lower, row.upper)])
        cells = [["over its parent", "speedup", scale.ruler()]]
        cells += [
            [row.axes, f"{row.ratio:.2f}x", interval_plot(row.ratio, row.lower, row.upper, scale)]
            for row in shown.workloads
        ]
        lines += ["", *(f"  {line}" for line in columns(cells, right="lr"))]
    if shown.candidate is not None:
        lines += ["", candidate_text(shown.candidate, evidence)]
    return "\n".join(lines)


def _rival_lines(shown: ShownGeneration) -> list[str]:
    rivals = shown.rivals
    if not rivals and shown.rival and shown.rival_speedup:
        rivals = (ShownRival(name=shown.rival, speedup=shown.rival_speedup),)
    if not rivals:
        return [f"  beside its rivals: {NOT_TIMED}"]
    lines = ["  beside its rivals, at the heaviest workload alone:"]
    for rival in rivals:
        text = rival_text(rival.name, rival.speedup)
        if rival.lower is not None and rival.upper is not None:
            text += f", 95 % interval [{rival.lower:.2f}, {rival.upper:.2f}]"
        lines.append(f"    {text}")
    return lines


def shown_night_text(shown: ShownNight) -> str:
    """Return a night that the ledger remembers."""
    span = f"{shown.started or 'never started'} to {shown.ended or 'now'}"
    return "\n".join(
        [
            f"night {shown.night}: {shown.status or 'open'}",
            f"  {span}",
            f"  {counts_text(shown.candidates)}",
            f"  {spent_text(shown.spent)}",
        ]
    )
