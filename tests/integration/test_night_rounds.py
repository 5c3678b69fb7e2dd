"""Whole nights on real git and a real ledger; only the clock of the judge is a fake."""

import os
import subprocess
import sys
import time

import pytest

from baselines.store import BaselineStore
from flows import conduct
from flows.audit import audit
from flows.improve import improve
from flows.workspace import open_workspace
from forge.config import Workspace
from forge.errors import UsageError
from forge.lifecycle import CandidateState as S
from forge.types import Candidate, CandidateId
from tests.fakes import FakeJudge, FakeStudent, kernel
from tests.integration.night_making import (
    Told,
    clock,
    opened_night,
    plan_of,
    run_night,
    slot_of,
)

FAST, FASTER, SLOW = {"ns": 700}, {"ns": 500}, {"ns": 1300}


def states(workspace, slot):
    return {
        candidate.title: state
        for state in S
        for candidate in workspace.ledger.candidates(slot, state)
    }


def test_a_night_seals_the_fastest_and_says_so(tmp_path):
    report = run_night(tmp_path, [SLOW, FAST, FASTER])
    (slot,) = report["slots"]
    assert (slot["generation_before"], slot["generation_after"]) == (0, 1)
    assert slot["lower"] <= slot["speedup"] <= slot["upper"]
    assert slot["speedup"] == pytest.approx(2.0, rel=0.01)  # ten times the fake's noise
    assert slot["rival"] == "torch.compile"
    assert slot["rival_speedup"] == pytest.approx(600 / 500)  # it takes 600 of the fake's ns
    assert slot["roof_share"] == pytest.approx(250 / 500)
    assert report["candidates"] == {
        "proposed": 3,
        "rejected": 1,
        "inconclusive": 0,
        "waiting": 0,
        "superseded": 1,
        "abandoned": 0,
        "sealed": 1,
        "faults": 0,
    }
    assert set(report) == {"night", "started", "ended", "slots", "candidates", "spent"}
    assert set(report["spent"]) == {"wall_s", "device_s", "usd", "tokens"}
    assert report["spent"]["device_s"] > 0


def test_what_a_night_records_stands_up_to_an_audit(tmp_path):
    run_night(tmp_path, [FAST, FASTER, SLOW, {"ns": 10, "bad": "wrong-values"}])
    with open_workspace(Workspace(home=tmp_path), clock) as workspace:
        report = audit(workspace.ledger, workspace.store)
        assert report.problems == ()
        assert report.generations == 2
        status = workspace.ledger.query("status")[0]
        assert (status["rival"], status["generation"]) == ("torch.compile", 1)


def test_the_next_night_builds_on_the_last(tmp_path):
    run_night(tmp_path, [FAST])
    student = FakeStudent([FAST, FASTER])
    report = run_night(tmp_path, student)
    slot = report["slots"][0]
    assert (slot["generation_before"], slot["generation_after"]) == (1, 2)
    assert slot["speedup"] == pytest.approx(2.0, rel=0.01)
    assert report["candidates"]["proposed"] == 1  # the first night's was not proposed again
    (trial,) = student.briefs[0].trials
    assert dict(trial.knobs) == FAST
    assert trial.log_speedup == pytest.approx(0.357, abs=0.02)  # log(1000 / 700)
    store = BaselineStore(tmp_path / "baselines.git", clock)
    zero, one, two = store.history(slot_of("softmax"))
    assert (one.parent, two.parent) == (zero.commit, one.commit)


def test_trials_are_over_generation_0_whatever_they_were_measured_against(tmp_path):
    run_night(tmp_path, [FASTER])
    run_night(tmp_path, [FASTER, {"ns": 480}])
    with open_workspace(Workspace(home=tmp_path), clock) as workspace:
        last = workspace.ledger.trials(slot_of("softmax"))[-1]
    assert last.log_speedup == pytest.approx(0.734, abs=0.02)  # log(1000 / 480)


@pytest.mark.parametrize("check", ["builds", "wrong-values"])
def test_a_failure_is_a_verdict_with_its_check(tmp_path, check):
    with opened_night(tmp_path, [{"bad": check}], student="fake") as (night, workspace):
        conduct.conduct(night)
        slot = slot_of("softmax")
        (candidate,) = workspace.ledger.candidates(slot, S.REJECTED)
        shown = workspace.ledger.query("show", id=candidate.id)
        assert shown["check"] == check
        assert shown["reason"]
        (trial,) = workspace.ledger.trials(slot)
        assert trial.log_speedup is None


def test_a_win_that_does_not_reproduce_is_not_sealed(tmp_path):
    with opened_night(tmp_path, [{"ns": 700, "rot": 2}], student="fake") as (night, workspace):
        report = conduct.conduct(night).model_dump(mode="json")
        (candidate,) = workspace.ledger.candidates(slot_of("softmax"), S.REJECTED)
        assert workspace.ledger.query("show", id=candidate.id)["check"] == "not-reproduced"
    assert report["slots"][0]["generation_after"] == 0


