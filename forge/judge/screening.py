"""What a screen showed, beyond its verdict: how far ahead, in units of its own noise. Pure."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from forge.judge.samples_v1 import weighted_logs

if TYPE_CHECKING:
    from forge.judge.evidence import Evidence

NEAR_TIE = 1.0
"""A lead below which a confirmation would spend its time and its alpha on chance."""


def lead(evidence: Evidence) -> float:
    """Return how far the mean lies above the bar, in standard errors; negative below it.

    The larger of the calibrated noise and the rounds' own spread counts.
    """
    logs = weighted_logs(evidence, "baseline")
    if not logs:
        return -math.inf
    own = statistics.stdev(logs) if len(logs) > 2 else 0.0
    error = max(own, evidence.noise["x"]) / math.sqrt(len(logs))
    return (statistics.fmean(logs) - math.log(evidence.policy.bar)) / error


def is_near_tie(evidence: Evidence) -> bool:
    """Return whether a screen's lead is one that noise alone would often show."""
    return lead(evidence) < NEAR_TIE
