"""Decision ``v1``: a verdict as a pure function of evidence. Frozen.

Verdicts in the ledger are derived again by this file for ever, so a change of its arithmetic is
a new module beside it. docs/decisions/0001-decision-v1.md says why each number is what it is.

A round's ``x`` is the weighted mean log-ratio over the tune workloads less the log of the bar.
It is clipped (after the subtraction: clipped before, a 10 % loss on a quiet device would pass
the floor of 0.98) and bet on. A bettor who stakes the share ``lambda`` multiplies her wealth by
``1 + lambda * x / clip`` each round; if the candidate is at the bar or below she cannot expect
to gain, so that wealth ever reaches ``1 / alpha`` with probability at most ``alpha`` however
often one looks (Ville). The wealth used is a fixed mixture of four such bettors.

Source:
    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
    JRSS B 86 (2024).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forge.judge.samples_v1 import (
    MIN_ROUNDS,
    check_evidence,
    check_rounds,
    log_ratios,
    published_interval,
    speedup_over,
    weighted,
    weighted_logs,
)
from forge.verdict import Accepted, Inconclusive, Rejected, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.judge.evidence import Evidence, Round, WorkloadSpec
    from forge.types import Speedup

VERSION = "v1"

# (lambda, weight): a bold bettor ends a clear case in few rounds, timid ones outlast noise.
MIXTURE = ((0.95, 0.55), (0.6, 0.2), (0.3, 0.15), (0.1, 0.1))

SLOT_ALPHA = 0.05
X_NOISE_FLOOR = 0.004
WORKLOAD_NOISE_FLOOR = 0.006
# A holdout is drawn anew every generation, so nobody has measured its own noise.
HOLDOUT_NOISE_FLOOR = 0.02
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """What one workload showed.

    Attributes:
        id: The workload's id.
        ratio: Baseline time over candidate time; ``None`` when it was never timed.
        lower: Lower end of its 95 % interval; ``None`` with fewer than two rounds.
        upper: Upper end of the same interval.
        max_error: Largest absolute error; ``None`` when nothing was compared.
        allowed_error: What was allowed at that element.
    """

    id: str
    ratio: float | None
    lower: float | None
    upper: float | None
    max_error: float | None
    allowed_error: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers of one phase.

    Attributes:
        over_baseline: Weighted speedup over the baseline; ``None`` with fewer than two rounds.
        over_origin: The same over generation 0; ``None`` too where it was not an arm.
        workloads: One entry per workload, in the evidence's order.
        rounds: Rounds that were timed.
    """

    over_baseline: Speedup | None
    over_origin: Speedup | None
    workloads: tuple[WorkloadSummary, ...]
    rounds: int


def alpha_for(k: int) -> float:
    """Return what the ``k``-th candidate of a slot's year may spend when it enters confirm.

    Over all k these sum to 0.05, which bounds the chance that the slot is ever wrong.

    Raises:
        ValueError: ``k`` is less than 1.
    """
    if k < 1:
        raise ValueError(f"The first candidate that enters confirm has k = 1; got {k}.")
    return SLOT_ALPHA / (k * (k + 1))


def decide(evidence: Evidence) -> Verdict:
    """Return the verdict on ``evidence``.

    Once accepted or rejected, further rounds do not change it: the first round at which a test
    is settled decides, and nothing after ``policy.max_rounds`` is looked at.

    Raises:
        ValueError: The evidence is malformed: a time that is not positive, an arm, a sample or
            a noise that is missing, a policy out of range. A finding is decided before that is
            looked at, because a crash may leave the evidence incomplete.
    """
    if evidence.decision != VERSION:
        raise ValueError(f"Evidence for decision {evidence.decision!r} was given to {VERSION!r}.")
    for finding in evidence.findings:
        return Rejected(check=finding.check, reason=finding.reason)
    for error in evidence.errors:
        if not error.worst_ratio <= 1:  # NaN is no pass
            return Rejected(
                check="wrong-values",
                reason=f"{error.workload} errs by {error.worst_ratio:.3g} times what is allowed.",
            )
    check_evidence(evidence)
    match evidence.phase:
        case "calibrate":
            return Inconclusive(reason="A calibration measures noise and decides nothing.")
        case "screen":
            return _decide_screen(evidence)
        case "reconfirm":
            return _decide_reconfirm(evidence)
        case "confirm" | "by-hand":
            return _decide_by_betting(evidence)


