"""Whatever somebody changes in the file by hand is found and named."""

from pathlib import Path

import duckdb
import pytest

from forge.verdict import Rejected
from ledger.chain import GENESIS
from tests.integration.ledger_child import fill
from tests.integration.ledger_things import NIGHT, candidate, evidence, open_ledger


def filled(folder: Path) -> int:
    """Make a ledger and return the number of its last event."""
    with open_ledger(folder) as ledger:
        fill(ledger)
        digest = ledger.put_evidence(candidate("first").id, evidence())
        verdict = Rejected(check="not-faster", reason="1.00x")
        ledger.record_verdict(candidate("first").id, "confirm", digest, verdict)
        assert ledger.verify_chain() == []
        assert ledger.verify_tables() == []
        return len(ledger.query("events"))


def tamper(folder: Path, sql: str) -> tuple[list[str], list[str]]:
    """Change the file behind the ledger's back and return what is found."""
    with duckdb.connect(folder / "ledger.duckdb") as connection:
        connection.execute(sql)
    with open_ledger(folder) as ledger:
        return ledger.verify_chain(), ledger.verify_tables()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("update events set body = '{}' where seq = 5", ["event 5 (", "was changed"]),
        ("update events set ts = ts + interval 1 second where seq = 5", ["event 5", "changed"]),
        ("update events set kind = 'x' where seq = 5", ["event 5 (x", "was changed"]),
        ("update events set subject = 'x' where seq = 5", ["event 5", "was changed"]),
        ("update events set prev = hash where seq = 5", ["event 5", "does not follow event 4"]),
        ("update events set hash = prev where seq = 5", ["event 5", "was changed"]),
        ("delete from events where seq = 5", ["event 5 is missing"]),
        ("delete from events where seq in (5, 6)", ["event 5 to 6 is missing"]),
        ("delete from events where seq = 1", ["event 1 is missing"]),
    ],
)
def test_a_changed_event_is_named(tmp_path: Path, sql: str, words: list[str]) -> None:
    filled(tmp_path)
    problems, _ = tamper(tmp_path, sql)
    for word in words:
        assert word in problems[0]


def test_each_problem_is_named_once(tmp_path: Path) -> None:
    filled(tmp_path)
    problems, _ = tamper(tmp_path, "update events set body = '{}' where seq in (3, 7)")
    assert [problem.split()[1] for problem in problems] == ["3", "7"]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        (
            "update candidates set state = 'rejected' where id = 'first-candidate'",
            "candidate first-candidate is rejected, its last event says sealed",
        ),
        ("delete from candidates where id = 'third-candidate'", "third-candidate is missing"),
        ("update candidates set digest = 'x' where id = 'third-candidate'", "another source"),
        ("update promotions set state = 'superseded' where generation = 2", "says sealed"),
        (
            "update promotions set baseline = 'x' where generation = 2",
            "promotion-second is sealed x",
        ),
        ("delete from promotions where generation = 1", "promotion-first is missing"),
        ("update verdicts set verdict = 'accepted'", "is accepted, its event says rejected"),
        ("delete from evidence", "is not recorded"),
    ],
)
def test_a_row_that_disagrees_with_its_events_is_named(
    tmp_path: Path, sql: str, words: str
) -> None:
    filled(tmp_path)
    chain, tables = tamper(tmp_path, sql)
    assert chain == []
    (problem,) = tables
    assert words in problem


def test_the_head_covers_everything_before_it(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "a") as ledger:
        assert ledger.chain_head() == GENESIS
        ledger.record_fault(NIGHT, "one")
        first = ledger.chain_head()
        ledger.record_fault(NIGHT, "two")
        second = ledger.chain_head()
        assert len({first, second, GENESIS}) == 3
        events = ledger.query("events")
        assert [event["prev"] for event in events] == [GENESIS, first]
        assert events[-1]["hash"] == second
        assert ledger.query("events", after=1) == events[1:]
        assert ledger.query("events", limit=1) == events[:1]
