"""Bring a ledger to the schema this program knows, or refuse one from the future."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from forge.errors import UsageError
from ledger.schema import MIGRATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from forge.types import Clock


def schema_version(connection: DuckDBPyConnection) -> int:
    """Return the number of the last migration applied; 0 for an empty file."""
    table = connection.execute(
        "select count(*) from information_schema.tables where table_name = 'migrations'"
    ).fetchone()
    if table is None or not table[0]:
        return 0
    row = connection.execute("select max(version) from migrations").fetchone()
    return 0 if row is None or row[0] is None else int(row[0])


def check_version(connection: DuckDBPyConnection, path: object, known: int) -> int:
    """Return the ledger's schema version, if this program can read it.

    Raises:
        UsageError: It is newer than ``known``, or the file holds something else.
    """
    version = schema_version(connection)
    if version > known:
        raise UsageError(
            f"The ledger {path} has schema {version}, and this program knows schemas up to "
            f"{known}: use the newer program that wrote it."
        )
    if version == 0 and connection.execute("select 1 from duckdb_tables()").fetchone():
        raise UsageError(
            f"{path} is a DuckDB database but not a ledger: move it away, or choose another home."
        )
    return version


def migrate(
    connection: DuckDBPyConnection,
    path: object,
    clock: Clock,
    migrations: Sequence[str] = MIGRATIONS,
) -> None:
    """Apply what is missing, each migration in one transaction with the record of it.

    Raises:
        UsageError: The ledger is newer than ``migrations``, or no ledger.
    """
    version = check_version(connection, path, len(migrations))
    for number, sql in enumerate(migrations[version:], start=version + 1):
        connection.begin()
        try:
            connection.execute(
                "create table if not exists migrations "
                "(version integer primary key, ts timestamp not null)"
            )
            connection.execute(sql)
            now = clock().astimezone(UTC).replace(tzinfo=None)
            connection.execute("insert into migrations values (?, ?)", [number, now])
        except BaseException:  # cleaned up, then raised again
            connection.rollback()
            raise
        connection.commit()
