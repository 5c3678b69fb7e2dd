"""A promotion survives being written down and read again, to the byte."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge.promotion import Promotion, WorkloadLine
from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup

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
lines = st.builds(WorkloadLine, axes=texts, ratio=ratios, lower=ratios, upper=ratios)
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
    chain_head=texts,
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
