"""One judgement, as JSON and as a text a person can look at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from forge.judge.checks import CHECKS
from forge.judge.decisions import summarise
from forge.report.plot import bar, interval_plot, interval_text, scale_for
from forge.report.reason import indented, shown_reason
from forge.report.shapes import JudgeReport, SpeedupShape, WorkloadShape
from forge.report.table import columns
from forge.verdict import Accepted, Inconclusive, Rejected, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.judge.evidence import Evidence
    from forge.report.shapes import VerdictWord
    from forge.types import Speedup


_ERROR_CELLS = 8


def judge_report(evidence: Evidence, verdict: Verdict, digest: str) -> JudgeReport:
    """Return ``forge judge --json`` for evidence that is kept under ``digest``."""
    summary = summarise(evidence)
    over = verdict.speedup if isinstance(verdict, Accepted) else summary.over_baseline
    axes = {spec.id: spec.axes for spec in evidence.workloads}
    return JudgeReport(
        verdict=verdict_word(verdict),
        check=verdict.check if isinstance(verdict, Rejected) else "",
        reason="" if isinstance(verdict, Accepted) else shown_reason(verdict.reason),
        speedup=None if over is None else _shape(over),
        workloads=tuple(
            WorkloadShape(
                axes=axes[row.id],
                ratio=row.ratio,
                lower=row.lower,
                upper=row.upper,
                max_error=row.max_error,
                allowed_error=row.allowed_error,
            )
            for row in summary.workloads
        ),
        holdouts=evidence.holdouts,
        evidence=digest,
    )


def unmeasured_report(verdict: Rejected | Inconclusive) -> JudgeReport:
    """Return the report of a kernel that was never run: there is no evidence, only a reason."""
    return JudgeReport(
        verdict=verdict_word(verdict),
        check=verdict.check if isinstance(verdict, Rejected) else "",
        reason=shown_reason(verdict.reason),
        speedup=None,
        workloads=(),
        holdouts="not-run",
        evidence="",
    )


def verdict_word(verdict: Verdict) -> VerdictWord:
    """Return the verdict in the one word of the ledger and of JSON."""
    match verdict:
        case Accepted():
            return "accepted"
        case Rejected():
            return "rejected"
        case Inconclusive():
            return "inconclusive"


def judge_text(report: JudgeReport) -> str:
    """Return a judgement for a person: the verdict, every workload's interval and errors."""
    lines = [report.verdict + (f" by {report.check}" if report.check else "")]
    lines += indented(report.reason)
    if report.check in CHECKS:
        lines.append(f"  What is checked: {CHECKS[report.check].sentence}")
    if report.speedup is not None:
        over = report.speedup
        lines.append(
            f"  {interval_text(over.point, over.lower, over.upper)}, weighted over the workloads"
        )
    if report.workloads:
        lines += ["", *workload_lines(report.workloads)]
    lines += ["", f"holdouts {report.holdouts.replace('-', ' ')}"]
    if report.evidence:
        lines.append(f"evidence {report.evidence}")
    return "\n".join(lines)


def workload_lines(workloads: Sequence[WorkloadShape]) -> list[str]:
    """Return a chart of the workloads' ratios on one scale, and one of their errors.

    Where there is nothing to draw, a sentence says why.
    """
    if all(row.ratio is None and row.max_error is None for row in workloads):
        return [
            "No charts: the kernel was stopped before a round was timed or an output compared."
        ]
    return [*_ratio_lines(workloads), "", *_error_lines(workloads)]


def _ratio_lines(workloads: Sequence[WorkloadShape]) -> list[str]:
    if all(row.ratio is None for row in workloads):
        return ["No chart of speedups: the kernel was stopped before a round was timed."]
    bounds = [b for w in workloads for b in (w.ratio, w.lower, w.upper) if b is not None]
    scale = scale_for(bounds)
    has_plot = any(row.lower is not None for row in workloads)
    ruler = scale.ruler() if has_plot else "(one round; an interval needs two)"
    cells = [["workload", "speedup", ruler]]
    for row in workloads:
        plot = ""
        if row.ratio is not None and row.lower is not None and row.upper is not None:
            plot = interval_plot(row.ratio, row.lower, row.upper, scale)
        ratio = "not timed" if row.ratio is None else f"{row.ratio:.2f}x"
        cells.append([axes_text(row.axes), ratio, plot])
    return columns(cells, right="lr")


def _error_lines(workloads: Sequence[WorkloadShape]) -> list[str]:
    if all(row.max_error is None for row in workloads):
        return ["No chart of errors: none was recorded."]
    cells = [["workload", "error beside the float64 result; a full bar is all that is allowed"]]
    cells += [[axes_text(row.axes), _error(row)] for row in workloads]
    return columns(cells)


def axes_text(axes: Mapping[str, int]) -> str:
    """Return axis values as they are written on a command line."""
    return " ".join(f"{name}={value}" for name, value in axes.items())


def _error(row: WorkloadShape) -> str:
    if row.max_error is None or row.allowed_error is None:
        return "not compared"
    if row.max_error == 0:
        return f"{bar(0, _ERROR_CELLS)}  exact"
    share = row.max_error / row.allowed_error if row.allowed_error > 0 else math.inf
    plot = bar(share, _ERROR_CELLS) + (" " if share <= 1 else "▸")
    percent = f" ({100 * share:.3g} % of it)" if math.isfinite(share) else ""
    return f"{plot} largest error {row.max_error:.1e}, allowed {row.allowed_error:.1e}{percent}"


def _shape(speedup: Speedup) -> SpeedupShape:
    return SpeedupShape(point=speedup.point, lower=speedup.lower, upper=speedup.upper)