def summarise(evidence: Evidence) -> Summary:
    """Return the numbers of ``evidence``; its intervals are Student's t over its rounds.

    Raises:
        ValueError: The evidence is malformed, as for ``decide``.
    """
    check_evidence(evidence)
    errors = {error.workload: error for error in evidence.errors}
    rounds = [log_ratios(item) for item in evidence.rounds]
    workloads: list[WorkloadSummary] = []
    for spec in evidence.workloads:
        ratios = [logs[spec.id] for logs in rounds if spec.id in logs]
        interval = published_interval(ratios) if len(ratios) >= MIN_ROUNDS else None
        error = errors.get(spec.id)
        workloads.append(
            WorkloadSummary(
                id=spec.id,
                ratio=math.exp(statistics.fmean(ratios)) if ratios else None,
                lower=interval.lower if interval else None,
                upper=interval.upper if interval else None,
                max_error=error.max_error if error else None,
                allowed_error=error.allowed_error if error else None,
            )
        )
    return Summary(
        over_baseline=speedup_over(evidence, "baseline"),
        over_origin=speedup_over(evidence, "origin"),
        workloads=tuple(workloads),
        rounds=len(evidence.rounds),
    )


def noise_of(rounds: Sequence[Round], workloads: Sequence[WorkloadSpec]) -> dict[str, float]:
    """Return the noise of A/A rounds as ``Evidence.noise`` wants it.

    Robust standard deviations (1.4826 times the median absolute deviation) under ``"x"`` and
    under the id of every workload that was timed. The floors keep a few lucky rounds from making
    the clip so narrow that a real difference saturates it.

    Raises:
        ValueError: There are no rounds, or they are malformed.
    """
    if not rounds:
        raise ValueError("Noise needs at least one A/A round; got none.")
    check_rounds(rounds, workloads)
    logs = [log_ratios(item) for item in rounds]
    noise = {"x": max(X_NOISE_FLOOR, _robust_sigma([weighted(item, workloads) for item in logs]))}
    for spec in workloads:
        ratios = [item[spec.id] for item in logs if spec.id in item]
        if ratios:
            noise[spec.id] = max(WORKLOAD_NOISE_FLOOR, _robust_sigma(ratios))
    return noise


# --- deciding ---------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Bet:
    """One test and its mirror image, fed a round at a time.

    Attributes:
        id: ``"x"`` or the workload whose log-ratio it reads.
        check: Check that a refutation is reported under.
        centre: Log of the speedup that must be exceeded.
        clip: Largest deviation from ``centre`` that counts.
        needed: Wealth at which the speedup is shown.
        needed_against: Wealth at which the mirrored bet has shown that it is out of reach.
    """

    id: str
    check: str
    centre: float
    clip: float
    needed: float
    needed_against: float
    best: float = 1.0
    best_against: float = 1.0
    _wealth: list[float] = field(default_factory=lambda: [weight for _, weight in MIXTURE])
    _against: list[float] = field(default_factory=lambda: [weight for _, weight in MIXTURE])

    def feed(self, log_ratio: float) -> None:
        """Bet on one more round."""
        share = max(-1.0, min(1.0, (log_ratio - self.centre) / self.clip))
        for index, (stake, _) in enumerate(MIXTURE):
            self._wealth[index] *= 1 + stake * share
            self._against[index] *= 1 - stake * share
        self.best = max(self.best, sum(self._wealth))
        self.best_against = max(self.best_against, sum(self._against))

    @property
    def is_shown(self) -> bool:
        return self.best >= self.needed

    @property
    def is_refuted(self) -> bool:
        return self.best_against >= self.needed_against


def _decide_by_betting(evidence: Evidence) -> Verdict:
    bets = _bets(evidence)
    rounds = evidence.rounds[: evidence.policy.max_rounds]
    for number, item in enumerate(rounds, start=1):
        logs = log_ratios(item)
        logs["x"] = weighted(logs, evidence.workloads)
        for bet in bets:
            if bet.id in logs:
                bet.feed(logs[bet.id])
        for bet in bets:
            if bet.is_refuted:
                return _refuted(bet, evidence, number)
        if number >= MIN_ROUNDS and all(bet.is_shown for bet in bets):
            return Accepted(speedup=published_interval(weighted_logs(evidence, "baseline")))
    missing = ", ".join(f"{bet.id} {bet.best:.3g} of {bet.needed:.3g}" for bet in bets)
    last = " (the most this policy allows)" if len(rounds) == evidence.policy.max_rounds else ""
    return Inconclusive(
        reason=f"undecided after {len(rounds)} rounds{last}; evidence so far: {missing}"
    )


