"""The JSON documents are as the issue has them, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from forge.judge.decisions import decide
from forge.judge.evidence import Finding, NumericError
from forge.report.judgement import judge_report, unmeasured_report
from forge.report.shapes import HISTORY, STATUS, JudgeReport, NightReport, SlotRow
from forge.verdict import Rejected
from tests.unit.decision_evidence import holdout, make_evidence, make_round, repeated, tune

SLOT: dict[str, Any] = {
    "task": "softmax",
    "target": "testcpu-avx2-1t",
    "generation_before": 0,
    "generation_after": 2,
    "speedup": 1.83,
    "lower": 1.8,
    "upper": 1.86,
    "rival": "torch.compile",
    "rival_speedup": 1.25,
    "roof_share": 0.7,
}
STATES = ("rejected", "inconclusive", "waiting", "superseded", "abandoned", "sealed", "faults")
NIGHT: dict[str, Any] = {
    "night": "2026-11-30-1",
    "started": "2026-11-30T05:41:00Z",
    "ended": "2026-11-30T05:49:02+00:00",
    "slots": [SLOT],
    "candidates": {"proposed": 7, **dict.fromkeys(STATES, 1)},
    "spent": {"wall_s": 482.0, "device_s": 401.5, "usd": 0.0, "tokens": 0.0},
}
GENERATION: dict[str, Any] = {
    "generation": 0,
    "commit": "c0ffee",
    "candidate": None,
    "parent": None,
    "speedup": 1.0,
    "lower": 1.0,
    "evidence": None,
    "student": None,
    "at": "2026-11-30T05:41:00Z",
}


def keys_of(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: keys_of(value) for name, value in document.items()}
    return [keys_of(item) for item in document] if isinstance(document, list) else None


def test_a_night_is_read_from_json_and_from_python_alike():
    report = NightReport.model_validate(NIGHT)
    assert report == NightReport.model_validate_json(json.dumps(NIGHT))
    out = report.model_dump(mode="json")
    assert keys_of(out) == keys_of(NIGHT)
    assert out["spent"]["tokens"] == 0
    assert isinstance(out["spent"]["tokens"], int)
    assert NightReport.model_validate(out) == report


@pytest.mark.parametrize(
    "change",
    [
        {"speedup": 0.0},
        {"lower": -1.0},
        {"upper": float("inf")},
        {"speedup": "1.83"},
        {"generation_after": -1},
        {"extra": 1},
    ],
)
def test_a_slot_row_that_is_not_one_is_refused(change: dict[str, Any]):
    with pytest.raises(ValidationError):
        SlotRow.model_validate(SLOT | change)
    missing = {name: value for name, value in SLOT.items() if name not in change} | {}
    if len(missing) < len(SLOT):
        with pytest.raises(ValidationError):
            SlotRow.model_validate(missing)


def test_a_slot_that_stands_still_comes_from_the_ledgers_row():
    row = {name: value for name, value in SLOT.items() if not name.startswith("generation")}
    standing = SlotRow.standing({**row, "generation": 2, "commit": "c0ffee"})
    assert (standing.generation_before, standing.generation_after) == (2, 2)
    assert keys_of(STATUS.dump_python((standing,), mode="json")[0]) == keys_of(SLOT)


def test_a_history_is_a_list():
    rows = HISTORY.validate_json(json.dumps([GENERATION]))
    assert keys_of(HISTORY.dump_python(rows, mode="json")[0]) == keys_of(GENERATION)
    naive = GENERATION | {"at": "2026-11-30T05:41:00"}
    with pytest.raises(ValidationError):
        HISTORY.validate_json(json.dumps([naive]))


# --- judgements -------------------------------------------------------------------------------

JUDGE_KEYS = {
    "verdict": None,
    "check": None,
    "reason": None,
    "speedup": {"point": None, "lower": None, "upper": None},
    "workloads": [
        dict.fromkeys(("axes", "ratio", "lower", "upper", "max_error", "allowed_error"))
        | {"axes": {"rows": None, "cols": None}}
    ],
    "holdouts": None,
    "evidence": None,
}


def report_of(evidence: Any) -> dict[str, Any]:
    report = judge_report(evidence, decide(evidence), "d16e57")
    out = report.model_dump(mode="json")
    assert JudgeReport.model_validate_json(json.dumps(out)) == report
    return out


def test_an_accepted_kernel():
    out = report_of(make_evidence(repeated(20, {"tune-0": 1.5}), phase="by-hand"))
    assert keys_of(out) == JUDGE_KEYS
    assert (out["verdict"], out["check"], out["reason"]) == ("accepted", "", "")
    assert out["speedup"]["point"] == pytest.approx(1.5)
    assert out["workloads"][0]["axes"] == {"rows": 70, "cols": 4096}
    assert out["evidence"] == "d16e57"


def test_an_undecided_kernel_has_no_check_and_a_reason():
    out = report_of(make_evidence(repeated(3, {"tune-0": 1.02}), phase="by-hand"))
    assert (out["verdict"], out["check"]) == ("inconclusive", "")
    assert out["reason"].startswith("undecided")
    assert out["speedup"]["point"] == pytest.approx(1.02)


def test_a_rejected_kernel_shows_its_errors():
    error = NumericError(workload="tune-0", max_error=0.5, allowed_error=0.1, worst_ratio=5.0)
    finding = Finding(check="wrong-values", reason="5 times", workload="tune-0")
    workloads = (tune(), holdout())
    evidence = make_evidence(
        [make_round({"tune-0": 1.5})], workloads, findings=(finding,), errors=(error,)
    )
    out = report_of(evidence)
    assert (out["verdict"], out["check"]) == ("rejected", "wrong-values")
    assert out["speedup"] is None
    first, second = out["workloads"]
    assert (first["max_error"], first["allowed_error"]) == (0.5, 0.1)
    assert second["ratio"] is None
    assert out["holdouts"] == "not-run"


def test_a_kernel_that_was_never_run_has_no_evidence():
    report = unmeasured_report(Rejected(check="builds", reason="expected ';'"))
    assert (report.check, report.reason, report.evidence) == ("builds", "expected ';'", "")
    assert report.workloads == ()
