"""Holdouts stay in their rules, follow from the secret alone, and are ugly."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.tasks.holdouts import draw_holdouts
from forge.tasks.load import parse_task
from forge.tasks.model import Task

TEMPLATE = """\
name = "thing"
op = "thing"
description = "Anything."

[axes]
rows = {{ type = "var" }}
half = {{ type = "var" }}
pitch = {{ type = "var" }}
cols = {{ type = "expr", expression = "2 * half" }}

[inputs.x]
shape = ["rows", "cols"]
dtype = "float32"
row_stride = "pitch"

[outputs.out]
shape = ["rows", "cols"]
dtype = "float32"

[[workloads]]
axes = {{ rows = 4, half = 8, pitch = 16 }}

[holdouts]
ranges = {{ rows = [{rows[0]}, {rows[1]}], half = [{half[0]}, {half[1]}], pitch = [0, 40] }}
max_elements = {most}
offsets = [0, 1, 3]
distributions = ["normal", "ties", "huge", "tiny"]

[numeric]
c = 1
k = "1"

[work]
bytes = "8 * rows * cols"
operations = "rows * cols"
"""
SECRETS = st.binary(min_size=32, max_size=32)


def thing(rows: tuple[int, int], half: tuple[int, int], most: int) -> Task:
    return parse_task(TEMPLATE.format(rows=rows, half=half, most=most), Path("task.toml"))


def spans(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    pair = st.tuples(st.integers(low, high), st.integers(low, high))
    return pair.map(lambda ends: (min(ends), max(ends)))


@settings(max_examples=60, deadline=None)
@given(SECRETS, spans(1, 900), spans(1, 2000), st.floats(0, 1), st.integers(1, 12))
def test_every_holdout_obeys_the_rules(
    secret: bytes, rows: tuple[int, int], half: tuple[int, int], room: float, count: int
):
    smallest, largest = rows[0] * half[0] * 2, rows[1] * (half[1] * 2 + 40)
    most = int(smallest + room * (largest - smallest))
    task = thing(rows, half, most)
    drawn = draw_holdouts(task, secret, count)
    assert len(drawn) == count
    for workload in drawn:
        axes = task.resolve(workload.axes)
        assert rows[0] <= axes["rows"] <= rows[1]
        assert half[0] <= axes["half"] <= half[1]
        assert 0 <= axes["pitch"] - axes["cols"] <= 40
        assert task.elements(axes) <= most
        assert workload.split == "holdout"
        assert workload.distribution in task.holdouts.distributions
        assert workload.offset in task.holdouts.offsets


TASK = thing((1, 700), (1, 2500), 1_000_000)


@settings(deadline=None)
@given(SECRETS, SECRETS)
def test_the_secret_and_nothing_else_decides(one: bytes, other: bytes):
    assert draw_holdouts(TASK, one, 6) == draw_holdouts(TASK, one, 6)
    assert draw_holdouts(TASK, one, 3) == draw_holdouts(TASK, one, 6)[:3]
    if one != other:
        assert draw_holdouts(TASK, one, 6) != draw_holdouts(TASK, other, 6)


@settings(deadline=None)
@given(SECRETS)
def test_every_distribution_and_offset_comes_before_any_comes_twice(secret: bytes):
    drawn = draw_holdouts(TASK, secret, 8)
    assert {workload.distribution for workload in drawn[:4]} == set(TASK.holdouts.distributions)
    assert {workload.distribution for workload in drawn[4:]} == set(TASK.holdouts.distributions)
    assert {workload.offset for workload in drawn[:3]} == {0, 1, 3}


@settings(deadline=None)
@given(SECRETS)
def test_the_first_is_odd_and_the_second_lies_at_an_edge(secret: bytes):
    first, second = draw_holdouts(TASK, secret, 2)
    assert first.axes["rows"] % 2 == 1
    assert first.axes["half"] % 2 == 1
    ends = {("rows", 1), ("rows", 700), ("half", 1), ("half", 2500)}
    assert ends & set(second.axes.items())


def test_one_row_and_one_column_do_come():
    seen = [
        workload.axes
        for secret in range(40)
        for workload in draw_holdouts(TASK, secret.to_bytes(32, "big"), 6)
    ]
    assert any(axes["rows"] == 1 for axes in seen)
    assert any(axes["half"] == 1 for axes in seen)
    # Small ones are as likely as large ones, but large ones do come.
    assert any(axes["rows"] * axes["half"] > 200_000 for axes in seen)


@pytest.mark.parametrize("count", [0, 1, 25])
def test_any_number_can_be_had(count: int):
    assert len(draw_holdouts(TASK, b"\1" * 32, count)) == count