def test_two_faults_are_forgiven(tmp_path):
    report = run_night(tmp_path, [{"ns": 700, "faults": 2}])
    assert report["candidates"]["faults"] == 2
    assert report["slots"][0]["generation_after"] == 1


def test_the_third_fault_is_inconclusive_and_the_night_goes_on(tmp_path):
    report = run_night(tmp_path, [{"ns": 700, "faults": 3}, {"ns": 800}])
    assert report["candidates"]["faults"] == 3
    assert report["candidates"]["inconclusive"] == 1
    assert report["slots"][0]["speedup"] == pytest.approx(1.25, rel=0.01)


def test_a_fault_in_a_confirmation_spends_its_alpha(tmp_path):
    class Flaky(FakeJudge):
        def confirm(self, task, candidate, *args, **kwargs):
            if "ns=700" in candidate.source.files["kernel.cpp"]:
                self._faulted.clear()
            return super().confirm(task, candidate, *args, **kwargs)

    judge = Flaky("fake-env")
    menu = [{"ns": 700, "faults": 1}, {"ns": 800}]
    with opened_night(tmp_path, menu, judge, student="fake") as (night, workspace):
        conduct.conduct(night)
        (sealed,) = workspace.ledger.sealed_promotions()
    assert sealed[0].alpha == pytest.approx(0.05 / (2 * 3))  # the second one of the year


def test_a_task_that_cannot_be_measured_is_left_alone(tmp_path):
    class Blind(FakeJudge):
        def calibrate(self, task, baseline, *, rounds=7):
            if task.task.name == "softmax":
                baseline = baseline.__class__(source=kernel(faults=99))
            return super().calibrate(task, baseline, rounds=rounds)

    report = run_night(tmp_path, [FAST], Blind("fake-env"), tasks=("softmax", "rmsnorm"))
    assert [slot["generation_after"] for slot in report["slots"]] == [0, 1]
    assert report["candidates"]["faults"] == 3


def test_a_student_that_fails_costs_its_slot_and_not_the_night(tmp_path):
    class Stumbles(FakeStudent):
        def propose(self, brief, limit):
            if brief.task.task.name == "softmax":
                raise LookupError("no such template")
            return super().propose(brief, limit)

    report = run_night(tmp_path, Stumbles([FAST]), tasks=("softmax", "rmsnorm"))
    assert [slot["generation_after"] for slot in report["slots"]] == [0, 1]
    assert report["candidates"]["faults"] == 1


def test_every_slot_gets_a_turn_before_any_gets_a_second(tmp_path):
    turns = []

    def take(parts, standing, until):
        turns.append((standing.slot.task, until - time.monotonic()))
        return improve(parts, standing, until)

    menu = [{"ns": ns} for ns in range(1400, 1300, -10)]
    run_night(tmp_path, menu, take=take, tasks=("softmax", "rmsnorm", "cumsum"), proposals=4)
    assert [task for task, _ in turns[:3]] == ["softmax", "rmsnorm", "cumsum"]
    assert turns[0][1] == pytest.approx(20, abs=2)  # a third of the minute
    assert len(turns) > 3


def test_what_waits_is_confirmed_first_by_the_next_night(tmp_path):
    judge = FakeJudge("fake-env")
    with opened_night(tmp_path, [FAST, FASTER], judge, student="fake") as (night, workspace):
        judge.on_phase = lambda phase, _: phase == "screen" and night.parts.stop.request()
        report = conduct.conduct(night).model_dump(mode="json")
        found = states(workspace, slot_of("softmax"))
    assert found == {"ns 700": S.WAITING, "ns 500": S.PROPOSED}
    assert report["candidates"]["waiting"] == 1
    later = FakeJudge("fake-env")
    report = run_night(tmp_path, [FAST, FASTER], later)
    assert report["slots"][0]["generation_after"] >= 1
    phases = [phase for phase, _ in later.calls]
    assert phases[:3] == ["calibrate", "screen", "confirm"]  # the screen of what was proposed


def test_an_accepted_candidate_is_sealed_by_the_next_night(tmp_path):
    class Dies(Exception):
        pass

    def die(phase, _):
        if phase == "reconfirm":
            raise Dies

    judge = FakeJudge("fake-env", on_phase=die)
    with pytest.raises(Dies), opened_night(tmp_path, [FAST], judge, student="fake") as (night, _):
        conduct.conduct(night)
    later = FakeJudge("fake-env")
    report = run_night(tmp_path, [FAST], later)
    assert report["slots"][0]["generation_after"] == 1
    assert "confirm" not in {phase for phase, _ in later.calls}


