"""``night``: what became of a night's candidates, and what it spent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from forge.errors import UsageError
from ledger.rows import named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_STATES = ("rejected", "inconclusive", "waiting", "superseded", "abandoned")


def night(connection: DuckDBPyConnection, night_id: str) -> dict[str, Any]:
    """Return a night: what became of the candidates it proposed, and what it spent.

    ``sealed`` counts the promotions it carried out, whoever proposed them; ``waiting`` those
    owed a confirmation or a seal.
    """
    rows = named(
        connection,
        "night status started ended settings summary",
        "select id, status, opened, closed, settings, summary from nights where id = $night",
        {"night": night_id},
    )
    if not rows:
        raise UsageError(f"There is no night {night_id!r}; `forge status --nights` lists them.")
    row = rows[0]
    row["settings"] = json.loads(row["settings"])
    row["summary"] = None if row["summary"] is None else json.loads(row["summary"])
    return {
        **row,
        "candidates": _candidate_counts(connection, night_id),
        "spent": _spent(connection, night_id),
    }


def _candidate_counts(connection: DuckDBPyConnection, night_id: str) -> dict[str, int]:
    rows = connection.execute(
        "select case state when 'accepted' then 'waiting' else state end, count(*) "
        "from candidates where night = ? group by 1",
        [night_id],
    ).fetchall()
    by_state: dict[str, int] = dict(rows)
    counts = {"proposed": sum(by_state.values()), **{s: by_state.get(s, 0) for s in _STATES}}
    for name, sql in (
        ("sealed", "select count(*) from promotions where night = ? and state = 'sealed'"),
        ("faults", "select count(*) from faults where night = ?"),
    ):
        row = connection.execute(sql, [night_id]).fetchone()
        counts[name] = int(row[0]) if row else 0
    return counts


def _spent(connection: DuckDBPyConnection, night_id: str) -> dict[str, float]:
    rows = connection.execute(
        "select unit, sum(settled + overrun)::double / 1e6 from reservations "
        "where night = ? group by unit",
        [night_id],
    ).fetchall()
    return {"wall_s": 0.0, "device_s": 0.0, "usd": 0.0, "tokens": 0.0, **dict(rows)}
