"""Rows of the ledger as JSON-able dictionaries."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duckdb import DuckDBPyConnection

    from ledger.chain import Json


def named(
    connection: DuckDBPyConnection,
    names: str,
    sql: str,
    values: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of ``sql`` under ``names``, which are separated by spaces."""
    rows = connection.execute(sql, dict(values or {})).fetchall()
    return [dict(zip(names.split(), map(jsonable, row), strict=True)) for row in rows]


def jsonable(value: Json) -> Json:
    """Return a column's value for JSON: times as text, what is no finite number as ``None``."""
    if isinstance(value, datetime):
        return f"{value.isoformat(timespec='seconds')}Z"
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
