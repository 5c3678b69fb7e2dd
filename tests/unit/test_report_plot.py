"""Plots of one line, tables, and what cannot be drawn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge.report.plot import (
    Scale,
    bar,
    gain_bar,
    gain_ruler,
    interval_plot,
    interval_text,
    scale_for,
)
from forge.report.table import columns, counted

ratios = st.floats(min_value=0.01, max_value=100.0)


def test_an_interval_is_drawn_to_scale():
    scale = Scale(low=0.5, high=2.0, width=21)
    assert interval_plot(1.0, 0.5, 2.0, scale) == "├─────────●─────────┤"
    assert interval_plot(math.sqrt(2), 1.1, 1.8, scale).index("●") == 15
    assert interval_plot(0.6, 0.55, 0.7, scale) == " ├─●─┤    ┊          "


def test_what_lies_outside_is_an_arrow():
    scale = Scale(low=0.9, high=1.1, width=11)
    assert interval_plot(1.0, 0.1, 9.0, scale) == "◂────●────▸"


@given(values=st.tuples(ratios, ratios, ratios).map(sorted))
def test_every_interval_keeps_its_order_and_width(values: list[float]):
    lower, point, upper = values
    scale = scale_for(values, width=25)
    line = interval_plot(point, lower, upper, scale)
    assert len(line) == 25
    assert line.count("●") == 1
    assert scale.column(lower) <= line.index("●") <= scale.column(upper)
    assert not {"◂", "▸"} & set(line)


def test_a_ruler_names_its_ends_and_one():
    assert Scale(low=0.5, high=2.0, width=21).ruler() == "0.5x      1x       2x"


def test_a_ruler_leaves_out_an_end_too_near_to_one():
    assert Scale(low=0.98, high=2.0, width=21).ruler() == " 1x                2x"
    assert Scale(low=0.5, high=1.02, width=21).ruler() == "0.5x               1x"


def test_a_bar_is_filled_to_its_share():
    assert bar(0.0) == "░░░░░░░░░░"
    assert bar(0.5) == "█████░░░░░"
    assert bar(0.525) == "█████▎░░░░"
    assert bar(1.0) == bar(7.0) == "██████████"


@given(share=st.floats(min_value=-1.0, max_value=3.0), width=st.integers(1, 40))
def test_a_bar_is_always_as_wide(share: float, width: int):
    assert len(bar(share, width)) == width


def test_a_gain_has_one_scale_whatever_it_is_drawn_beside():
    assert gain_ruler() == "1x    2x    4x    8x    16x"
    assert gain_bar(1.0) == gain_bar(0.9) == "░" * 24
    assert gain_bar(2.0) == "█" * 6 + "░" * 18
    assert gain_bar(8.0) == "█" * 18 + "░" * 6
    assert gain_bar(16.0) == "█" * 24
    assert gain_bar(17.0) == "█" * 24 + "▸"


def test_an_interval_in_words():
    assert interval_text(1.305, 1.2, 1.4) == "1.30x [1.20, 1.40]"


def test_numbers_and_nouns_agree():
    assert (counted(1, "round"), counted(0, "round")) == ("1 round", "0 rounds")


def test_columns_are_aligned():
    assert columns([["a", "1"], ["bbb", "22", "x"], ["c"]], right="lr") == [
        "a     1",
        "bbb  22  x",
        "c",
    ]
    assert columns([]) == []


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_one_is_always_on_the_scale(ratio: float):
    scale = scale_for([ratio])
    assert scale.low < 1.0 < scale.high
