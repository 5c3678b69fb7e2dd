"""Every report against its golden file.

``python -m tests.unit.test_report_text`` writes the files anew; read the difference before it is
committed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from forge.judge.decisions import decide
from forge.judge.evidence import Finding, NumericError
from forge.report.judgement import judge_report, judge_text, unmeasured_report
from forge.report.shapes import HISTORY, NightReport, SlotRow
from forge.report.show import show_text
from forge.report.slots import history_text, night_text, rival_text, status_text
from forge.verdict import Rejected
from tests.unit.decision_evidence import holdout, make_evidence, make_round, repeated, tune
from tests.unit.test_report_shapes import GENERATION, NIGHT, SLOT

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).parents[1] / "golden" / "report"

SLOTS = [
    SLOT,
    SLOT
    | {"task": "add_rmsnorm", "speedup": 1.07, "lower": 1.01, "upper": 1.13}
    | {"rival_speedup": 0.76, "roof_share": 0.97},
    SLOT | {"task": "rope", "generation_before": 2, "rival": "eager", "rival_speedup": 1.8},
    SLOT
    | {"task": "cross_entropy", "generation_after": 0, "speedup": 1.0, "lower": 1.0}
    | {"upper": 1.0, "rival": None, "rival_speedup": None, "roof_share": None},
]
EVIDENCE = make_evidence(
    [
        make_round({"tune-0": 1.5 + wobble, "tune-1": 1.1 - wobble, "holdout-0": 1.3}, origin=1.4)
        for wobble in (0.04, -0.03, 0.0, 0.02)
    ],
    (tune(0, weight=3.0), tune(1, protected=True), holdout()),
    phase="reconfirm",
    errors=(
        NumericError(workload="tune-0", max_error=3e-7, allowed_error=8e-7, worst_ratio=0.4),
        NumericError(workload="tune-1", max_error=0.0, allowed_error=0.0, worst_ratio=0.0),
    ),
    holdouts="passed",
    missing_layers=("network",),
)
PHASE: dict[str, Any] = {
    "phase": "reconfirm",
    "evidence": "d16e57d16e57d16e57",
    "rounds": 4,
    "environment": "0123456789ab",
    "device_s": 2.34,
    "wall_s": 3.1,
    "verdict": "accepted",
    "check": "",
    "reason": "",
    "speedup": 1.93,
    "lower": 1.9,
    "upper": 1.96,
    "at": "2026-11-30T05:44:10Z",
}
CANDIDATE: dict[str, Any] = {
    "what": "candidate",
    "candidate": "3f9a21bc77e0",
    "task": "softmax",
    "target": "testcpu-avx2-1t",
    "digest": "c0ffee",
    "parent": "ba5e0ba5e0ba5e0ba5e0",
    "student": "sweep",
    "title": "two passes, 16 lanes, unrolled by 4",
    "night": "2026-11-30-1",
    "state": "sealed",
    "check": "",
    "reason": "",
    "phases": [
        PHASE
        | {"phase": "screen", "evidence": "5c4ee2", "rounds": 2, "verdict": "inconclusive"}
        | {"reason": "screened at 1.31x; confirmation decides"}
        | {"speedup": None, "lower": None, "upper": None},
        PHASE | {"phase": "confirm", "evidence": "c0f1", "speedup": 1.4},
        PHASE,
    ],
}
# A sealed kernel's own noise is measured under its name when the next night begins.
CALIBRATED = CANDIDATE | {
    "phases": [
        PHASE
        | {"phase": "calibrate", "evidence": "ca11", "verdict": None, "reason": None}
        | {"speedup": None, "lower": None, "upper": None}
    ]
}
NOISE = make_evidence(
    [make_round({"tune-0": 1 + wobble}) for wobble in (0.01, -0.01)], phase="calibrate"
)
TRACEBACK = """Traceback (most recent call last):
  File "/srv/everforge/forge/judge/arm.py", line 251, in warm_up
    launch(*arguments[i % n_warm])
  File "/scratch/kernel.py", line 3, in launch
    raise ValueError('no')
