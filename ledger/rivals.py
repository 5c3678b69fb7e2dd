"""Rivals as every reader has them: how many times as fast as the rival the baseline is.

The table keeps each rival's own speedup over the baseline, the reciprocal; promotions have the
reader's side already.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ledger import lookup, night_query

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TIMED = """
select name, arg_max(body, seq) from rivals where baseline = $commit group by name
"""
_PROMOTED = """
select generation, rival, rival_speedup from promotions
where task = $task and target = $target and state = 'sealed' and rival_speedup is not null
"""


def show(connection: DuckDBPyConnection, id: str) -> dict[str, Any]:
    """Return what ``id`` names (``ledger.lookup.show``); a generation with all its rivals."""
    found = lookup.show(connection, id)
    if found["what"] == "generation":
        return {**found, "rivals": rivals_of(connection, found["commit"])}
    return _read_right(connection, found) if found["what"] == "night" else found


def night(connection: DuckDBPyConnection, night_id: str) -> dict[str, Any]:
    """Return a night (``ledger.night_query.night``), its rivals the reader's way round."""
    return _read_right(connection, night_query.night(connection, night_id))


def rivals_of(connection: DuckDBPyConnection, commit: str | None) -> list[dict[str, Any]]:
    """Return the latest timing of each rival beside the baseline ``commit``, fastest rival first.

    ``speedup``, ``lower`` and ``upper`` are the rival's time over the baseline's.
    """
    found = [
        {"name": name, **_over(json.loads(body))}
        for name, body in connection.execute(_TIMED, {"commit": commit}).fetchall()
    ]
    return sorted(found, key=lambda row: (row["speedup"], row["name"]))


def _over(body: dict[str, float]) -> dict[str, float | None]:
    bounds = {"lower": body.get("upper"), "upper": body.get("lower")}
    return {
        "speedup": 1 / body["speedup"],
        **{name: 1 / bound if bound else None for name, bound in bounds.items()},
    }


def _read_right(connection: DuckDBPyConnection, found: dict[str, Any]) -> dict[str, Any]:
    """Return a night with every rival of its summary over the rival.

    Nights before December 2026 closed with the reciprocal. Such a figure is known by the
    promotion of that generation, which has always had it this way round.
    """
    summary: dict[str, Any] = found["summary"] or {}
    slots: list[dict[str, Any]] = summary.get("slots", [])
    for slot in slots:
        figure = slot.get("rival_speedup")
        key = {"task": slot["task"], "target": slot["target"]}
        for generation, rival, promoted in connection.execute(_PROMOTED, key).fetchall():
            is_same = (generation, rival) == (slot["generation_after"], slot["rival"])
            if is_same and figure and math.isclose(figure * promoted, 1, rel_tol=1e-9):
                slot["rival_speedup"] = promoted
    return found
