"""Knobs and families: what is legal, what is the same, what a machine may vary."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from forge.errors import UsageError
from forge.students.sweep.knobs import Family, KnobSpec, lanes_of, load_family
from forge.students.sweep.render import find_families, render, render_title

PASSES = KnobSpec(name="passes", theme="passes", values=(3, 2), meaning="m")
SCRATCH = KnobSpec(
    name="scratch", theme="blocking", values=(True, False), meaning="m", applies="passes == 3"
)
STREAMING = KnobSpec(
    name="streaming",
    theme="streaming-stores",
    values=(True, False),
    meaning="m",
    applies="lanes >= 8",
    otherwise=False,
)
LANES = KnobSpec(name="lanes", theme="vector-width", values=(16, 8, 4), meaning="m")
THREADS = KnobSpec(name="threads", theme="threads", values=("serial", "rows"), meaning="m")
FAMILY = Family(op="toy", title="t", knobs=(PASSES, SCRATCH, STREAMING, LANES, THREADS))
EVERYTHING = list(FAMILY.configurations())


def test_what_does_not_apply_is_held_still():
    chosen = FAMILY.canonical(FAMILY.defaults | {"passes": 2, "scratch": False, "lanes": 4})
    assert chosen["scratch"] is True
    assert chosen["streaming"] is False


def test_what_applies_is_kept():
    wanted = FAMILY.defaults | {"scratch": False, "streaming": False}
    assert FAMILY.canonical(wanted) == wanted


@given(st.fixed_dictionaries({knob.name: st.sampled_from(knob.values) for knob in FAMILY.knobs}))
def test_a_canonical_form_is_its_own(knobs):
    canonical = FAMILY.canonical(knobs)
    assert FAMILY.canonical(canonical) == canonical
    assert list(canonical) == [knob.name for knob in FAMILY.knobs]
    assert canonical in EVERYTHING


def test_configurations_are_distinct_and_begin_with_the_defaults():
    found = EVERYTHING
    assert found[0] == FAMILY.defaults
    assert all(one != other for one, other in itertools.combinations(found, 2))
    # Passes and scratch mean three things, lanes and streaming five, threads two.
    assert len(found) == 3 * 5 * 2


@pytest.mark.parametrize(
    ("target", "lanes"),
    [
        ("sapphirerapids-avx512-1t", (16, 8)),
        ("haswell-avx2-4t", (8,)),
        ("neoverse-n1-neon-3t", (4,)),
    ],
)
def test_lanes_are_those_of_the_target(target, lanes):
    assert lanes_of(target) == lanes
    on = {knob.name: knob for knob in FAMILY.on(target, threads=1).knobs}
    assert on["lanes"].values == lanes


def test_threads_vary_only_where_there_are_some():
    one, two = (
        {knob.name: knob.values for knob in FAMILY.on("x-avx2-1t", threads).knobs}
        for threads in (1, 2)
    )
    assert one["threads"] == ("serial",)
    assert two["threads"] == ("rows", "serial")
    assert one["passes"] == two["passes"] == PASSES.values


def test_values_differ_and_names_differ():
    with pytest.raises(ValidationError, match="value twice"):
        KnobSpec(name="a", theme="passes", values=(1, 1), meaning="m")
    with pytest.raises(ValidationError, match="no value 7"):
        KnobSpec(name="a", theme="passes", values=(1, 2), meaning="m", otherwise=7)
    with pytest.raises(ValidationError, match="knob twice"):
        Family(op="toy", title="t", knobs=(PASSES, PASSES))


def test_a_malformed_family_names_its_file(tmp_path):
    path = tmp_path / "toy.toml"
    for text in ("op = ", 'op = "toy"\ntitle = "t"\nknobs = [{ name = "a", theme = "luck" }]'):
        path.write_text(text)
        with pytest.raises(UsageError, match=r"toy\.toml is not a family"):
            load_family(path)


def test_rendering_refuses_what_the_family_does_not_name():
    family = find_families()["softmax"]
    with pytest.raises(UsageError, match="takes the knobs"):
        render(family, {"passes": 3})
    with pytest.raises(UsageError, match=r"passes .* is one of \[3, 2\]; got 5"):
        render(family, family.defaults | {"passes": 5})
    # True equals 1, and is still no number of accumulators.
    with pytest.raises(UsageError, match="accumulators"):
        render_title(family, family.defaults | {"accumulators": True})


def test_every_family_renders_each_of_its_values_and_the_same_text_each_time():
    for family in find_families().values():
        for knob in family.knobs:
            for value in knob.values:
                knobs = family.canonical(family.defaults | {knob.name: value})
                assert render(family, knobs) == render(family, dict(reversed(knobs.items())))
