"""Promotions: exactly once, and the candidate is sealed with them or not at all."""

from itertools import pairwise
from pathlib import Path

import pytest

from forge.errors import StaleState, UsageError
from forge.lifecycle import CandidateState as S
from tests.integration.ledger_child import fill
from tests.integration.ledger_things import (
    COMMIT_0,
    NIGHT,
    SLOT,
    accepted,
    candidate,
    open_ledger,
    promotion,
    sealed,
)

COMMIT = "ab" * 20


def test_a_promotion_goes_from_intent_to_seal(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one = promotion(accepted(ledger, candidate()))
        ledger.intend(one)
        ledger.intend(one)
        assert ledger.unsealed_promotions() == [(one, "intended")]
    with open_ledger(tmp_path) as ledger:
        ledger.mark_committed(one.id, "cd" * 20)
        # The branch moved on, so the commit was made again on its new tip.
        ledger.mark_committed(one.id, COMMIT)
        assert ledger.unsealed_promotions() == [(one, "committed")]
        assert ledger.state(one.candidate.id) == S.ACCEPTED
        for _ in range(2):
            ledger.mark_sealed(one.id, COMMIT)
        assert ledger.state(one.candidate.id) == S.SEALED
        assert ledger.unsealed_promotions() == []
        assert ledger.sealed_promotions() == [(one, COMMIT)]
        assert ledger.promotion(one.id) == one
        for late in (
            lambda: ledger.mark_committed(one.id, COMMIT),
            lambda: ledger.mark_sealed(one.id, "cd" * 20),
            lambda: ledger.mark_superseded(one.id, "late"),
        ):
            with pytest.raises(StaleState, match="is sealed"):
                late()
        assert ledger.verify_tables() == []


def test_only_an_accepted_candidate_is_promoted(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one = candidate()
        ledger.record_candidate(one, NIGHT)
        with pytest.raises(StaleState, match="is not accepted"):
            ledger.intend(promotion(one))
        assert ledger.unsealed_promotions() == []


def test_a_seal_that_cannot_seal_its_candidate_is_undone_whole(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one = promotion(accepted(ledger, candidate()))
        ledger.intend(one)
        ledger.advance(one.candidate.id, S.ACCEPTED, S.ABANDONED, "by hand")
        head = ledger.chain_head()
        with pytest.raises(StaleState, match="no longer accepted"):
            ledger.mark_sealed(one.id, COMMIT)
        assert ledger.unsealed_promotions() == [(one, "intended")]
        assert ledger.chain_head() == head
        ledger.mark_superseded(one.id, "its candidate was abandoned")
        assert ledger.unsealed_promotions() == []
        assert ledger.state(one.candidate.id) == S.ABANDONED
        # The chain goes on from where it was, not from what was undone.
        assert ledger.verify_chain() == []


def test_a_superseded_promotion_takes_its_candidate_with_it(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        one = promotion(accepted(ledger, candidate()))
        ledger.intend(one)
        for _ in range(2):
            ledger.mark_superseded(one.id, "the slot moved first")
        assert ledger.state(one.candidate.id) == S.SUPERSEDED
        with pytest.raises(StaleState, match="is superseded"):
            ledger.mark_sealed(one.id, COMMIT)


def test_generation_0_is_recorded_once(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        for _ in range(2):
            ledger.seed_recorded(SLOT, COMMIT_0, "d")
        with pytest.raises(StaleState, match=f"is {COMMIT_0}"):
            ledger.seed_recorded(SLOT, COMMIT, "d")
        assert ledger.seeds() == [(str(SLOT), COMMIT_0, "d")]


def test_status_shows_generation_0_before_any_promotion(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.seed_recorded(SLOT, COMMIT_0, "d")
        assert ledger.query("status") == [
            {
                "task": SLOT.task,
                "target": SLOT.target,
                "generation": 0,
                "commit": COMMIT_0,
                "speedup": 1.0,
                "lower": 1.0,
                "upper": 1.0,
                "rival": None,
                "rival_speedup": None,
                "roof_share": None,
            }
        ]


def test_status_shows_the_newest_generation_and_its_strongest_rival(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        fill(ledger)
        (row,) = ledger.query("status")
        assert (row["generation"], row["commit"]) == (2, f"{2:040x}")
        assert (row["speedup"], row["lower"], row["upper"]) == (3.0, 2.8, 3.2)
        assert (row["rival"], row["rival_speedup"]) == ("torch.compile", 1.25)
        assert row["roof_share"] == 0.7
        ledger.record_rival(SLOT, row["commit"], "torch.compile", {"speedup": 0.3})
        (row,) = ledger.query("status")
        assert (row["rival"], row["rival_speedup"]) == ("torch.compile", 1 / 0.3)
        # Eager is generation 0 itself, which the speedup is over already; a loss to it is shown.
        ledger.record_rival(SLOT, row["commit"], "eager", {"speedup": 1.1})
        (row,) = ledger.query("status")
        assert (row["rival"], row["rival_speedup"]) == ("eager", 1 / 1.1)
        # Rivals of a baseline that is no longer one say nothing about the new one.
        sealed(ledger, "fourth", 3, row["commit"])
        (row,) = ledger.query("status")
        assert (row["generation"], row["rival"], row["rival_speedup"]) == (3, None, None)


def test_history_is_the_lineage_oldest_first(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        fill(ledger)
        ledger.intend(promotion(accepted(ledger, candidate("late")), 3, "unsealed"))
        rows = ledger.query("history", slot=str(SLOT))
        assert [row["generation"] for row in rows] == [0, 1, 2]
        assert rows[0] == {
            "generation": 0,
            "commit": COMMIT_0,
            "candidate": None,
            "parent": None,
            "speedup": 1.0,
            "lower": 1.0,
            "evidence": None,
            "student": None,
            "at": rows[0]["at"],
        }
        for parent, row in pairwise(rows):
            assert row["parent"] == parent["commit"]
            assert row.keys() == rows[0].keys()
        assert rows[2]["candidate"] == "second-candidate"
        assert rows[2]["student"] == "sweep"
        assert rows[0]["at"] < rows[1]["at"] < rows[2]["at"]
        assert rows[0]["at"].endswith("Z")
        assert ledger.query("history", slot="nothing/here") == []


def test_a_night_counts_what_became_of_its_candidates(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        fill(ledger)
        for name, state in (("r", S.REJECTED), ("i", S.INCONCLUSIVE), ("w", S.WAITING)):
            ledger.record_candidate(candidate(name), NIGHT)
            ledger.advance(candidate(name).id, S.PROPOSED, state)
        ledger.record_candidate(candidate("elsewhere"), "another night")
        ledger.record_fault(NIGHT, "an arm would not start")
        ledger.set_envelope(NIGHT, "wall_s", 100)
        ledger.settle(ledger.reserve(NIGHT, "night", "wall_s", 30), 12.5)
        ledger.close_night(NIGHT, "done", {"note": "quiet"})
        night = ledger.query("night", night_id=NIGHT)
        assert night["candidates"] == {
            "proposed": 6,
            "rejected": 1,
            "inconclusive": 1,
            "waiting": 1,
            "superseded": 0,
            "abandoned": 0,
            "sealed": 2,
            "faults": 1,
        }
        assert night["spent"] == {"wall_s": 12.5, "device_s": 0, "usd": 0, "tokens": 0}
        assert (night["status"], night["summary"]) == ("done", {"note": "quiet"})
        with pytest.raises(UsageError, match="no night 'x'"):
            ledger.query("night", night_id="x")


def test_nights_are_opened_and_closed_once(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.open_night(NIGHT, {"minutes": 8})
    with open_ledger(tmp_path) as ledger:
        (row,) = ledger.open_nights()
        assert (row.id, row.settings) == (NIGHT, {"minutes": 8})
        ledger.open_night(NIGHT, {"minutes": 9})
        assert ledger.open_nights() == [row]
        ledger.close_night(NIGHT, "interrupted", {})
        assert ledger.open_nights() == []
        with pytest.raises(StaleState, match="is interrupted"):
            ledger.open_night(NIGHT, {})
        with pytest.raises(StaleState, match="is not open"):
            ledger.close_night(NIGHT, "done", {})


def test_show_finds_what_a_person_has_in_hand(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        fill(ledger)
        for text, what, generation in (
            ("first-cand", "candidate", None),
            ("promotion-second", "generation", 2),
            (f"{1:040x}", "generation", 1),
            (COMMIT_0[:8], "generation", 0),
            (f"{SLOT}@g0", "generation", 0),
            (f"{SLOT}@g2", "generation", 2),
            (NIGHT, "night", None),
        ):
            shown = ledger.query("show", id=text)
            assert (shown["what"], shown.get("generation")) == (what, generation)


def test_show_says_what_it_cannot_find(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        fill(ledger)
        for text, words in (
            ("promotion-", "promotion-first"),
            ("0000", "type more of it"),
            ("nothing-like-it", "nothing called 'nothing-like-it'"),
            (f"{SLOT}@g7", "no generation 7"),
            ("fir", "nothing called 'fir'"),
            ("", "nothing called ''"),
        ):
            with pytest.raises(UsageError, match=words):
                ledger.query("show", id=text)
