"""A promotion survives being written down and read again, to the byte."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.judge.decisions import summarise
from forge.promotion import (
    Promotion,
    RivalLine,
    WorkloadLine,
    machine_text,
    rival_lines,
    rival_to_show,
    workload_lines,
)
from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup
from tests.integration.night_making import ENVIRONMENT
from tests.unit.decision_evidence import BURST_NS, make_evidence, repeated

texts = st.text(max_size=20)
ratios = st.floats(min_value=1e-3, max_value=1e3)
speedups = st.builds(Speedup, point=ratios, lower=ratios, upper=ratios)
candidates = st.builds(
    Candidate,
    id=texts.map(CandidateId),
    slot=st.builds(Slot, task=texts, target=texts),
    source=st.builds(
        KernelSource,
        files=st.dictionaries(texts, texts, max_size=3).map(
            lambda files: {
                **{k: v for k, v in files.items() if "kernel" not in k},
                "kernel.cpp": "x",
            }
        ),
    ),
    parent=texts,
    student=texts,
    title=texts,
    origin=st.dictionaries(texts, texts, max_size=3),
)
lines = st.builds(
    WorkloadLine, axes=texts, ratio=ratios, lower=ratios, upper=ratios, time_ns=st.none() | ratios
)
rivals = st.builds(RivalLine, name=texts, ratio=ratios, lower=ratios, upper=ratios)
promotions = st.builds(
    Promotion,
    id=texts,
    candidate=candidates,
    generation=st.integers(min_value=1, max_value=10**6),
    parent=texts,
    speedup=speedups,
    over_parent=speedups,
    evidence=texts,
    confirm_evidence=texts,
    night=texts,
    environment=texts,
    alpha=ratios,
    model=texts,
    cost_usd=ratios,
    workloads=st.lists(lines, max_size=3).map(tuple),
    rival=texts,
    rival_speedup=st.none() | ratios,
    rivals=st.lists(rivals, max_size=2).map(tuple),
    chain_head=texts,
    machine=texts,
)


@settings(max_examples=30)
@given(promotions)
def test_what_was_written_is_read_again(promotion: Promotion) -> None:
    text = promotion.to_json()
    assert Promotion.from_json(text) == promotion
    assert Promotion.from_json(text).to_json() == text


@settings(max_examples=20)
@given(promotions, st.sampled_from(["id", "candidate", "speedup", "alpha", "evidence"]))
def test_a_missing_or_unknown_field_is_refused(promotion: Promotion, lost: str) -> None:
    body = json.loads(promotion.to_json())
    missing = {key: value for key, value in body.items() if key != lost}
    for wrong in (missing, {**body, "colour": "red"}):
        with pytest.raises(ValueError, match="not a promotion"):
            Promotion.from_json(json.dumps(wrong))


def over(point: float) -> Speedup:
    return Speedup(point=point, lower=point * 0.9, upper=point * 1.1)


@settings(max_examples=20)
@given(promotions)
def test_a_record_from_before_a_field_was_added_is_read_and_written_as_it_was(promotion) -> None:
    body = json.loads(promotion.to_json())
    for name in ("machine", "rivals"):
        body.pop(name, None)
    for line in body["workloads"]:
        line.pop("time_ns", None)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    read = Promotion.from_json(text)
    assert (read.machine, read.rivals) == ("", ())
    assert read.rival_speedup == promotion.rival_speedup
    assert read.to_json() == text


def test_eager_is_shown_only_where_nothing_else_was_timed_or_where_it_wins() -> None:
    assert rival_to_show({"eager": over(2.0), "torch.compile": over(3.0)}) == "torch.compile"
    assert rival_to_show({"eager": over(2.0), "torch.compile": over(0.9)}) == "torch.compile"
    assert rival_to_show({"eager": over(0.8), "torch.compile": over(0.9)}) == "eager"
    assert rival_to_show({"eager": over(2.0)}) == "eager"
    assert rival_to_show({}) == ""


def test_all_rivals_are_kept_the_fastest_first() -> None:
    kept = rival_lines({"eager": over(2.0), "torch.compile": over(0.9)})
    assert [line.name for line in kept] == ["torch.compile", "eager"]
    assert kept[1] == RivalLine(name="eager", ratio=2.0, lower=1.8, upper=2.2)


def test_a_workload_has_its_ratio_and_the_time_of_a_call() -> None:
    evidence = make_evidence(repeated(3, {"tune-0": 1.25}), phase="reconfirm")
    (line,) = workload_lines(evidence, summarise(evidence))
    assert line.axes == "rows=70 cols=4096"
    assert line.ratio == pytest.approx(1.25)
    assert line.time_ns == pytest.approx(BURST_NS / 1.25 / evidence.workloads[0].calls)


def test_a_machine_is_told_in_words() -> None:
    assert machine_text(ENVIRONMENT) == (
        "Fake 1, 1 thread, g++ 12 -O3, PyTorch 2, Python 3, Linux 6"
    )
