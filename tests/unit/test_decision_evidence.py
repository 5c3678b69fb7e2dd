"""What the decision refuses, what it summarises, and that it stays as it is."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from forge.errors import UsageError
from forge.judge import decision_v1, decisions
from forge.judge.decision_v1 import decide, noise_of, summarise
from forge.judge.evidence import Finding, NumericError, Policy, Round, Sample
from forge.verdict import Accepted, Rejected
from tests.unit.decision_evidence import holdout, make_evidence, make_round, repeated, tune

PAIR = {"baseline": 100, "candidate": 90}


def a_round(*samples: tuple[str, dict[str, int]]) -> Round:
    return Round(
        seed_digest="5eed",
        samples=tuple(
            Sample.model_validate({"workload": name, "order": tuple(times), "burst_ns": times})
            for name, times in samples
        ),
    )


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([("tune-0", PAIR | {"candidate": 0})], "candidate took 0 ns"),
        ([("tune-0", PAIR | {"baseline": -5})], "baseline took -5 ns"),
        ([("tune-0", {"baseline": 100})], "no pair"),
        ([("tune-0", {"candidate": 100})], "no pair"),
        ([], r"times \[\]"),
        ([("tune-0", PAIR), ("tune-0", PAIR)], "once each"),
        ([("tune-0", PAIR), ("tune-9", PAIR)], "tune-9"),
    ],
)
def test_malformed_rounds_are_refused(samples: Any, message: str):
    bad = a_round(*samples)
    evidence = make_evidence([make_round({"tune-0": 1.1}), bad])
    for function in (decide, summarise):
        with pytest.raises(ValueError, match=message):
            function(evidence)
    with pytest.raises(ValueError, match=message):
        noise_of([bad], evidence.workloads)


def test_an_order_without_its_time_is_refused():
    sample = Sample(
        workload="tune-0", order=("baseline",), burst_ns={"baseline": 1, "candidate": 1}
    )
    with pytest.raises(ValueError, match="no pair"):
        decide(make_evidence([Round(seed_digest="5eed", samples=(sample,))]))


def test_generation_0_is_an_arm_of_all_rounds_or_of_none():
    rounds = [make_round({"tune-0": 1.1}), make_round({"tune-0": 1.1}, origin=2.0)]
    with pytest.raises(ValueError, match="Generation 0"):
        decide(make_evidence(rounds, phase="reconfirm"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bar", 0.0),
        ("bar", math.inf),
        ("floor", -1.0),
        ("clip_sigmas", 0.0),
        ("alpha", 0.0),
        ("alpha", 1.0),
        ("floor_alpha", 2.0),
        ("futility_alpha", math.nan),
    ],
)
def test_a_policy_out_of_range_is_refused(field: str, value: float):
    policy = Policy.model_validate({field: value})
    with pytest.raises(ValueError, match=f"{field} cannot be"):
        decide(make_evidence(repeated(3, {"tune-0": 1.1}), policy=policy))


@pytest.mark.parametrize("noise", [{}, {"x": 0.0}, {"x": math.nan}, {"x": -1.0}, {"x": math.inf}])
def test_a_confirmation_needs_noise(noise: dict[str, float]):
    with pytest.raises(ValueError, match="noise for 'x'"):
        decide(make_evidence(repeated(3, {"tune-0": 1.1})).model_copy(update={"noise": noise}))


def test_a_protected_workload_needs_noise():
    evidence = make_evidence(repeated(3, {"tune-0": 1.1}), (tune(protected=True),))
    with pytest.raises(ValueError, match="noise for 'tune-0'"):
        decide(evidence.model_copy(update={"noise": {"x": 0.01}}))


@pytest.mark.parametrize(
    ("workloads", "message"),
    [
        ((tune(weight=0.0),), "weights"),
        ((tune(weight=-1.0),), "weights"),
        ((tune(weight=math.inf),), "weights"),
        ((holdout(),), "weights"),
        ((tune(), tune()), "unique"),
        ((tune().model_copy(update={"id": "x"}),), "unique"),
    ],
)
def test_malformed_workloads_are_refused(workloads: Any, message: str):
    with pytest.raises(ValueError, match=message):
        decide(make_evidence([], workloads))


def test_a_finding_is_decided_however_broken_the_rounds_are():
    crashed = Finding(check="crashed", reason="signal 11")
    evidence = make_evidence([a_round(("tune-0", {"baseline": 5}))], findings=(crashed,))
    assert decide(evidence) == Rejected(check="crashed", reason="signal 11")


# --- summaries --------------------------------------------------------------------------------


def test_a_summary_has_every_workload():
    workloads = (tune(0, weight=3.0), tune(1), holdout(0), holdout(1))
    rounds = [
        make_round({"tune-0": 1.4, "tune-1": 1.0, "holdout-0": 1.2}, origin=2.0),
        make_round({"tune-0": 1.6, "tune-1": 1.0}, origin=2.0),
    ]
    error = NumericError(workload="tune-1", max_error=1e-6, allowed_error=2e-6, worst_ratio=0.5)
    summary = summarise(make_evidence(rounds, workloads, errors=(error,)))
    first, second, timed_once, never = summary.workloads
    assert first.ratio == pytest.approx(math.sqrt(1.4 * 1.6))
    assert first.lower is not None
    assert first.upper is not None
    assert first.lower < 1.4 < 1.6 < first.upper
    assert (first.max_error, first.allowed_error) == (None, None)
    assert (second.max_error, second.allowed_error) == (1e-6, 2e-6)
    assert timed_once.ratio == pytest.approx(1.2)
    assert (timed_once.lower, timed_once.upper) == (None, None)
    assert (never.ratio, never.lower, never.upper) == (None, None, None)
    assert summary.rounds == 2
    assert summary.over_baseline is not None
    assert summary.over_baseline.point == pytest.approx((1.4 * 1.6) ** 0.375)
    assert summary.over_origin is not None
    assert summary.over_origin.point == pytest.approx(2 * (1.4 * 1.6) ** 0.375)


def test_a_summary_of_one_round_has_no_interval():
    summary = summarise(make_evidence(repeated(1, {"tune-0": 1.4}, origin=2.0)))
    assert (summary.over_baseline, summary.over_origin) == (None, None)
    assert summary.workloads[0].ratio == pytest.approx(1.4)


def test_without_the_arm_there_is_no_speedup_over_generation_0():
    assert summarise(make_evidence(repeated(4, {"tune-0": 1.4}))).over_origin is None


# --- versions ---------------------------------------------------------------------------------


def test_evidence_is_read_by_the_module_it_names():
    evidence = make_evidence(repeated(20, {"tune-0": 1.5}))
    assert decisions.CURRENT in decisions.DECISIONS
    assert decisions.decide(evidence) == decision_v1.decide(evidence)
    assert decisions.summarise(evidence) == decision_v1.summarise(evidence)
    newer = evidence.model_copy(update={"decision": "v99"})
    with pytest.raises(UsageError, match=r"'v99'.*'v1'"):
        decisions.decide(newer)
    with pytest.raises(ValueError, match="'v99'"):
        decision_v1.decide(newer)


FROZEN_NOISE = {
    "x": 0.023078157861577707,
    "tune-0": 0.02812976133487863,
    "tune-1": 0.03083565744936538,
    "holdout-0": 0.028245187682124674,
}
FROZEN_ROUNDS = [15, 27]
FROZEN_SPEEDUP = (1.0522639299230356, 1.0449568361781751, 1.0596221201506861)
FROZEN_LOWER = 1.7764266215028977


def test_the_module_is_frozen():
    """A verdict of old evidence must come out as it did; a failure here needs a ``v2``."""
    draw = random.Random(20261130).random
    workloads = (tune(0, weight=2.0), tune(1, protected=True), holdout())
    rounds = [
        make_round(
            {spec.id: math.exp(0.05 + 0.08 * (draw() - draw())) for spec in workloads}, origin=1.7
        )
        for _ in range(40)
    ]
    noise = noise_of(rounds, workloads)
    assert noise == pytest.approx(FROZEN_NOISE, rel=1e-9)
    evidence = make_evidence(rounds, workloads).model_copy(update={"noise": noise})
    counts = [
        next(n for n in range(2, 41) if isinstance(_first(evidence, n, alpha), Accepted))
        for alpha in (0.05, decision_v1.alpha_for(9))
    ]
    assert counts == FROZEN_ROUNDS
    verdict = decide(evidence)
    assert isinstance(verdict, Accepted)
    numbers = (verdict.speedup.point, verdict.speedup.lower, verdict.speedup.upper)
    assert numbers == pytest.approx(FROZEN_SPEEDUP, rel=1e-9)
    published = decide(evidence.model_copy(update={"phase": "reconfirm"}))
    assert isinstance(published, Accepted)
    assert published.speedup.lower == pytest.approx(FROZEN_LOWER, rel=1e-9)


def _first(evidence: Any, count: int, alpha: float):
    policy = Policy(alpha=alpha)
    return decide(
        evidence.model_copy(update={"policy": policy, "rounds": evidence.rounds[:count]})
    )
