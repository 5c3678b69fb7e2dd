"""Whoever reads the ledger gets the same answers, a night running or not."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from forge.errors import UsageError
from ledger.owner import OwnerServer
from ledger.reader import FileReader, OwnerGone, OwnerReader, Reader, open_reader
from tests.integration.ledger_child import fill
from tests.integration.ledger_process import child, killed, lines
from tests.integration.ledger_things import NIGHT, SLOT, open_ledger

QUESTIONS: list[tuple[str, dict[str, object]]] = [
    ("status", {}),
    ("history", {"slot": str(SLOT)}),
    ("show", {"id": f"{SLOT}@g2"}),
    ("nights", {}),
    ("night", {"night_id": NIGHT}),
    ("promotions", {"slot": str(SLOT)}),
    ("candidates", {"night_id": NIGHT}),
    ("events", {"after": 1, "limit": 3}),
]
WRONG: list[tuple[str, dict[str, object], str]] = [
    ("secrets", {}, "answers no 'secrets'; known: candidates, events"),
    ("history", {}, r"takes \['slot'\]; got \[\]"),
    ("status", {"slot": "x"}, r"takes \[\]; got \['slot'\]"),
    ("show", {"id": "nothing-like-it"}, "nothing called"),
]


class ReaderContract:
    """What every reader promises, over a ledger of two generations."""

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Reader]:
        raise NotImplementedError

    def test_it_answers_as_the_ledger_itself(self, reader: Reader, tmp_path: Path) -> None:
        with open_ledger(tmp_path / "same") as ledger:
            fill(ledger)
            for name, params in QUESTIONS:
                answer = reader.query(name, **params)
                assert answer == ledger.query(name, **params)
                assert answer

    def test_it_says_what_is_wrong_with_a_question(self, reader: Reader) -> None:
        for name, params, words in WRONG:
            with pytest.raises(UsageError, match=words):
                reader.query(name, **params)


class TestOwnerReader(ReaderContract):
    """Through the socket of an owner in another process."""

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Reader]:
        with child("own", tmp_path) as process:
            assert lines(process, 1) == ["ready"]
            yield OwnerReader(tmp_path / "ledger.duckdb")


class TestFileReader(ReaderContract):
    """By opening the file that nobody owns."""

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Reader]:
        with open_ledger(tmp_path) as ledger:
            fill(ledger)
        yield FileReader(tmp_path / "ledger.duckdb")


class TestReaderAfterAKill(ReaderContract):
    """After kill -9 of the owner: its socket is stale, its log is not in the file yet."""

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Reader]:
        with child("own", tmp_path) as process:
            assert lines(process, 1) == ["ready"]
            killed(process)
        with pytest.raises(OwnerGone):
            OwnerReader(tmp_path / "ledger.duckdb").query("status")
        yield open_reader(tmp_path / "ledger.duckdb")


class TestOwner(ReaderContract):
    """The owner's own handle."""

    @pytest.fixture
    def reader(self, tmp_path: Path) -> Iterator[Reader]:
        with open_ledger(tmp_path) as ledger:
            fill(ledger)
            yield ledger


def test_a_reader_sees_what_a_live_owner_writes(tmp_path: Path) -> None:
    reader = open_reader(tmp_path / "ledger.duckdb")
    with child("own", tmp_path) as process:
        assert lines(process, 1) == ["ready"]
        assert reader.query("status")[0]["generation"] == 2
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
    # The same reader goes on when the owner has left, and its socket with it.
    assert not (tmp_path / "ledger.socket").exists()
    assert reader.query("status")[0]["generation"] == 2


def test_a_socket_lies_beside_the_ledger_however_deep(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["a-rather-long-folder-name"] * 6)
    with open_ledger(folder) as ledger, OwnerServer(ledger) as server:
        assert len(str(server.path)) > 108
        assert server.path.parent == folder
        assert OwnerReader(ledger.path).query("nights") == []
        assert server.path.stat().st_mode & 0o777 == 0o600
    assert not server.path.exists()


def test_many_readers_are_answered_while_the_owner_writes(tmp_path: Path) -> None:
    answers: list[int] = []
    with open_ledger(tmp_path) as ledger, OwnerServer(ledger):
        fill(ledger)

        def read() -> None:
            reader = OwnerReader(ledger.path)
            answers.extend(len(reader.query("status")) for _ in range(5))

        threads = [threading.Thread(target=read) for _ in range(6)]
        for thread in threads:
            thread.start()
        for number in range(20):
            ledger.record_fault(NIGHT, f"fault {number}")
        for thread in threads:
            thread.join()
        assert ledger.verify_chain() == []
    assert answers == [1] * 30


@pytest.mark.parametrize(
    "said", [b"\n", b"[1]\n", b'{"query": 3}\n', b"no json\n", b"cut short", b"x" * 70_000]
)
def test_nonsense_on_the_socket_is_dropped(tmp_path: Path, said: bytes) -> None:
    with open_ledger(tmp_path) as ledger, OwnerServer(ledger) as server:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(server.path))
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        assert OwnerReader(ledger.path).query("nights") == []
