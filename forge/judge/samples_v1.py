"""What decision ``v1`` reads from evidence: log-ratios, their intervals, and what it refuses.

Frozen with ``decision_v1``: a change of its arithmetic is a new module beside it.
"""

from __future__ import annotations

import math
import statistics
from functools import lru_cache
from typing import TYPE_CHECKING

from forge.types import Speedup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.judge.evidence import Arm, Evidence, Round, Sample, WorkloadSpec

CONFIDENCE = 0.95
# One round has no spread, so it has no interval either.
MIN_ROUNDS = 2


def published_interval(log_ratios: Sequence[float]) -> Speedup:
    """Return the speedup and its 95 % t-interval from one log-ratio a round.

    The number of rounds must have been fixed beforehand, as a reconfirmation's is.

    Raises:
        ValueError: There are fewer than two rounds.
    """
    count = len(log_ratios)
    if count < MIN_ROUNDS:
        raise ValueError(f"An interval needs at least {MIN_ROUNDS} rounds; got {count}.")
    mean = statistics.fmean(log_ratios)
    half = student_t_quantile(count - 1) * statistics.stdev(log_ratios) / math.sqrt(count)
    return Speedup(point=math.exp(mean), lower=math.exp(mean - half), upper=math.exp(mean + half))


@lru_cache(maxsize=1024)
def student_t_quantile(freedom: int) -> float:
    """Return t such that Student's t with ``freedom`` degrees lies within +-t in 95 % of cases.

    Source:
        Abramowitz and Stegun 26.7.3 and 26.7.4 (finite sums for whole degrees), bisected.
    """
    if freedom < 1:
        raise ValueError(f"Degrees of freedom are at least 1; got {freedom}.")
    low, high = 0.0, 16.0  # the largest, at one degree of freedom, is 12.71
    while (middle := (low + high) / 2) not in (low, high):
        if _share_within(middle, freedom) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


def _share_within(t: float, freedom: int) -> float:
    """Return the probability that Student's t with ``freedom`` degrees lies within +-t."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2 == 1
    term = cosine if is_odd else 1.0
    total = 0.0
    for step in range(freedom // 2):
        total += term
        numerator = 2 * step + (2 if is_odd else 1)
        term *= cosine * cosine * numerator / (numerator + 1)
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total


def log_ratios(item: Round, over: Arm = "baseline") -> dict[str, float]:
    """Return log(``over`` time / candidate time) of each workload on which ``over`` ran."""
    return {
        sample.workload: math.log(sample.burst_ns[over] / sample.burst_ns["candidate"])
        for sample in item.samples
        if over in sample.burst_ns
    }


def weighted(logs: Mapping[str, float], workloads: Sequence[WorkloadSpec]) -> float:
    """Return the weighted mean log-ratio over the tune workloads, weights normalised."""
    tune = [spec for spec in workloads if spec.split == "tune"]
    total = math.fsum(spec.weight for spec in tune)
    return math.fsum(spec.weight / total * logs[spec.id] for spec in tune)


def weighted_logs(evidence: Evidence, over: Arm) -> list[float]:
    """Return ``weighted`` of every round, over an arm that ran in all of them."""
    return [weighted(log_ratios(item, over), evidence.workloads) for item in evidence.rounds]


def speedup_over(evidence: Evidence, over: Arm) -> Speedup | None:
    """Return the weighted speedup over an arm.

    ``None`` with fewer than two rounds, and where the arm was not timed on the tune workloads.
    """
    tune = {spec.id for spec in evidence.workloads if spec.split == "tune"}
    has_arm = all(tune <= log_ratios(item, over).keys() for item in evidence.rounds)
    if len(evidence.rounds) < MIN_ROUNDS or not has_arm:
        return None
    return published_interval(weighted_logs(evidence, over))


def check_evidence(evidence: Evidence) -> None:
    """Raise ``ValueError`` naming the value if nothing can be computed from ``evidence``."""
    policy = evidence.policy
    for name in ("bar", "floor", "clip_sigmas", "alpha", "floor_alpha", "futility_alpha"):
        value = getattr(policy, name)
        if not 0 < value < (1 if name.endswith("alpha") else math.inf):
            raise ValueError(f"A policy's {name} cannot be {value}.")
    check_rounds(evidence.rounds, evidence.workloads)


def check_rounds(rounds: Sequence[Round], workloads: Sequence[WorkloadSpec]) -> None:
    """Raise ``ValueError`` unless every round times every tune workload once, with both arms."""
    ids = [spec.id for spec in workloads]
    if len({*ids, "x"}) != len(ids) + 1:
        raise ValueError(f"Workload ids must be unique, and not 'x'; got {ids}.")
    weights = [spec.weight for spec in workloads if spec.split == "tune"]
    if not all(0 <= weight < math.inf for weight in weights) or not any(weights):
        raise ValueError(f"Tune workloads need weights of at least 0, one above; got {weights}.")
    tune = {spec.id for spec in workloads if spec.split == "tune"}
    origins: set[bool] = set()
    for number, item in enumerate(rounds, start=1):
        timed = [sample.workload for sample in item.samples]
        if len(set(timed)) != len(timed) or not tune <= set(timed) <= set(ids):
            raise ValueError(
                f"Round {number} times {timed}; expected are {sorted(tune)} once each"
                f" and no more than {ids}."
            )
        for sample in item.samples:
            _check_sample(sample, f"round {number}, {sample.workload}")
        origins |= {
            "origin" in sample.burst_ns for sample in item.samples if sample.workload in tune
        }
    if len(origins) > 1:
        raise ValueError("Generation 0 must be an arm of all tune samples or of none.")


def _check_sample(sample: Sample, where: str) -> None:
    arms = set(sample.burst_ns)
    if sorted(sample.order) != sorted(arms) or not {"baseline", "candidate"} <= arms:
        raise ValueError(
            f"Order {list(sample.order)} and times {sample.burst_ns} ({where}) are no pair of"
            " baseline and candidate."
        )
    for arm, nanoseconds in sample.burst_ns.items():
        if nanoseconds <= 0:
            raise ValueError(f"{arm} took {nanoseconds} ns ({where}); times are positive.")