ValueError: no
"""
RAISED = CANDIDATE | {
    "state": "rejected",
    "check": "python-error",
    "reason": TRACEBACK,
    "phases": [
        PHASE
        | {"phase": "screen", "evidence": "ra15ed", "verdict": "rejected", "rounds": 0}
        | {"check": "python-error", "reason": TRACEBACK}
        | {"speedup": None, "lower": None, "upper": None}
    ],
}
RAISED_EVIDENCE = make_evidence(
    [],
    phase="screen",
    findings=(Finding(check="python-error", reason=TRACEBACK, workload="tune-0"),),
)
REFUSED = CANDIDATE | {
    "state": "rejected",
    "check": "wrong-values",
    "reason": "tune-0 errs by 5 times what is allowed",
    "phases": [
        PHASE
        | {"phase": "screen", "evidence": "bad", "verdict": "rejected"}
        | {"check": "wrong-values", "rounds": 1}
        | {"speedup": None, "lower": None, "upper": None}
    ],
}
BAD = make_evidence(
    [make_round({"tune-0": 1.5})],
    phase="screen",
    findings=(Finding(check="wrong-values", reason="5 times", workload="tune-0"),),
    errors=(NumericError(workload="tune-0", max_error=5e-6, allowed_error=1e-6, worst_ratio=5),),
)
SEALED: dict[str, Any] = {
    "what": "generation",
    "task": "softmax",
    "target": "testcpu-avx2-1t",
    "generation": 2,
    "commit": "feedfacefeedfacefeed",
    "parent": "ba5e0ba5e0ba5e0ba5e0",
    "night": "2026-11-30-1",
    "speedup": 1.93,
    "lower": 1.9,
    "upper": 1.96,
    "rival": "torch.compile",
    "rival_speedup": 0.8,
    "rivals": [
        {"name": "torch.compile", "speedup": 0.8, "lower": 0.75, "upper": 0.86},
        {"name": "eager", "speedup": 1.52, "lower": 1.4, "upper": 1.64},
    ],
    "alpha": 0.0083,
    "workloads": [
        {"axes": "rows=64 cols=4096", "ratio": 1.5, "lower": 1.4, "upper": 1.6},
        {"axes": "rows=1 cols=7", "ratio": 0.99, "lower": 0.9, "upper": 1.1},
    ],
    "candidate": REFUSED | {"phases": [], "state": "sealed", "check": "", "reason": ""},
}
LINEAGE = [
    GENERATION,
    GENERATION
    | {"generation": 1, "commit": "feedfacefeedface", "parent": "c0ffee"}
    | {"candidate": "3f9a", "speedup": 1.4, "lower": 1.36, "student": "sweep", "evidence": "d16e"},
    GENERATION
    | {"generation": 2, "commit": "deadbeefdeadbeef", "parent": "feedfacefeedface"}
    | {"candidate": "77e0", "speedup": 1.93, "lower": 1.9, "student": "sweep", "evidence": "57"},
    GENERATION
    | {"generation": 3, "commit": "beefdeadbeefdead", "parent": "deadbeefdeadbeef"}
    | {"candidate": "e077", "speedup": 17.5, "lower": 16.1, "student": "sweep", "evidence": "75"},
]


def rows(items: list[dict[str, Any]]) -> list[SlotRow]:
    return [SlotRow.model_validate(item) for item in items]


def shown_night() -> dict[str, Any]:
    counts = NIGHT["candidates"]
    row = {"what": "night", "night": "2026-11-30-1", "status": "done", "candidates": counts}
    times = {"started": NIGHT["started"], "ended": NIGHT["ended"]}
    return row | times | {"spent": NIGHT["spent"] | {"usd": 1.5, "tokens": 12000.0}}


REPORTS: dict[str, Callable[[], str]] = {
    "status": lambda: status_text(rows(SLOTS)),
    "status-two-targets": lambda: status_text(rows([SLOT, SLOT | {"target": "h200-sm90"}])),
    "status-empty": lambda: status_text([]),
    "history": lambda: history_text("softmax/testcpu-avx2-1t", HISTORY.validate_python(LINEAGE)),
    "history-empty": lambda: history_text("softmax/testcpu-avx2-1t", []),
    "night": lambda: night_text(NightReport.model_validate(NIGHT | {"slots": SLOTS})),
    "night-nothing": lambda: night_text(NightReport.model_validate(NIGHT | {"slots": SLOTS[3:]})),
    "judge-accepted": lambda: judge_text(judge_report(EVIDENCE, decide(EVIDENCE), "d16e57")),
    "judge-rejected": lambda: judge_text(judge_report(BAD, decide(BAD), "bad")),
    "judge-unbuilt": lambda: judge_text(
        unmeasured_report(Rejected(check="builds", reason="kernel.cpp:3:1: expected ';'"))
    ),
    "show-candidate": lambda: show_text(CANDIDATE, {PHASE["evidence"]: EVIDENCE}),
    "show-rejected": lambda: show_text(REFUSED, {"bad": BAD}),
    "show-without-evidence": lambda: show_text(CANDIDATE, {}),
    "judge-raised": lambda: judge_text(
        judge_report(RAISED_EVIDENCE, decide(RAISED_EVIDENCE), "ra15ed")
    ),
    "show-raised": lambda: show_text(RAISED, {"ra15ed": RAISED_EVIDENCE}),
    "show-calibrated": lambda: show_text(CALIBRATED, {"ca11": NOISE}),
    "show-generation": lambda: show_text(SEALED, {}),
    "show-generation-by-one-rival": lambda: show_text(SEALED | {"rivals": []}, {}),
    "show-generation-untimed": lambda: show_text(
        SEALED | {"rivals": [], "rival": None, "rival_speedup": None}, {}
    ),
    "show-generation-0": lambda: show_text(
        {**SEALED, "generation": 0, "speedup": 1.0, "lower": 1.0, "upper": 1.0}, {}
    ),
    "show-night": lambda: show_text(shown_night(), {}),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_reads_as_approved(name: str):
    assert REPORTS[name]() + "\n" == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_file_has_its_report():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(REPORTS)


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_fits_a_screen_and_ends_cleanly(name: str):
    lines = REPORTS[name]().split("\n")
    assert all(line == line.rstrip() for line in lines)
    assert max(map(len, lines)) <= 120


def test_a_loss_to_a_rival_is_called_a_loss():
    assert rival_text("torch.compile", 0.8) == "0.80x as fast as torch.compile: loses"
    assert rival_text("torch.compile", 1.25) == "1.25x as fast as torch.compile"
    assert rival_text("torch.compile", None) == rival_text(None, 2.0) == "not timed"


def test_the_rival_in_a_table_is_the_one_in_its_json():
    (row,) = rows([SLOT | {"rival_speedup": 1.25}])
    assert "1.25x as fast as torch.compile" in status_text([row])
    assert row.model_dump()["rival_speedup"] == 1.25


def test_a_screen_that_was_passed_never_reads_as_undecided():
    assert "screen: went on to confirm" in show_text(CANDIDATE, {})
    only_screened = CANDIDATE | {"phases": CANDIDATE["phases"][:1]}
    assert "screen: fast enough to confirm" in show_text(only_screened, {})


def test_the_reports_of_one_round_need_no_interval():
    evidence = make_evidence(repeated(1, {"tune-0": 1.5}), phase="by-hand")
    text = judge_text(judge_report(evidence, decide(evidence), "d16e57"))
    assert "1.50x" in text
    assert "●" not in text


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for title, render in REPORTS.items():
        (GOLDEN / f"{title}.txt").write_text(render() + "\n", encoding="utf-8")
