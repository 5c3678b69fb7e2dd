"""Properties that hold for every evidence, and candidates that are the baseline itself."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from forge.judge.decision_v1 import alpha_for, decide, noise_of, summarise
from forge.judge.evidence import Evidence, Policy, Round
from forge.verdict import Accepted, Inconclusive, Rejected
from tests.unit.decision_evidence import holdout, make_evidence, make_round, tune

if TYPE_CHECKING:
    from forge.verdict import Verdict

WORKLOADS = (tune(0, weight=2.0), tune(1, protected=True), holdout())
IDS = [spec.id for spec in WORKLOADS]
# Wide enough to reach both verdicts, the clip and everything between them.
ratios = st.floats(min_value=0.8, max_value=1.6)
rounds = st.lists(st.fixed_dictionaries(dict.fromkeys(IDS, ratios)), min_size=1, max_size=30)
phases = st.sampled_from(["screen", "confirm", "reconfirm", "by-hand"])
quick = settings(max_examples=60, deadline=None)


def evidence_of(table: list[dict[str, float]], **fields: object) -> Evidence:
    return make_evidence([make_round(row) for row in table], WORKLOADS, **fields)


def rank(verdict: Verdict) -> int:
    match verdict:
        case Rejected():
            return 0
        case Inconclusive():
            return 1
        case Accepted():
            return 2


@quick
@given(table=rounds, phase=phases, factor=st.floats(min_value=1.0, max_value=2.0))
def test_a_faster_candidate_never_fares_worse(table: list, phase: str, factor: float):
    faster = [{name: ratio * factor for name, ratio in row.items()} for row in table]
    before, after = (decide(evidence_of(rows, phase=phase)) for rows in (table, faster))
    if phase in ("confirm", "by-hand"):
        assert rank(after) >= rank(before)
    if phase == "screen":
        assert rank(after) >= rank(before)
    if isinstance(before, Accepted) and isinstance(after, Accepted):
        assert after.speedup.point >= before.speedup.point * (1 - 1e-8)


@quick
@given(table=rounds, phase=phases, shuffle=st.randoms(use_true_random=False))
def test_the_order_of_workloads_does_not_matter(table: list, phase: str, shuffle: random.Random):
    names = shuffle.sample(IDS, len(IDS))
    workloads = tuple(sorted(WORKLOADS, key=lambda spec: names.index(spec.id)))
    other = make_evidence(
        [make_round({name: row[name] for name in names}) for row in table], workloads, phase=phase
    )
    evidence = evidence_of(table, phase=phase)
    assert decide(other) == decide(evidence)
    assert summarise(other).over_baseline == summarise(evidence).over_baseline


@quick
@given(table=rounds, phase=phases, factor=st.integers(min_value=2, max_value=1000))
def test_only_ratios_of_times_count(table: list, phase: str, factor: int):
    evidence = evidence_of(table, phase=phase)
    scaled = [
        item.model_copy(
            update={
                "samples": tuple(
                    sample.model_copy(
                        update={
                            "burst_ns": {arm: ns * factor for arm, ns in sample.burst_ns.items()}
                        }
                    )
                    for sample in item.samples
                )
            }
        )
        for item in evidence.rounds
    ]
    assert decide(evidence.model_copy(update={"rounds": tuple(scaled)})) == decide(evidence)


@quick
@given(table=rounds, factor=st.floats(min_value=0.01, max_value=100.0))
def test_only_shares_of_weights_count(table: list, factor: float):
    evidence = evidence_of(table)
    workloads = tuple(
        spec.model_copy(update={"weight": spec.weight * factor}) for spec in WORKLOADS
    )
    scaled = evidence.model_copy(update={"workloads": workloads})
    assert rank(decide(scaled)) == rank(decide(evidence))


@quick
@given(table=rounds)
def test_a_verdict_is_for_good(table: list):
    """More rounds change no verdict that was reached, so one may look after every round."""
    evidence = evidence_of(table)
    settled = None
    for count in range(1, len(table) + 1):
        verdict = decide(evidence.model_copy(update={"rounds": evidence.rounds[:count]}))
        if settled is not None:
            assert rank(verdict) == settled
        if not isinstance(verdict, Inconclusive):
            settled = rank(verdict)


@quick
@given(k=st.integers(min_value=1, max_value=10_000), table=rounds)
def test_no_acceptance_without_enough_rounds(k: int, table: list):
    """Wealth at most 1.95-folds a round, so 1 / alpha takes log(1 / alpha) / log(1.95) of them."""
    alpha = alpha_for(k)
    needed = math.log(1 / alpha) / math.log(1.95)
    verdict = decide(evidence_of(table, policy=Policy(alpha=alpha)))
    assert not isinstance(verdict, Accepted) or len(table) >= needed


@quick
@given(table=rounds, phase=phases)
def test_evidence_survives_json(table: list, phase: str):
    evidence = evidence_of(table, phase=phase)
    again = Evidence.model_validate_json(evidence.model_dump_json())
    assert decide(again) == decide(evidence)
    assert summarise(again) == summarise(evidence)


# --- A/A: the candidate is the baseline -------------------------------------------------------


def heavy_tail(source: random.Random, sigma: float) -> float:
    """A log-ratio of a kernel over itself: now and then a turn meets another process."""
    noise = source.gauss(0.0, sigma)
    if source.random() < 0.08:
        noise += source.choice((-1, 1)) * sigma * source.paretovariate(1.2)
    return max(-3.0, min(3.0, noise))


def noisy_rounds(source: random.Random, count: int, gain: float) -> list[Round]:
    return [
        make_round({name: math.exp(gain + heavy_tail(source, 0.02)) for name in IDS})
        for _ in range(count)
    ]


def candidates(seed: int, count: int, gain: float) -> Counter[str]:
    """Verdicts on candidates that are ``exp(gain)`` times as fast, noise measured for each."""
    source, verdicts = random.Random(seed), Counter[str]()
    for _ in range(count):
        noise = noise_of(noisy_rounds(source, 16, 0.0), WORKLOADS)
        evidence = make_evidence(
            noisy_rounds(source, 60, gain), WORKLOADS, policy=Policy(alpha=alpha_for(1))
        ).model_copy(update={"noise": noise})
        verdicts[type(decide(evidence)).__name__] += 1
    return verdicts


def test_a_kernel_against_itself_is_never_accepted():
    verdicts = candidates(seed=1, count=300, gain=0.0)
    assert verdicts["Accepted"] == 0
    # The bar is half a sigma away, so most are even shown not to be faster within 60 rounds.
    assert verdicts["Rejected"] > 150


def test_a_kernel_at_the_bar_is_accepted_no_more_often_than_alpha():
    # 0.025 of 300 is 7.5; a right decision exceeds 18 with probability 3e-4 (binomial tail).
    assert candidates(seed=2, count=300, gain=math.log(1.01))["Accepted"] <= 18


def test_a_real_speedup_is_found_through_the_noise():
    assert candidates(seed=3, count=60, gain=math.log(1.10))["Accepted"] >= 57
    assert candidates(seed=4, count=60, gain=math.log(0.95))["Rejected"] == 60