def test_what_waited_when_another_was_sealed_is_superseded(tmp_path):
    with opened_night(tmp_path, [FAST, FASTER], student="fake") as (night, workspace):
        conduct.conduct(night)
        assert states(workspace, slot_of("softmax")) == {
            "ns 500": S.SEALED,
            "ns 700": S.SUPERSEDED,
        }


def test_what_was_written_against_an_older_baseline_is_superseded(tmp_path):
    old = Candidate(
        id=CandidateId("old"),
        slot=slot_of("softmax"),
        source=kernel(ns=100),
        parent="0" * 40,
        student="fake",
        title="old",
    )
    with opened_night(tmp_path, [], student="fake") as (night, workspace):
        workspace.ledger.record_candidate(old, night.parts.night)
        report = conduct.conduct(night).model_dump(mode="json")
        assert workspace.ledger.state(old.id) == S.SUPERSEDED
    assert report["slots"][0]["generation_after"] == 0


def test_a_stop_closes_the_night_and_keeps_what_was_sealed(tmp_path):
    judge = FakeJudge("fake-env")
    tasks = ("softmax", "rmsnorm")
    with opened_night(tmp_path, [FAST], judge, student="fake", tasks=tasks) as (night, workspace):
        judge.on_phase = lambda phase, _: phase == "reconfirm" and night.parts.stop.request()
        report = conduct.conduct(night).model_dump(mode="json")
        row = workspace.ledger.query("night", night_id=night.parts.night)
    assert [slot["generation_after"] for slot in report["slots"]] == [1, 0]
    assert row["status"] == "stopped"
    assert row["summary"] == report
    assert not judge.is_running


def test_a_night_that_dies_is_closed_as_interrupted(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        opened_night(tmp_path, [FAST], student="fake") as (night, _),
    ):
        raise KeyboardInterrupt
    with open_workspace(Workspace(home=tmp_path), clock) as workspace:
        row = workspace.ledger.query("night", night_id=night.parts.night)
        assert row["status"] == "interrupted"


def test_a_night_that_was_killed_is_closed_by_the_next(tmp_path):
    killed = (
        "import os, sys, pathlib\n"
        "from forge.config import Workspace\n"
        "from flows.workspace import open_workspace\n"
        "from tests.integration.night_making import clock\n"
        "with open_workspace(Workspace(home=pathlib.Path(sys.argv[1])), clock) as workspace:\n"
        "    workspace.ledger.open_night('20260101-000000', {})\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False, timeout=60)
    with open_workspace(Workspace(home=tmp_path), clock) as workspace:
        assert any("20260101-000000" in repair for repair in workspace.repairs)
        assert workspace.ledger.query("night", night_id="20260101-000000")["status"] == (
            "interrupted"
        )


def test_only_one_night_at_a_time_and_the_other_is_named(tmp_path):
    with (
        open_workspace(Workspace(home=tmp_path), clock),
        pytest.raises(UsageError, match=rf"process {os.getpid()}\)"),
        open_workspace(Workspace(home=tmp_path), clock),
    ):
        pass


def test_a_night_without_time_proposes_nothing(tmp_path):
    watcher = Told()
    with opened_night(tmp_path, [FAST], watcher=watcher, student="fake", minutes=0.0001) as (
        night,
        _,
    ):
        report = conduct.conduct(night).model_dump(mode="json")
    assert report["candidates"]["proposed"] == 0


def test_time_is_reserved_and_charged(tmp_path):
    with opened_night(tmp_path, [FAST], student="fake") as (night, workspace):
        report = conduct.conduct(night).model_dump(mode="json")
        assert workspace.ledger.open_reservations(night.parts.night) == []
    assert 0 < report["spent"]["wall_s"] < 60


def test_the_same_text_from_other_knobs_is_not_judged_twice(tmp_path):
    class Twins(FakeStudent):
        def propose(self, brief, limit):
            found = super().propose(brief, limit)
            twins = [
                p.__class__(source=p.source, title=p.title, family="twin", knobs={"inert": 1})
                for p in found
            ]
            return [*found, *twins]

    report = run_night(tmp_path, Twins([SLOW]))
    assert report["candidates"]["proposed"] == 1


def test_a_task_that_changed_is_left_alone(tmp_path):
    run_night(tmp_path, [FAST])
    plan = plan_of(tmp_path)
    (task,) = plan.tasks
    changed = task.__class__(
        task=task.task,
        folder=task.folder,
        reference_source=task.reference_source + "\n# changed\n",
        digest="00" * 32,
    )
    watcher = Told()
    with opened_night(tmp_path, [FASTER], watcher=watcher, student="fake") as (night, _):
        other = conduct.OpenNight(
            parts=night.parts,
            plan=conduct.Plan(
                config=plan.config,
                environment=plan.environment,
                target=plan.target,
                tasks=(changed,),
            ),
            started=night.started,
        )
        report = conduct.conduct(other).model_dump(mode="json")
    assert report["candidates"]["proposed"] == 0
    assert any("left alone" in line for line in watcher.lines)
