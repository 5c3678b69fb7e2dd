"""Every clause of the decision has a test that fails without it."""

from __future__ import annotations

import math

import pytest

from forge.judge import decision_v1
from forge.judge.decision_v1 import alpha_for, decide, noise_of, published_interval
from forge.judge.evidence import Finding, NumericError, Policy
from forge.judge.samples_v1 import student_t_quantile
from forge.verdict import Accepted, Inconclusive, Rejected
from tests.unit.decision_evidence import holdout, make_evidence, make_round, repeated, tune

FAST = {"tune-0": 1.5}


def check_of(verdict: object) -> str:
    assert isinstance(verdict, Rejected), verdict
    return verdict.check


# --- alpha ------------------------------------------------------------------------------------


def test_alpha_spends_at_most_the_slots_budget_over_all_candidates():
    assert alpha_for(1) == 0.025
    assert alpha_for(10) == pytest.approx(0.05 / 110)
    assert 0.0499 < sum(alpha_for(k) for k in range(1, 2000)) < 0.05
    with pytest.raises(ValueError, match="got 0"):
        alpha_for(0)


def test_a_smaller_alpha_needs_more_rounds():
    def needed(alpha: float) -> int:
        policy = Policy(alpha=alpha)
        return next(
            count
            for count in range(1, 60)
            if isinstance(decide(make_evidence(repeated(count, FAST), policy=policy)), Accepted)
        )

    # Every round of a saturated candidate multiplies the boldest bettor's wealth by 1.95, the
    # others' by 1.6, 1.3 and 1.1: 0.55 * 1.95**n + 0.2 * 1.6**n + ... reaches 40 at n = 7.
    assert needed(alpha_for(1)) == 7
    assert needed(alpha_for(1000)) == 27


def test_the_bettors_start_with_a_wealth_of_one():
    """Were it more than 1, the chance of a false seal would be as much above alpha."""
    assert decision_v1.MIXTURE == ((0.95, 0.55), (0.6, 0.2), (0.3, 0.15), (0.1, 0.1))
    assert math.fsum(weight for _, weight in decision_v1.MIXTURE) <= 1.0
    assert all(0 < stake < 1 for stake, _ in decision_v1.MIXTURE)


# --- confirm ----------------------------------------------------------------------------------


def test_a_faster_candidate_is_accepted_with_its_speedup():
    verdict = decide(make_evidence(repeated(20, FAST)))
    assert isinstance(verdict, Accepted)
    assert verdict.speedup.point == pytest.approx(1.5, rel=1e-8)


def test_by_hand_decides_as_a_confirmation_does():
    assert isinstance(decide(make_evidence(repeated(20, FAST), phase="by-hand")), Accepted)


def test_one_round_is_never_enough():
    # The stake of one round reaches 1 / 0.6; only the minimum of two rounds stands in the way.
    policy = Policy(alpha=0.6)
    assert isinstance(decide(make_evidence(repeated(1, FAST), policy=policy)), Inconclusive)
    assert isinstance(decide(make_evidence(repeated(2, FAST), policy=policy)), Accepted)


def test_a_speedup_below_the_bar_is_not_faster():
    verdict = decide(make_evidence(repeated(200, {"tune-0": 1.005})))
    assert check_of(verdict) == "not-faster"
    assert isinstance(verdict, Rejected)
    assert "1.005x" in verdict.reason
    assert "1.01x" in verdict.reason


def test_the_bar_is_the_policys():
    lower = Policy(bar=1.001)
    assert isinstance(
        decide(make_evidence(repeated(200, {"tune-0": 1.005}), policy=lower)), Accepted
    )


def test_futility_uses_its_own_error():
    patient = Policy(futility_alpha=1e-12)
    evidence = make_evidence(repeated(40, {"tune-0": 0.99}))
    assert check_of(decide(evidence)) == "not-faster"
    assert isinstance(decide(evidence.model_copy(update={"policy": patient})), Inconclusive)


def test_one_huge_round_weighs_no_more_than_the_clip_allows():
    rounds = [make_round({"tune-0": 1000.0}), *repeated(5, {"tune-0": 1.0})]
    assert isinstance(decide(make_evidence(rounds)), Inconclusive)


