"""kill -9 at any moment loses nothing that was acknowledged."""

from pathlib import Path

import pytest

from forge.lifecycle import CandidateState as S
from forge.types import CandidateId
from tests.integration.ledger_process import child, killed, lines
from tests.integration.ledger_things import NIGHT, SLOT, candidate, evidence, open_ledger


@pytest.mark.parametrize("acknowledged", [1, 4, 17])
def test_candidates_and_evidence_survive_a_kill(tmp_path: Path, acknowledged: int) -> None:
    said: list[str] = []
    for _ in range(2):
        with child("insert", tmp_path) as process:
            said += lines(process, acknowledged)
            said += killed(process)
    with open_ledger(tmp_path) as ledger:
        assert ledger.verify_chain() == []
        assert ledger.verify_tables() == []
        for line in said:
            name, digest = line.split()
            assert ledger.state(CandidateId(name)) == S.WAITING
            assert len(ledger.evidence(digest).rounds) == int(name.split("-")[1])
        assert list(ledger.blobs.problems(ledger.evidence_digests())) == []
        # Everything that is there was said, but for the one in hand when each process died.
        recorded = ledger.query("night", night_id=_opened(ledger))["candidates"]["proposed"]
        assert len(said) <= recorded <= len(said) + 2


def test_promotions_survive_a_kill(tmp_path: Path) -> None:
    said: list[str] = []
    for wanted in (1, 3):
        with child("promote", tmp_path) as process:
            said += lines(process, wanted)
            said += killed(process)
        with open_ledger(tmp_path) as ledger:
            # What a repair would do: the store is asked whether it has the commit.
            for promotion, _ in ledger.unsealed_promotions():
                ledger.mark_superseded(promotion.id, "the store does not have it")
    with open_ledger(tmp_path) as ledger:
        assert ledger.verify_chain() == []
        assert ledger.verify_tables() == []
        commits = [row["commit"] for row in ledger.query("history", slot=str(SLOT))]
        assert commits[1 : 1 + len(said)] == said
        assert len(commits) - 1 <= len(said) + 2
        assert len(set(commits)) == len(commits)
        assert len(ledger.candidates(SLOT, S.ACCEPTED)) <= 2


def test_a_killed_owner_leaves_no_lock(tmp_path: Path) -> None:
    with child("own", tmp_path) as process:
        assert lines(process, 1) == ["ready"]
        killed(process)
    assert (tmp_path / "ledger.socket").exists()
    with open_ledger(tmp_path) as ledger:
        assert ledger.query("status")[0]["generation"] == 2


def test_partial_blobs_and_ledgers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.put_evidence(CandidateId("a"), evidence())
    blob = next((tmp_path / "evidence").glob("*/*.zst"))
    partial = blob.with_name(".partial-abc")
    partial.write_bytes(b"half")
    half = tmp_path / ".ledger-new-abc"
    half.mkdir()
    (half / "ledger.duckdb").write_bytes(b"half")
    with open_ledger(tmp_path):
        assert not partial.exists()
        assert not half.exists()
        assert blob.exists()


def test_a_damaged_blob_is_never_read_as_evidence(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_candidate(candidate(), NIGHT)
        digest = ledger.put_evidence(candidate().id, evidence())
        other = ledger.put_evidence(candidate().id, evidence(rounds=9))
        path = ledger.blobs.path(digest)
        path.write_bytes(ledger.blobs.path(other).read_bytes())
        (problem,) = ledger.blobs.problems([digest, other])
        assert digest in problem
        assert "was changed" in problem
        path.write_bytes(b"not zstd")
        assert "cannot be read" in next(ledger.blobs.problems([digest]))
        path.unlink()
        assert "is missing" in next(ledger.blobs.problems([digest]))


def _opened(ledger) -> str:
    ledger.open_night(NIGHT, {})
    return NIGHT
