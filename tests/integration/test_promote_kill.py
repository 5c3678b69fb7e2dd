"""A promotion that is killed anywhere is finished by the next start, exactly once."""

import multiprocessing
import os
import signal

import pytest

from flows.audit import audit
from flows.promotion import promote, repair
from forge.errors import StaleState, UsageError
from forge.lifecycle import CandidateState as S
from tests.integration.promotion_making import accepted, open_ledger, start
from tests.integration.store_making import (
    ROPE,
    SOFTMAX,
    edit_by_hand,
    git,
    open_store,
    promotion,
    seeded,
)

POINTS = ["accepted", "intended", "committed", "swapped", "marked", "sealed"]
SPAWN = multiprocessing.get_context("spawn")


def _promote_until(folder, text, point):
    """Promote in this process, which dies by SIGKILL at ``point``."""

    def die_at(name):
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    with open_ledger(folder) as ledger:
        promote(ledger, open_store(folder), type(promotion("x", "y")).from_json(text), die_at)


def _killed(folder, made, point):
    child = SPAWN.Process(target=_promote_until, args=(folder, made.to_json(), point))
    child.start()
    child.join(timeout=60)
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("point", POINTS)
def test_a_promotion_killed_at_any_point_is_sealed_once_in_the_end(tmp_path, point):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
    _killed(tmp_path, made, point)

    store = open_store(tmp_path)
    with open_ledger(tmp_path) as ledger:
        assert store.recover() == []
        done = repair(ledger, store)
        if point == "accepted":
            # Nothing had been written: the night finds the accepted candidate and tries again.
            assert done == []
            assert [c.id for c in ledger.candidates(SOFTMAX, S.ACCEPTED)] == ["c1"]
            promote(ledger, store, made)
        elif point == "sealed":
            assert done == []
        else:
            state = "committed" if point == "marked" else "intended"
            assert done == [
                f"Finished promotion promotion-c1 of {SOFTMAX} ({state}) as generation 1."
            ]
        assert repair(ledger, store) == []
        _assert_sealed_once(ledger, store, made)
        # And the slot goes on.
        later = accepted(ledger, "c2", store.head(SOFTMAX))
        assert promote(ledger, store, later).generation == 2
        assert audit(ledger, store).problems == ()


def _assert_sealed_once(ledger, store, made):
    assert [b.candidate for b in store.history(SOFTMAX)] == [None, "c1"]
    commit = store.head(SOFTMAX).commit
    assert ledger.sealed_promotions() == [(made, commit)]
    assert ledger.state(made.candidate.id) == S.SEALED
    assert list(store.path.rglob("*.lock")) == []
    report = audit(ledger, store)
    assert report.problems == ()
    assert (report.generations, report.blobs, report.verdicts) == (2, 2, 2)


@pytest.mark.parametrize("point", ["intended", "committed"])
def test_a_killed_promotion_whose_slot_moved_on_is_superseded(tmp_path, point):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        slow, quick = accepted(ledger, "slow", seed), accepted(ledger, "quick", seed)
    _killed(tmp_path, slow, point)
    with open_ledger(tmp_path) as ledger:
        won = promote(ledger, store, quick)
        (said,) = repair(ledger, store)
        assert said.startswith("Closed promotion promotion-slow of")
        assert "measure it against the new one" in said
        assert ledger.state(slow.candidate.id) == S.SUPERSEDED
        assert store.head(SOFTMAX) == won
        assert audit(ledger, store).problems == ()


def test_locks_of_a_git_that_died_with_its_night_do_not_stop_the_repair(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
    _killed(tmp_path, made, "committed")
    (store.path / "refs/heads/main.lock").write_text("")
    with open_ledger(tmp_path) as ledger:
        (swept,) = store.recover()
        assert "refs/heads/main.lock" in swept
        repair(ledger, store)
        _assert_sealed_once(ledger, store, made)


def test_a_tag_that_the_killed_swap_did_not_reach_is_made(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
    _killed(tmp_path, made, "swapped")
    git(store, "update-ref", "-d", f"refs/tags/{SOFTMAX}/g1")
    with open_ledger(tmp_path) as ledger:
        repair(ledger, store)
        _assert_sealed_once(ledger, store, made)


def test_a_seed_that_the_ledger_never_heard_of_is_recorded(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        assert repair(ledger, store) == [
            f"Recorded generation 0 of {SOFTMAX}, which the store had already."
        ]
        assert ledger.seeds() == [(str(SOFTMAX), seed.commit, seed.source.digest)]
        assert repair(ledger, store) == []


def test_the_loser_of_a_race_is_superseded_and_the_caller_is_told(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        one, other = accepted(ledger, "one", seed), accepted(ledger, "other", seed)
        promote(ledger, store, one)
        with pytest.raises(StaleState, match="is at generation 1"):
            promote(ledger, store, other)
        assert ledger.state(other.candidate.id) == S.SUPERSEDED
        assert ledger.unsealed_promotions() == []


def test_promoting_again_changes_nothing(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
        first = promote(ledger, store, made)
        head = ledger.chain_head()
        assert promote(ledger, store, made) == first
        assert ledger.chain_head() == head


def test_a_slot_edited_by_hand_keeps_its_promotion_for_later(tmp_path):
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        made = accepted(ledger, "c1", seed)
        edit_by_hand(store, tmp_path, f"{SOFTMAX}/reference.py", "# mine\n")
        with pytest.raises(UsageError, match="edited by hand"):
            promote(ledger, store, made)
        assert ledger.unsealed_promotions() == [(made, "intended")]
        text = seed.source.files["reference.py"]
        (tmp_path / "clone").rename(tmp_path / "first")
        edit_by_hand(store, tmp_path, f"{SOFTMAX}/reference.py", text)
        assert repair(ledger, store) == [
            f"Finished promotion promotion-c1 of {SOFTMAX} (intended) as generation 1."
        ]


def test_slots_promote_independently(tmp_path):
    store, seed = seeded(tmp_path)
    rope = store.seed(ROPE, seed.source, "cd" * 32)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        ledger.seed_recorded(ROPE, rope.commit, rope.source.digest)
        one, other = accepted(ledger, "one", seed), accepted(ledger, "other", rope)
        assert promote(ledger, store, one).generation == 1
        assert promote(ledger, store, other).generation == 1
        assert audit(ledger, store).problems == ()
