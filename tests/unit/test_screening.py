"""How far ahead a screen's mean is, in units of noise, and what is too close to confirm."""

import math

import pytest

from forge.judge.screening import is_near_tie, lead
from tests.unit.decision_evidence import make_evidence, make_round


def screened(*ratios, noise=0.02):
    rounds = [make_round({"tune-0": ratio}) for ratio in ratios]
    return make_evidence(rounds, phase="screen", noise=noise)


def test_a_lead_is_the_mean_over_the_bar_in_standard_errors():
    evidence = screened(1.05, 1.05, noise=0.02)
    expected = (math.log(1.05) - math.log(1.01)) / (0.02 / math.sqrt(2))
    assert lead(evidence) == pytest.approx(expected)


def test_rounds_that_scatter_more_than_the_calibration_count_with_their_own_spread():
    quiet, wild = screened(1.05, 1.05, 1.05, 1.05), screened(0.85, 1.25, 0.85, 1.29)
    assert lead(quiet) > 2
    assert 0 < lead(wild) < 1


def test_no_round_is_no_lead():
    assert lead(screened()) == -math.inf


@pytest.mark.parametrize(("ratio", "is_near"), [(1.30, False), (1.05, False), (1.015, True)])
def test_a_lead_within_one_standard_error_is_a_near_tie(ratio, is_near):
    assert is_near_tie(screened(ratio, ratio)) is is_near
