"""The rules teacher: figures in, an ordered curriculum out."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge.tasks.load import parse_task
from forge.teacher.base import THEMES, Curriculum, Roof, Study, WorkloadTime
from forge.teacher.rules import (
    Figures,
    RuleTeacher,
    curriculum_for,
    figures_of,
    name_bottleneck,
)
from forge.types import KernelSource

TASK = parse_task(
    """
name = "double"
op = "double"
description = "Twice the input."
[axes]
rows = { type = "var" }
cols = { type = "var" }
[inputs]
x = { shape = ["rows", "cols"], dtype = "float32" }
[outputs]
out = { shape = ["rows", "cols"], dtype = "float32" }
[[workloads]]
axes = { rows = 1000, cols = 1000 }
[[workloads]]
axes = { rows = 2000, cols = 1000 }
weight = 2.0
[[workloads]]
axes = { rows = 4000, cols = 1000 }
[holdouts]
distributions = ["normal"]
[holdouts.ranges]
rows = [1, 100]
cols = [1, 100]
[numeric]
c = 4.0
k = "1"
[work]
bytes = "8 * rows * cols"
operations = "rows * cols"
""",
    Path("double/task.toml"),
)


def figures(
    baseline_ns: float, memory_ns: float, compute_ns: float = 0.0, call_ns: float = 500.0
) -> Figures:
    return Figures(
        baseline_ns=baseline_ns,
        memory_ns=memory_ns,
        compute_ns=compute_ns,
        call_ns=call_ns,
        least_bytes=memory_ns * 10,
        least_operations=compute_ns * 50,
    )


# A large softmax near its memory roof, a polynomial far from it, a tiny call, a plain C++ kernel
# that moves little and takes long.
STREAM = figures(2_000_000, memory_ns=1_500_000, compute_ns=300_000)
ARITHMETIC = figures(2_000_000, memory_ns=200_000, compute_ns=900_000)
TINY = figures(4_000, memory_ns=300, compute_ns=100, call_ns=3_000)
IN_CORE = figures(2_000_000, memory_ns=300_000, compute_ns=100_000)

positive = st.floats(1.0, 1e12)
any_figures = st.builds(figures, positive, positive, st.floats(0.0, 1e12), st.floats(0.0, 1e6))


def order(subject: Figures, *, threads: int = 4) -> tuple[str, ...]:
    return curriculum_for(subject, is_reference=False, threads=threads).themes


@pytest.mark.parametrize(
    ("subject", "bottleneck"),
    [(STREAM, "dram"), (ARITHMETIC, "compute"), (TINY, "latency"), (IN_CORE, "l1")],
)
def test_the_largest_share_names_the_bottleneck(subject: Figures, bottleneck: str):
    assert name_bottleneck(subject, is_reference=False) == bottleneck


def test_the_time_of_a_reference_above_its_roof_is_passes_over_memory():
    assert name_bottleneck(IN_CORE, is_reference=True) == "dram"
    assert curriculum_for(IN_CORE, is_reference=True, threads=1).themes[0] == "passes"


def test_small_work_is_latency_only_where_calls_explain_the_time():
    slow = figures(50_000, memory_ns=300, call_ns=3_000)
    # A reference makes a call for each op; a kernel is one call, and the rest is instructions.
    assert name_bottleneck(slow, is_reference=True) == "latency"
    assert name_bottleneck(slow, is_reference=False) == "l1"
    assert name_bottleneck(figures(6_000, 300, call_ns=3_000), is_reference=False) == "latency"


def test_every_bottleneck_orders_the_themes_in_its_own_way():
    orders = {order(subject) for subject in (STREAM, ARITHMETIC, TINY, IN_CORE)}
    assert len(orders) == 4
    assert order(STREAM)[:2] == ("passes", "streaming-stores")
    assert order(ARITHMETIC)[:2] == ("vector-width", "polynomial-degree")
    assert order(TINY)[0] == "fast-path"
    assert order(IN_CORE)[0] == "blocking"


@given(any_figures, st.booleans(), st.integers(2, 64))
def test_every_theme_is_tried_sooner_or_later(subject: Figures, is_reference: bool, threads: int):
    curriculum = curriculum_for(subject, is_reference=is_reference, threads=threads)
    assert sorted(curriculum.themes) == sorted(THEMES)
    check_milestones(curriculum)


@given(any_figures, st.booleans())
def test_one_thread_has_no_team_to_arrange(subject: Figures, is_reference: bool):
    curriculum = curriculum_for(subject, is_reference=is_reference, threads=1)
    assert set(curriculum.themes) == set(THEMES) - {"threads"}
    check_milestones(curriculum)


def check_milestones(curriculum: Curriculum) -> None:
    """Every milestone is numbered from M0 on, and has something to try and to measure."""
    milestones = curriculum.milestones
    assert [milestone.id for milestone in milestones] == [f"M{n}" for n in range(len(milestones))]
    assert all(milestone.themes and milestone.metric for milestone in milestones)


def test_the_facts_are_the_numbers_of_the_figures():
    facts = curriculum_for(STREAM, is_reference=False, threads=1).facts
    assert facts["memory_roof_ns"] == 1_500_000
    assert facts["roof_share"] == 0.75
    assert facts["memory_passes"] == pytest.approx(4 / 3)


def test_a_milestone_asks_for_a_number_that_can_be_missed():
    curriculum = curriculum_for(STREAM, is_reference=False, threads=1)
    # 1,500,000 ns at the roof, asked for at 80 % of it.
    assert "1875000 ns" in curriculum.milestones[1].metric


def test_a_baseline_without_a_time_is_refused():
    with pytest.raises(ValueError, match=r"0\.0 ns"):
        figures(0.0, memory_ns=1.0)


def study_of(baseline: KernelSource, *times: WorkloadTime, flops_per_s: float = 50e9) -> Study:
    roof = Roof(bytes_per_s=10e9, flops_per_s=flops_per_s, call_ns=1_000, environment="0123")
    return Study(task=TASK, baseline=baseline, times=times, roof=roof, threads=1)


def timed(rows: int, baseline_ns: float) -> WorkloadTime:
    return WorkloadTime(axes={"rows": rows, "cols": 1000}, baseline_ns=baseline_ns)


KERNEL = KernelSource(files={"kernel.cpp": "// a kernel"})


def test_the_workload_that_counts_most_is_studied():
    studied = figures_of(study_of(KERNEL, timed(1000, 1e6), timed(2000, 2e6), timed(4000, 9e6)))
    assert studied.baseline_ns == 2e6
    # 2 million elements, 8 bytes and 1 operation each, at 10 GB/s and 50 GFLOP/s.
    assert studied.memory_ns == pytest.approx(1_600_000)
    assert studied.compute_ns == pytest.approx(40_000)


def test_among_equals_the_longest_is_studied():
    assert figures_of(study_of(KERNEL, timed(1000, 1e6), timed(4000, 9e6))).baseline_ns == 9e6


def test_a_study_without_times_is_refused():
    with pytest.raises(ValueError, match="'double' was not timed"):
        figures_of(study_of(KERNEL))


def test_two_machines_give_one_baseline_two_curricula():
    fast_core = RuleTeacher().study(study_of(KERNEL, timed(2000, 2e6)))
    slow_core = RuleTeacher().study(study_of(KERNEL, timed(2000, 2e6), flops_per_s=1e9))
    assert (fast_core.bottleneck, slow_core.bottleneck) == ("dram", "compute")
    assert fast_core.themes != slow_core.themes


def test_generation_zero_is_taught_to_pass_once():
    reference = KernelSource(files={"reference.py": "def run(x): ..."})
    assert RuleTeacher().study(study_of(reference, timed(2000, 2e7))).themes[0] == "passes"
    assert RuleTeacher().study(study_of(KERNEL, timed(2000, 2e7))).themes[0] == "blocking"