def _bets(evidence: Evidence) -> list[_Bet]:
    """Return the tests in the order in which they are reported: x, protected, holdouts."""
    policy, noise = evidence.policy, evidence.noise
    against = 1 / policy.futility_alpha
    bets = [
        _Bet(
            id="x",
            check="not-faster",
            centre=math.log(policy.bar),
            clip=policy.clip_sigmas * _noise_for("x", noise),
            needed=1 / policy.alpha,
            needed_against=against,
        )
    ]
    tune = [spec.id for spec in evidence.workloads if spec.split == "tune"]
    unmeasured = max([HOLDOUT_NOISE_FLOOR, *(noise[id_] for id_ in tune if id_ in noise)])
    for spec in sorted(evidence.workloads, key=lambda spec: (spec.split == "holdout", spec.id)):
        is_holdout = spec.split == "holdout"
        if not (is_holdout or spec.protected):
            continue
        has_noise = spec.id in noise or not is_holdout
        sigma = _noise_for(spec.id, noise) if has_noise else unmeasured
        bets.append(
            _Bet(
                id=spec.id,
                check="slower-on-holdout" if is_holdout else "slower-on-protected",
                centre=math.log(policy.floor),
                clip=policy.clip_sigmas * sigma,
                needed=1 / policy.floor_alpha,
                needed_against=against,
            )
        )
    return bets


def _refuted(bet: _Bet, evidence: Evidence, number: int) -> Rejected:
    seen = [log_ratios(item) for item in evidence.rounds[:number]]
    if bet.id == "x":
        point = math.exp(statistics.fmean(weighted(logs, evidence.workloads) for logs in seen))
        what = f"{point:.3f}x over the baseline; more than {evidence.policy.bar:g}x"
    else:
        point = math.exp(statistics.fmean(logs[bet.id] for logs in seen if bet.id in logs))
        what = f"{point:.3f}x on {bet.id}; {evidence.policy.floor:g}x"
    return Rejected(check=bet.check, reason=f"{what} is out of reach after {number} rounds")


def _decide_screen(evidence: Evidence) -> Verdict:
    if not evidence.rounds:
        return Inconclusive(reason="no round has been timed yet")
    mean = statistics.fmean(weighted_logs(evidence, "baseline"))
    point, count = math.exp(mean), len(evidence.rounds)
    if mean - math.log(evidence.policy.bar) <= 0:
        return Rejected(
            check="not-faster",
            reason=f"{point:.3f}x over the baseline in a screen of {count} rounds;"
            f" more than {evidence.policy.bar:g}x is needed",
        )
    return Inconclusive(reason=f"screened at {point:.2f}x; confirmation decides")


def _decide_reconfirm(evidence: Evidence) -> Verdict:
    over = speedup_over(evidence, "baseline")
    if over is None:
        return Inconclusive(
            reason=f"{len(evidence.rounds)} rounds were timed; an interval needs {MIN_ROUNDS}"
        )
    if over.upper < evidence.policy.bar:
        return Rejected(
            check="not-reproduced",
            reason=f"{over.point:.3f}x [{over.lower:.3f}, {over.upper:.3f}] over the baseline in"
            f" {len(evidence.rounds)} fresh rounds; the bar is {evidence.policy.bar:g}x",
        )
    return Accepted(speedup=speedup_over(evidence, "origin") or over)


def _noise_for(name: str, noise: Mapping[str, float]) -> float:
    sigma = noise.get(name)
    if sigma is None or not (sigma > 0 and math.isfinite(sigma)):
        raise ValueError(f"Evidence needs a positive A/A noise for {name!r}; got {sigma}.")
    return sigma


def _robust_sigma(values: Sequence[float]) -> float:
    centre = statistics.median(values)
    return MAD_TO_SIGMA * statistics.median(abs(value - centre) for value in values)