def test_the_clip_is_counted_in_sigmas_of_the_noise():
    # Two rounds at +2.9 % over the bar: saturated at 5 * 0.004, hardly a bet at 5 * 0.2.
    rounds, policy = repeated(7, {"tune-0": 1.04}), Policy()
    assert isinstance(decide(make_evidence(rounds, noise=0.004, policy=policy)), Accepted)
    assert isinstance(decide(make_evidence(rounds, noise=0.2, policy=policy)), Inconclusive)
    narrow = Policy(clip_sigmas=0.1)
    assert isinstance(decide(make_evidence(rounds, noise=0.2, policy=narrow)), Accepted)


def test_the_bar_is_subtracted_before_the_clip():
    # At 1.06x with a clip of 0.02: 0.058 - log(1.05) is 0.0095, less than half a stake. Clipped
    # first it would be 0.02 - log(1.05) = -0.029: a loss.
    policy = Policy(bar=1.05)
    rounds = repeated(40, {"tune-0": 1.06})
    assert isinstance(decide(make_evidence(rounds, noise=0.004, policy=policy)), Accepted)


def test_a_loss_on_a_quiet_device_does_not_pass_the_floor():
    # Clipped first, a 10 % loss would read max(-0.105, -0.0125) + 0.0202 = +0.008: a pass.
    workloads = (tune(0, weight=100.0), tune(1, protected=True))
    rounds = repeated(300, {"tune-0": 1.2, "tune-1": 0.9})
    evidence = make_evidence(rounds, workloads, noise=0.0025)
    assert check_of(decide(evidence)) == "slower-on-protected"


def test_undecided_at_the_last_round_is_inconclusive():
    policy = Policy(max_rounds=5)
    verdict = decide(make_evidence(repeated(5, FAST), policy=policy))
    assert isinstance(verdict, Inconclusive)
    assert "undecided after 5 rounds (the most" in verdict.reason
    # Rounds beyond the policy's number do not count either.
    assert decide(make_evidence(repeated(30, FAST), policy=policy)) == verdict


def test_no_rounds_are_undecided():
    for phase in ("screen", "confirm", "by-hand", "reconfirm"):
        assert isinstance(decide(make_evidence([], phase=phase)), Inconclusive)


def test_what_was_once_shown_stays_shown():
    # Eight fast rounds settle x; the holdout appears only later, when x loses again.
    workloads = (tune(), holdout())
    rounds = repeated(8, FAST) + repeated(10, {"tune-0": 0.97, "holdout-0": 1.3})
    assert isinstance(decide(make_evidence(rounds, workloads)), Accepted)


def test_the_first_settled_round_decides():
    rounds = repeated(12, {"tune-0": 0.8}) + repeated(100, {"tune-0": 2.0})
    assert check_of(decide(make_evidence(rounds))) == "not-faster"
    rounds = repeated(12, {"tune-0": 2.0}) + repeated(100, {"tune-0": 0.8})
    assert isinstance(decide(make_evidence(rounds)), Accepted)


# --- weights, protected workloads and holdouts -------------------------------------------------


def test_weights_are_shares():
    light = (tune(0, weight=1.0), tune(1, weight=9.0))
    heavy = (tune(0, weight=9.0), tune(1, weight=1.0))
    rounds = repeated(60, {"tune-0": 1.5, "tune-1": 0.97})
    assert isinstance(decide(make_evidence(rounds, heavy)), Accepted)
    assert isinstance(decide(make_evidence(rounds, light)), Accepted)  # 0.1*0.405 - 0.9*0.030
    rounds = repeated(60, {"tune-0": 1.5, "tune-1": 0.95})
    assert check_of(decide(make_evidence(rounds, light))) == "not-faster"


def test_only_protected_tune_workloads_have_a_floor():
    rounds = repeated(60, {"tune-0": 2.0, "tune-1": 0.9})
    free = (tune(0), tune(1))
    assert isinstance(decide(make_evidence(rounds, free)), Accepted)
    guarded = (tune(0), tune(1, protected=True))
    verdict = decide(make_evidence(rounds, guarded))
    assert check_of(verdict) == "slower-on-protected"
    assert isinstance(verdict, Rejected)
    assert "0.900x on tune-1" in verdict.reason


def test_of_two_slow_workloads_the_first_by_id_is_named():
    rounds = repeated(60, {"tune-0": 2.0, "tune-1": 0.5, "tune-2": 0.5})
    for order in ((0, 1, 2), (0, 2, 1)):
        workloads = tuple(tune(number, protected=number > 0) for number in order)
        verdict = decide(make_evidence(rounds, workloads, policy=Policy(bar=0.5)))
        assert isinstance(verdict, Rejected)
        assert "tune-1" in verdict.reason


