"""Candidates: recorded once, moved by compare-and-swap, counted per year."""

import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forge.errors import HarnessFault, StaleState
from forge.lifecycle import CandidateState as S
from forge.types import CandidateId, KernelSource, Slot, Speedup
from forge.verdict import Accepted, Inconclusive, Rejected
from tests.integration.ledger_process import child, lines
from tests.integration.ledger_things import (
    NIGHT,
    SLOT,
    SteppedClock,
    candidate,
    evidence,
    open_ledger,
)

OTHER = Slot(task="rmsnorm", target=SLOT.target)


def test_a_candidate_is_recorded_once_and_read_again(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_candidate(candidate(), NIGHT)
        head = ledger.chain_head()
        ledger.record_candidate(candidate(), NIGHT)
        assert ledger.chain_head() == head
        with pytest.raises(HarnessFault, match="another candidate's"):
            ledger.record_candidate(replace(candidate(), title="another"), NIGHT)
    with open_ledger(tmp_path) as ledger:
        assert ledger.candidate(candidate().id) == candidate()
        assert ledger.candidates(SLOT, S.PROPOSED) == [candidate()]
        assert ledger.candidates(OTHER, S.PROPOSED) == []
        with pytest.raises(KeyError, match="nobody"):
            ledger.state(CandidateId("nobody"))


def test_a_source_is_known_in_the_slot_that_had_it(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_candidate(candidate(), NIGHT)
        again = replace(candidate("b"), source=candidate().source)
        ledger.record_candidate(again, NIGHT)
        assert ledger.candidate(again.id).source == candidate().source
        assert ledger.known_digest(SLOT, candidate().source.digest)
        assert not ledger.known_digest(OTHER, candidate().source.digest)
        assert not ledger.known_digest(SLOT, KernelSource(files={"kernel.py": ""}).digest)


def test_a_move_from_where_it_no_longer_is_changes_nothing(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one = candidate()
        ledger.record_candidate(one, NIGHT)
        ledger.advance(one.id, S.PROPOSED, S.WAITING)
        head = ledger.chain_head()
        with pytest.raises(StaleState, match="no longer proposed"):
            ledger.advance(one.id, S.PROPOSED, S.REJECTED, "too late", "not-faster")
        with pytest.raises(ValueError, match="cannot go from waiting to sealed"):
            ledger.advance(one.id, S.WAITING, S.SEALED)
        assert ledger.state(one.id) == S.WAITING
        assert ledger.chain_head() == head
        ledger.advance(one.id, S.WAITING, S.REJECTED, "1.00x", "not-faster")
        shown = ledger.query("show", id=one.id)
        assert (shown["check"], shown["reason"]) == ("not-faster", "1.00x")


def test_of_many_threads_one_moves_a_candidate(tmp_path: Path) -> None:
    moved: list[S] = []
    stale: list[StaleState] = []
    goals = [S.WAITING, S.REJECTED, S.SUPERSEDED, S.ABANDONED] * 2
    start = threading.Barrier(len(goals))
    with open_ledger(tmp_path) as ledger:
        ledger.record_candidate(candidate(), NIGHT)

        def move(goal: S) -> None:
            start.wait()
            try:
                ledger.advance(candidate().id, S.PROPOSED, goal)
                moved.append(goal)
            except StaleState as error:
                stale.append(error)

        threads = [threading.Thread(target=move, args=(goal,)) for goal in goals]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [ledger.state(candidate().id)] == moved
        assert len(stale) == len(goals) - 1
        assert ledger.verify_chain() == []


def test_a_forked_child_may_not_use_it(tmp_path: Path) -> None:
    with child("fork", tmp_path) as process:
        (said,) = lines(process, 1)
    assert said.startswith("HarnessFault: Process ")
    assert "forked" in said


def test_confirmations_are_numbered_by_slot_and_year(tmp_path: Path) -> None:
    clock = SteppedClock(datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC))
    with open_ledger(tmp_path, clock) as ledger:
        names = [CandidateId(name) for name in "abcde"]
        assert [ledger.enter_confirm(SLOT, name) for name in names[:3]] == [1, 2, 3]
        assert ledger.enter_confirm(SLOT, names[1]) == 2
        assert ledger.enter_confirm(OTHER, CandidateId("x")) == 1
        clock.now = datetime(2027, 1, 1, tzinfo=UTC)
        assert ledger.enter_confirm(SLOT, names[3]) == 1
        assert ledger.enter_confirm(SLOT, names[0]) == 1
        # A clock that steps back goes on counting the old year.
        clock.now = datetime(2026, 12, 31, tzinfo=UTC)
        assert ledger.enter_confirm(SLOT, names[4]) == 4
    with open_ledger(tmp_path, SteppedClock(datetime(2027, 5, 1, tzinfo=UTC))) as ledger:
        assert ledger.enter_confirm(SLOT, CandidateId("f")) == 2
        assert ledger.verify_chain() == []


def test_trials_keep_order_and_types(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        knobs = {"lanes": 16, "is_streaming": True, "exp": "poly5", "one": 1}
        ledger.record_trial(SLOT, CandidateId("a"), "softmax", knobs, None)
        ledger.record_trial(SLOT, CandidateId("b"), "softmax", {}, 0.25)
        ledger.record_trial(OTHER, CandidateId("c"), "rmsnorm", {}, 0.5)
        ledger.record_trial(SLOT, CandidateId("b"), "softmax", {}, 0.26)
    with open_ledger(tmp_path) as ledger:
        first, second = ledger.trials(SLOT)
        assert first.knobs == knobs
        assert [type(value) for value in first.knobs.values()] == [int, bool, str, int]
        assert first.log_speedup is None
        assert (second.candidate, second.log_speedup) == ("b", 0.26)


@pytest.mark.parametrize("worst", [0.5, float("inf"), float("nan")])
def test_evidence_is_read_as_it_was_written(tmp_path: Path, worst: float) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_candidate(candidate(), NIGHT)
        seen = evidence(worst=worst)
        digest = ledger.put_evidence(candidate().id, seen)
        head = ledger.chain_head()
        assert ledger.put_evidence(candidate().id, seen) == digest
        assert ledger.chain_head() == head
        # repr, because NaN is not equal to itself.
        assert repr(ledger.evidence(digest)) == repr(seen)
        assert ledger.evidence_digests() == [digest]


@pytest.mark.parametrize(
    "verdict",
    [
        Accepted(speedup=Speedup(point=1.5, lower=1.2, upper=float("inf"))),
        Rejected(check="not-faster", reason="1.00x, below the bar"),
        Inconclusive(reason="400 rounds"),
    ],
)
def test_a_verdict_is_read_as_it_was_given(tmp_path: Path, verdict) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_candidate(candidate(), NIGHT)
        digest = ledger.put_evidence(candidate().id, evidence())
        for _ in range(2):
            ledger.record_verdict(candidate().id, "confirm", digest, verdict)
        (row,) = ledger.verdicts()
        assert (row.candidate, row.phase, row.evidence) == (candidate().id, "confirm", digest)
        assert (row.decision, row.verdict) == ("v1", verdict)


def test_the_latest_noise_and_roof_of_an_environment_count(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        assert ledger.noise(SLOT, "b", "env") is None
        assert ledger.roof(SLOT.target, "env") is None
        for x in (0.1, 0.2):
            ledger.record_noise(SLOT, "b", "env", {"x": x}, "digest")
            ledger.record_roof(SLOT.target, "env", {"bytes_per_s": x})
        ledger.record_noise(SLOT, "b", "env-2", {"x": 0.3}, "digest")
        assert ledger.noise(SLOT, "b", "env") == {"x": 0.2}
        assert ledger.noise(OTHER, "b", "env") is None
        assert ledger.roof(SLOT.target, "env") == {"bytes_per_s": 0.2}
        assert ledger.roof(SLOT.target, "env-2") is None


def test_a_secret_is_made_once_and_shown_only_when_retired(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        secret = ledger.secret(SLOT, 0)
        assert len(secret) == 32
        assert len({secret, ledger.secret(SLOT, 1), ledger.secret(OTHER, 0)}) == 3
        with pytest.raises(StaleState, match="no secret of generation 9"):
            ledger.retire_secret(SLOT, 9)
        assert secret.hex() not in str(ledger.query("events"))
    with open_ledger(tmp_path) as ledger:
        assert ledger.secret(SLOT, 0) == secret
        ledger.retire_secret(SLOT, 0)
        head = ledger.chain_head()
        ledger.retire_secret(SLOT, 0)
        assert ledger.chain_head() == head
        assert ledger.query("events")[-1]["body"] == {"generation": 0, "secret": secret.hex()}
        assert ledger.secret(SLOT, 1).hex() not in str(ledger.query("events"))
