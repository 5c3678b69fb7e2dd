"""``show``: one candidate, promotion, generation or night, by what a person has in hand."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from forge.errors import UsageError
from ledger.night_query import night
from ledger.rows import named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_AT_GENERATION = re.compile(r"([^/@]+)/([^/@]+)@g(\d+)")
_SHORTEST_PREFIX = 4


def show(connection: DuckDBPyConnection, id: str) -> dict[str, Any]:
    """Return what ``id`` names, ``what`` saying which kind of thing it is.

    Args:
        connection: The ledger.
        id: The beginning of a candidate's id, a promotion's id, its commit or the digest of a
            piece of evidence; a night's id; or ``task/target@gN``.

    Raises:
        UsageError: It names nothing, or more than one thing.
    """
    generation = _AT_GENERATION.fullmatch(id)
    if generation is not None:
        return _generation(connection, generation[1], generation[2], int(generation[3]))
    found = _matches(connection, id)
    if len(found) > 1:
        listed = ", ".join(f"{what} {key}" for what, key in found[:5])
        raise UsageError(f"{id!r} may be {listed}: type more of it.")
    if not found:
        raise UsageError(
            f"The ledger has nothing called {id!r}; write the first {_SHORTEST_PREFIX} or more "
            "letters of a candidate, a promotion, a commit or evidence, a night, or "
            "task/target@gN."
        )
    what, key = found[0]
    return _SHOW[what](connection, key)


def _matches(connection: DuckDBPyConnection, text: str) -> list[tuple[str, str]]:
    rows = connection.execute(
        """
        select 'night', id from nights where id = $text
        union select 'candidate', id from candidates where id = $text
        union select 'promotion', id from promotions where id = $text
        """,
        {"text": text},
    ).fetchall()
    if rows or len(text) < _SHORTEST_PREFIX:
        return rows
    rows = connection.execute(
        """
        select 'candidate', id from candidates where starts_with(id, $text)
        union select 'promotion', id from promotions
            where starts_with(id, $text) or starts_with(baseline, $text)
        union select 'seed', baseline from seeds where starts_with(baseline, $text)
        order by all limit 6
        """,
        {"text": text},
    ).fetchall()
    # Evidence comes last: there is so much of it that a few letters would mean anything.
    return rows or _whose_evidence(connection, text)


def _whose_evidence(connection: DuckDBPyConnection, digest: str) -> list[tuple[str, str]]:
    """Return whose evidence begins with ``digest``: a candidate's, or a baseline's own noise."""
    return connection.execute(
        """
        with owners as (
            select distinct candidate as id from evidence where starts_with(digest, $text)
        )
        select 'candidate', c.id from candidates c join owners o on o.id = c.id
        union select 'promotion', p.id from promotions p join owners o on o.id = p.baseline
        union select 'seed', s.baseline from seeds s join owners o on o.id = s.baseline
        order by all limit 6
        """,
        {"text": digest},
    ).fetchall()


def _generation(
    connection: DuckDBPyConnection, task: str, target: str, number: int
) -> dict[str, Any]:
    key = {"task": task, "target": target}
    if number == 0:
        sql = "select baseline from seeds where task = $task and target = $target"
    else:
        sql = (
            "select id from promotions where task = $task and target = $target "
            "and generation = $number and state = 'sealed'"
        )
        key = {**key, "number": number}
    row = connection.execute(sql, key).fetchone()
    if row is None:
        raise UsageError(f"{task}/{target} has no generation {number}.")
    return _SHOW["promotion" if number else "seed"](connection, row[0])


def _candidate(connection: DuckDBPyConnection, key: str) -> dict[str, Any]:
    (row,) = named(
        connection,
        "candidate task target digest parent student title origin night state check reason at "
        "files",
        "select c.id, c.task, c.target, c.digest, c.parent, c.student, c.title, c.origin, "
        "c.night, c.state, c.check_id, c.reason, c.ts, s.files "
        "from candidates c join sources s on s.digest = c.digest where c.id = $key",
        {"key": key},
    )
    return {
        "what": "candidate",
        **row,
        "origin": json.loads(row["origin"]),
        "files": json.loads(row["files"]),
        "phases": _phases(connection, key),
    }


def _phases(connection: DuckDBPyConnection, candidate: str) -> list[dict[str, Any]]:
    """Return what was observed of a candidate, oldest first, with the verdicts it led to."""
    return named(
        connection,
        "phase evidence rounds environment device_s wall_s verdict check reason speedup lower "
        "upper at",
        "select e.phase, e.digest, e.rounds, e.environment, e.device_s, e.wall_s, v.verdict, "
        "v.check_id, v.reason, v.speedup, v.lower, v.upper, e.ts from evidence e "
        "left join verdicts v on v.evidence = e.digest and v.candidate = e.candidate "
        "where e.candidate = $key order by e.seq",
        {"key": candidate},
    )


def _promotion(connection: DuckDBPyConnection, key: str) -> dict[str, Any]:
    (row,) = named(
        connection,
        "promotion task target generation state commit parent night student speedup lower upper "
        "evidence rival rival_speedup at candidate body",
        "select id, task, target, generation, state, baseline, parent, night, student, speedup, "
        "lower, upper, evidence, nullif(rival, ''), rival_speedup, ts, candidate, body "
        "from promotions where id = $key",
        {"key": key},
    )
    body = json.loads(row.pop("body"))
    return {
        "what": "generation",
        **row,
        "workloads": body["workloads"],
        "over_parent": body["over_parent"],
        "alpha": body["alpha"],
        "environment": body["environment"],
        "candidate": _candidate(connection, row["candidate"]),
    }


def _seed(connection: DuckDBPyConnection, key: str) -> dict[str, Any]:
    (row,) = named(
        connection,
        "task target commit digest at",
        "select task, target, baseline, digest, ts from seeds where baseline = $key limit 1",
        {"key": key},
    )
    ones = {"speedup": 1.0, "lower": 1.0, "upper": 1.0}
    return {"what": "generation", **row, "generation": 0, "candidate": None, **ones}


def _night(connection: DuckDBPyConnection, key: str) -> dict[str, Any]:
    return {"what": "night", **night(connection, key)}


_SHOW = {"candidate": _candidate, "promotion": _promotion, "seed": _seed, "night": _night}