def test_a_slower_holdout_rejects():
    workloads = (tune(), holdout())
    rounds = repeated(60, {"tune-0": 2.0, "holdout-0": 0.9})
    assert check_of(decide(make_evidence(rounds, workloads))) == "slower-on-holdout"


def test_every_floor_must_be_passed():
    workloads = (tune(protected=True), holdout(0), holdout(1))
    rounds = repeated(60, {"tune-0": 2.0, "holdout-0": 1.1, "holdout-1": 0.98})
    assert isinstance(decide(make_evidence(rounds, workloads)), Inconclusive)
    rounds = repeated(60, {"tune-0": 2.0, "holdout-0": 1.1, "holdout-1": 1.1})
    assert isinstance(decide(make_evidence(rounds, workloads)), Accepted)


def test_a_holdout_that_never_ran_is_not_passed():
    assert isinstance(decide(make_evidence(repeated(60, FAST), (tune(), holdout()))), Inconclusive)


def test_a_holdout_may_miss_rounds():
    rounds = [
        make_round({"tune-0": 1.5, "holdout-0": 1.5} if number % 3 == 0 else {"tune-0": 1.5})
        for number in range(30)
    ]
    assert isinstance(decide(make_evidence(rounds, (tune(), holdout()))), Accepted)


def test_the_floor_has_its_own_error():
    workloads = (tune(protected=True),)
    rounds = repeated(9, FAST)
    policy = Policy(floor_alpha=1e-9)
    assert isinstance(decide(make_evidence(rounds, workloads)), Accepted)
    assert isinstance(decide(make_evidence(rounds, workloads, policy=policy)), Inconclusive)


def test_the_floor_is_the_policys():
    workloads = (tune(0), tune(1, protected=True))
    rounds = repeated(60, {"tune-0": 2.0, "tune-1": 0.9})
    policy = Policy(floor=0.8)
    assert isinstance(decide(make_evidence(rounds, workloads, policy=policy)), Accepted)


def test_an_unmeasured_holdout_gets_the_noise_of_the_noisiest_tune_workload():
    workloads = (tune(), holdout())
    rounds = repeated(8, {"tune-0": 1.5, "holdout-0": 1.1})
    quiet = make_evidence(rounds, workloads, noise=0.001)  # clip 5 * 0.02: saturated
    assert isinstance(decide(quiet), Accepted)
    noisy = quiet.model_copy(update={"noise": {"x": 0.001, "tune-0": 0.2}})
    assert isinstance(decide(noisy), Inconclusive)
    own = quiet.model_copy(update={"noise": {"x": 0.001, "tune-0": 0.2, "holdout-0": 0.001}})
    assert isinstance(decide(own), Accepted)


def test_an_unmeasured_holdout_is_not_taken_for_quiet():
    # At 0.02 a ratio of 1.0 stakes a fifth of the clip: 20 rounds cannot pass it.
    workloads = (tune(), holdout())
    rounds = repeated(20, {"tune-0": 1.5, "holdout-0": 1.0})
    assert isinstance(decide(make_evidence(rounds, workloads, noise=0.001)), Inconclusive)


# --- findings and errors ----------------------------------------------------------------------


def test_the_first_finding_decides_in_every_phase():
    findings = (
        Finding(check="crashed", reason="signal 11"),
        Finding(check="wrong-values", reason="0.1"),
    )
    for phase in ("calibrate", "screen", "confirm", "reconfirm", "by-hand"):
        verdict = decide(make_evidence(repeated(30, FAST), phase=phase, findings=findings))
        assert verdict == Rejected(check="crashed", reason="signal 11")


@pytest.mark.parametrize(("worst", "check"), [(1.001, "wrong-values"), (math.nan, "wrong-values")])
def test_an_error_beyond_what_is_allowed_rejects_without_a_finding(worst: float, check: str):
    error = NumericError(workload="tune-0", max_error=1e-3, allowed_error=1e-4, worst_ratio=worst)
    assert check_of(decide(make_evidence(repeated(30, FAST), errors=(error,)))) == check
    fine = error.model_copy(update={"worst_ratio": 1.0})
    assert isinstance(decide(make_evidence(repeated(30, FAST), errors=(fine,))), Accepted)


# --- the other phases -------------------------------------------------------------------------


def test_a_screen_never_accepts():
    verdict = decide(make_evidence(repeated(100, {"tune-0": 1.31}), phase="screen"))
    assert verdict == Inconclusive(reason="screened at 1.31x; confirmation decides")


