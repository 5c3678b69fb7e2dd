"""The sweep student: in what order it proposes, and that it never repeats itself."""

import math
from pathlib import Path

import pytest

from forge.students.base import Brief, Trial
from forge.students.sweep.render import find_families, render
from forge.students.sweep.student import SweepStudent
from forge.tasks.load import LoadedTask, parse_task
from forge.teacher.base import Curriculum, Milestone
from forge.types import KernelSource

TEXT = """
name = "rows"
op = "OP"
description = "d"
[axes]
rows = { type = "var" }
cols = { type = "var" }
[inputs]
x = { shape = ["rows", "cols"], dtype = "float32" }
[outputs]
out = { shape = ["rows", "cols"], dtype = "float32" }
[[workloads]]
axes = { rows = 8, cols = 8 }
[holdouts]
ranges = { rows = [1, 9], cols = [1, 9] }
max_elements = 100
distributions = ["normal"]
[numeric]
c = 1
k = "cols"
[work]
bytes = "8 * rows * cols"
operations = "rows * cols"
"""
REFERENCE = KernelSource(files={"reference.py": "def run(x): ..."})
MEMORY = ("streaming-stores", "blocking")
ARITHMETIC = ("polynomial-degree", "unroll")


def make_brief(op="softmax", themes=MEMORY, trials=(), **changes):
    path = Path("task.toml")
    task = LoadedTask(
        task=parse_task(TEXT.replace("OP", op), path),
        folder=path.parent,
        reference_source="",
        digest="",
    )
    milestone = Milestone(id="M0", title="t", metric="m", themes=themes)
    given = {
        "task": task,
        "target": "sapphirerapids-avx512-1t",
        "threads": 1,
        "baseline": REFERENCE,
        "curriculum": Curriculum(bottleneck="dram", facts={}, milestones=(milestone,)),
        "trials": trials,
        "seed": 7,
    }
    return Brief(**(given | changes))


def as_trials(proposals, log_speedup=lambda knobs: None):
    return tuple(
        Trial(family=made.family, knobs=made.knobs, log_speedup=log_speedup(made.knobs))
        for made in proposals
    )


def texts(proposals):
    return [made.source.files["kernel.cpp"] for made in proposals]


def test_first_come_the_defaults_and_then_one_knob_at_a_time():
    family = find_families()["softmax"].on("x-avx512-1t", 1)
    singles = 1 + sum(len(knob.values) - 1 for knob in family.knobs)
    proposals = SweepStudent().propose(make_brief(), singles)
    assert proposals[0].knobs == family.defaults
    for made in proposals[1:]:
        assert sum(made.knobs[name] != value for name, value in family.defaults.items()) == 1


@pytest.mark.parametrize(
    ("themes", "first"),
    [(MEMORY, ["streaming", "prefetch"]), (ARITHMETIC, ["exp_degree", "accumulators"])],
)
def test_the_curriculum_orders_the_knobs(themes, first):
    proposals = SweepStudent().propose(make_brief(themes=themes), 3)
    defaults = proposals[0].knobs
    changed = [
        next(name for name in defaults if made.knobs[name] != defaults[name])
        for made in proposals[1:]
    ]
    assert changed == first


def test_the_same_brief_gives_the_same_proposals_and_a_seed_others():
    def later(seed):
        trials = as_trials(SweepStudent().propose(make_brief(), 12), lambda _: 0.1)
        return texts(SweepStudent().propose(make_brief(trials=trials, seed=seed), 6))

    assert later(1) == later(1)
    assert later(1) != later(2)


@pytest.mark.parametrize("op", ["l2_normalize", "cross_entropy"])
def test_calls_in_turn_try_everything_once_and_then_end(op):
    trials, seen = (), []
    while made := SweepStudent().propose(make_brief(op, trials=trials), 40):
        seen += texts(made)
        # A third fail, the others have a time.
        trials += as_trials(made, lambda knobs: None if len(str(knobs)) % 3 == 0 else 0.2)
    assert len(set(seen)) == len(seen)
    family = find_families()[op].on("x-avx512-1t", 1)
    assert set(seen) == {render(family, knobs) for knobs in family.configurations()}


def test_a_sealed_kernel_is_not_proposed_against_itself():
    first, second = SweepStudent().propose(make_brief(), 2)
    assert texts(SweepStudent().propose(make_brief(baseline=first.source), 1)) == texts([second])


def test_trials_of_another_family_or_of_knobs_that_are_gone_are_no_obstacle():
    trials = (
        Trial(family="rmsnorm", knobs={"passes": 3}, log_speedup=0.5),
        Trial(family="softmax", knobs={"magic": 3}, log_speedup=0.5),
        Trial(family="softmax", knobs={}, log_speedup=None),
    )
    known = make_brief(trials=trials)
    assert texts(SweepStudent().propose(known, 20))[:9] == texts(
        SweepStudent().propose(make_brief(), 9)
    )


def test_the_sampler_follows_the_trials():
    """What wins is asked for more often: here 8 accumulators, a fourth of the space."""

    def measured(knobs):
        return math.log(2.0 if knobs["accumulators"] == 8 else 1.0)

    trials = ()
    for _ in range(8):
        trials += as_trials(SweepStudent().propose(make_brief(trials=trials), 4), measured)
    asked = [trial.knobs["accumulators"] for trial in trials[10:]]
    # Drawn blindly, 22 of them hold 5.5 on average and 11 once in 100 runs.
    assert asked.count(8) >= 11


def test_an_op_without_a_family_has_no_proposals():
    assert SweepStudent().propose(make_brief("sorting"), 5) == ()


def test_titles_are_short_and_say_what_differs():
    proposals = SweepStudent().propose(make_brief(), 10)
    assert proposals[0].title == (
        "3 passes, 512-bit lanes, 4 accumulators, streaming stores, prefetch, narrow rows in lanes"
    )
    assert len({made.title for made in proposals}) == len(proposals)
