"""What can be wrong with the file, each said in one clear sentence."""

import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from forge.errors import UsageError
from ledger.database import DatabaseBusy
from ledger.journal import Journal
from ledger.migrate import migrate, schema_version
from ledger.reader import LedgerReader, open_reader
from ledger.schema import MIGRATIONS, NEWEST
from tests.integration.ledger_process import ROOT, child, lines
from tests.integration.ledger_things import NIGHT, SteppedClock, open_ledger


def refusal(folder: Path) -> str:
    """Return the sentence with which the ledger is refused, to an owner and to a reader."""
    with pytest.raises(UsageError) as owner:
        open_ledger(folder)
    with pytest.raises(UsageError) as reader:
        open_reader(folder / "ledger.duckdb").query("status")
    assert str(reader.value) == str(owner.value)
    assert "\n" not in str(owner.value)
    return str(owner.value)


def test_a_newer_schema_is_refused_naming_both(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    with duckdb.connect(tmp_path / "ledger.duckdb") as connection:
        connection.execute(f"insert into migrations values ({NEWEST + 3}, now()::timestamp)")
    said = refusal(tmp_path)
    assert f"schema {NEWEST + 3}" in said
    assert f"up to {NEWEST}" in said


@pytest.mark.parametrize("data", [b"", b"short", b"SQLite format 3\0" * 2000, b"\xff" * 20_000])
def test_what_is_no_database_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "ledger.duckdb"
    path.write_bytes(data)
    said = refusal(tmp_path)
    assert f"{path} is not a DuckDB database" in said
    assert path.read_bytes() == data


def test_a_truncated_ledger_is_refused(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    path = tmp_path / "ledger.duckdb"
    path.write_bytes(path.read_bytes()[:6000])
    assert "restore a backup" in refusal(tmp_path)


def test_another_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    with duckdb.connect(tmp_path / "ledger.duckdb") as connection:
        connection.execute("create table mine (x integer)")
    assert "not a ledger" in refusal(tmp_path)
    with duckdb.connect(tmp_path / "ledger.duckdb") as connection:
        assert connection.execute("show tables").fetchall() == [("mine",)]


def test_a_ledger_in_use_names_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.journal._READERS_LEAVE_S", 0.1)
    with child("hold", tmp_path) as process:
        assert lines(process, 1) == ["ready"]
        with pytest.raises(DatabaseBusy, match=f"in use by process {process.pid}") as owner:
            open_ledger(tmp_path)
        assert owner.value.holder == process.pid
        with pytest.raises(UsageError, match=f"in use by process {process.pid}"):
            LedgerReader(tmp_path / "ledger.duckdb", patience_s=0.1).query("status")


def test_no_ledger_is_said_and_none_is_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ledger at"):
        open_reader(tmp_path / "nowhere" / "ledger.duckdb").query("status")
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        open_ledger(tmp_path / "file" / "home")


def test_a_file_that_may_not_grow_is_said_and_loses_nothing(tmp_path: Path) -> None:
    with child("write-limited", tmp_path) as process:
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        assert process.wait() == 0
    assert said[-1].startswith("UsageError: The disk of ")
    assert "full" in said[-1]
    with open_ledger(tmp_path) as ledger:
        assert ledger.verify_chain() == []
        recorded = [event["subject"] for event in ledger.query("events")]
        assert recorded[: len(said) - 1] == said[:-1]
        assert len(said) > 5
        ledger.record_fault(NIGHT, "there is space again")
        assert ledger.verify_chain() == []


def test_a_full_and_a_read_only_disk_are_said_and_lose_nothing(tmp_path: Path) -> None:
    module = f"{sys.executable} -m tests.integration.ledger_child"
    script = (
        f"mount -t tmpfs -o size=1600k none {tmp_path} || exit 77; {module} write {tmp_path}; "
        f"mount -o remount,ro {tmp_path} && {module} read-only {tmp_path}"
    )
    ran = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip("this user may not mount a small disk")
    *acknowledged, full, read, owned = ran.stdout.splitlines()
    assert len(acknowledged) > 5
    assert full.startswith("UsageError: The disk of ")
    assert read == f"read {len(acknowledged)}"
    assert "cannot be written" in owned
    assert "Read-only file system" in owned


def test_only_its_user_may_read_a_ledger(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "ledger.duckdb").stat().st_mode) == 0o600


def test_migrations_are_applied_once_in_order_and_whole(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.duckdb", SteppedClock()
    steps = ("create table one (x integer)", "create table two (x integer)")
    with duckdb.connect(path) as connection:
        migrate(connection, path, clock, steps[:1])
        migrate(connection, path, clock, steps)
        migrate(connection, path, clock, steps)
        assert schema_version(connection) == 2
        broken = (*steps, "create table three (x integer); select nothing from nowhere")
        with pytest.raises(duckdb.Error):
            migrate(connection, path, clock, broken)
        assert schema_version(connection) == 2
        tables = connection.execute("select table_name from duckdb_tables() order by 1").fetchall()
        assert tables == [("migrations",), ("one",), ("two",)]


def test_an_older_ledger_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "ledger.duckdb"
    with duckdb.connect(path) as connection:
        migrate(connection, path, SteppedClock(), MIGRATIONS[:1])
    with Journal(path, tmp_path / "evidence", SteppedClock()) as journal, journal.reading() as now:
        assert schema_version(now) == NEWEST


def test_it_takes_one_core_little_memory_and_no_extension(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger, ledger.reading() as cursor:
        settings = dict(
            cursor.execute(
                "select name, value from duckdb_settings() where name in "
                "('threads', 'memory_limit', 'autoinstall_known_extensions', "
                "'autoload_known_extensions', 'enable_external_access')"
            ).fetchall()
        )
    assert settings == {
        "threads": "1",
        "memory_limit": "488.2 MiB",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "enable_external_access": "false",
    }