def test_a_screen_compares_the_mean_with_the_bar():
    def screen(*ratios: float) -> str:
        rounds = [make_round({"tune-0": ratio}) for ratio in ratios]
        return type(decide(make_evidence(rounds, phase="screen"))).__name__

    assert screen(1.009) == "Rejected"
    assert screen(1.011) == "Inconclusive"
    assert screen(0.9, 1.2) == "Inconclusive"
    assert screen(0.8, 1.2) == "Rejected"
    # Not clipped: one large win carries two small losses.
    assert screen(0.95, 0.95, 3.0) == "Inconclusive"


def test_a_calibration_decides_nothing():
    for ratio in (0.5, 2.0):
        rounds = repeated(60, {"tune-0": ratio})
        assert isinstance(decide(make_evidence(rounds, phase="calibrate")), Inconclusive)


def test_a_reconfirmation_rejects_only_below_the_bar():
    def verdict_of(*ratios: float):
        rounds = [make_round({"tune-0": ratio}) for ratio in ratios]
        return decide(make_evidence(rounds, phase="reconfirm"))

    assert check_of(verdict_of(1.0, 1.0001, 1.0002)) == "not-reproduced"
    # The point is below the bar, the upper bound is not: the acceptance stands.
    unsure = verdict_of(0.95, 1.0, 1.05)
    assert isinstance(unsure, Accepted)
    assert unsure.speedup.point < 1.01 < unsure.speedup.upper


def test_a_reconfirmation_publishes_the_speedup_over_generation_0():
    verdict = decide(make_evidence(repeated(5, FAST, origin=2.0), phase="reconfirm"))
    assert isinstance(verdict, Accepted)
    assert verdict.speedup.point == pytest.approx(3.0)
    without = decide(make_evidence(repeated(5, FAST), phase="reconfirm"))
    assert isinstance(without, Accepted)
    assert without.speedup.point == pytest.approx(1.5)
    # It is the baseline that must be beaten, however far generation 0 is behind.
    slower = decide(make_evidence(repeated(5, {"tune-0": 0.9}, origin=2.0), phase="reconfirm"))
    assert check_of(slower) == "not-reproduced"


# --- intervals and noise ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "quantile"),  # from printed tables, to their last digit
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (19, 2.093), (30, 2.042)],
)
def test_student_t(freedom: int, quantile: float):
    assert student_t_quantile(freedom) == pytest.approx(quantile, abs=5.1e-4)


def test_student_t_tends_to_the_normal():
    assert student_t_quantile(399) == pytest.approx(1.9659, abs=1e-4)
    with pytest.raises(ValueError, match="got 0"):
        student_t_quantile(0)


def test_the_published_interval_is_students():
    # Mean 0.2, standard deviation 0.1, n = 4: half width 3.1824 * 0.1 / 2.
    deviation = 0.1 * math.sqrt(3 / 4)
    logs = [0.2 - deviation, 0.2 + deviation, 0.2 - deviation, 0.2 + deviation]
    speedup = published_interval(logs)
    assert math.log(speedup.point) == pytest.approx(0.2)
    assert math.log(speedup.lower) == pytest.approx(0.2 - 0.15912, abs=1e-5)
    assert math.log(speedup.upper) == pytest.approx(0.2 + 0.15912, abs=1e-5)
    with pytest.raises(ValueError, match="at least 2"):
        published_interval([0.1])


def test_noise_is_robust_and_has_floors():
    workloads = (tune(0, weight=3.0), tune(1, weight=1.0), holdout())
    logs = [0.01, 0.02, 0.03, 0.04, 5.0]  # the last is an outlier
    rounds = [make_round({"tune-0": math.exp(value), "tune-1": 1.0}) for value in logs]
    noise = noise_of(rounds, workloads)
    # Deviations from the median 0.03: 0.02 0.01 0 0.01 4.97; their median is 0.01.
    assert noise["tune-0"] == pytest.approx(1.4826 * 0.01, abs=1e-6)
    assert noise["x"] == pytest.approx(1.4826 * 0.01 * 0.75, abs=1e-6)
    assert noise["tune-1"] == decision_v1.WORKLOAD_NOISE_FLOOR == 0.006
    assert "holdout-0" not in noise
    still = noise_of(repeated(3, {"tune-0": 1.0, "tune-1": 1.0, "holdout-0": 1.0}), workloads)
    assert still == {"x": 0.004, "tune-0": 0.006, "tune-1": 0.006, "holdout-0": 0.006}
    with pytest.raises(ValueError, match="got none"):
        noise_of([], workloads)
