"""The table of checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from forge.judge.checks import CHECKS, Check, Where

JUDGE = Path(__file__).parents[2] / "forge" / "judge"


@pytest.mark.parametrize("check", CHECKS.values(), ids=str)
def test_a_check_can_be_read(check: Check):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", check.id)
    assert re.fullmatch(r"[A-Z].*\.", check.sentence)
    assert "\n" not in check.sentence
    assert len(check.sentence) <= 90
    assert check.where in get_args(Where)


def test_ids_and_sentences_are_unique():
    rows = re.findall(r'id="([^"]*)"', (JUDGE / "checks.py").read_text())
    assert len(rows) == len(set(rows)) == len(CHECKS)
    assert len({check.sentence for check in CHECKS.values()}) == len(CHECKS)


def test_the_judge_names_no_check_that_the_table_lacks():
    named = {
        check
        for path in JUDGE.glob("*.py")
        for check in re.findall(r'check="([^"]*)"', path.read_text())
    }
    assert {"not-faster", "not-reproduced"} <= named <= CHECKS.keys()
