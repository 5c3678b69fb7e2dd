"""Named questions that every reader may ask, each answered with JSON-able rows.

The same functions answer in the owner's process and in a reader that opened the file. None of
them touches the table of secrets.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from forge.errors import UsageError
from ledger.rivals import night, show
from ledger.rows import named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duckdb import DuckDBPyConnection

    from ledger.chain import Json

_STATUS = """
with newest as (
    select task, target, arg_max(id, generation) id from promotions
    where state = 'sealed' group by task, target
), standing as (
    select s.task, s.target, coalesce(p.generation, 0) generation,
        coalesce(p.baseline, s.baseline) as baseline, coalesce(p.speedup, 1.0) speedup,
        coalesce(p.lower, 1.0) as lower_bound, coalesce(p.upper, 1.0) as upper_bound,
        p.rival as rival, p.rival_speedup
    from (
        select task, target, baseline from seeds
        union select task, target, null from newest n where not exists (
            select 1 from seeds where task = n.task and target = n.target)
    ) s left join newest n on n.task = s.task and n.target = s.target
    left join promotions p on p.id = n.id
), timed as (
    select r.task, r.target, r.baseline, r.name, arg_max(r.body, r.seq) body
    from rivals r join standing t
        on t.task = r.task and t.target = r.target and t.baseline = r.baseline
    group by r.task, r.target, r.baseline, r.name
), figures as (
    select task, target, name, 1 / nullif(json_extract(body, '$.speedup')::double, 0) ratio,
        json_extract(body, '$.roof_share')::double roof_share
    from timed
), ranked as (
    -- Eager is generation 0 itself: last, unless it wins (forge.promotion.rival_to_show).
    select *, case when name = 'eager' and ratio >= 1 then 1e9 else ratio end as place
    from figures
), strongest as (
    select task, target, arg_min(name, place) as name, arg_min(ratio, place) speedup,
        max(roof_share) roof_share
    from ranked group by task, target
)
select t.task, t.target, t.generation, t.baseline, t.speedup, t.lower_bound, t.upper_bound,
    coalesce(b.name, nullif(t.rival, '')), coalesce(b.speedup, t.rival_speedup), b.roof_share
from standing t left join strongest b on b.task = t.task and b.target = t.target
order by t.task, t.target
"""
_HISTORY = """
select 0 generation, baseline, null candidate, null parent, 1.0::double speedup,
    1.0::double as lower_bound, null evidence, null student, ts
from seeds where task = $task and target = $target
union all
select generation, baseline, candidate, parent, speedup, lower, evidence, student, ts
from promotions where task = $task and target = $target and state = 'sealed'
order by generation
"""


def status(connection: DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return how every slot stands, as ``forge status --json`` shows it.

    ``rival`` is the one to show of those timed beside the present baseline, ``rival_speedup``
    its time over the baseline's: above 1 the baseline is faster. Both are ``None`` where none
    was timed.
    """
    names = "task target generation commit speedup lower upper rival rival_speedup roof_share"
    return named(connection, names, _STATUS)


def history(connection: DuckDBPyConnection, slot: str) -> list[dict[str, Any]]:
    """Return every generation of ``slot`` (``task/target``), oldest first."""
    task, _, target = slot.partition("/")
    names = "generation commit candidate parent speedup lower evidence student at"
    return named(connection, names, _HISTORY, {"task": task, "target": target})


def nights(connection: DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return every night with what it proposed and sealed, oldest first."""
    return named(
        connection,
        "night status started ended proposed sealed",
        "select id, status, opened, closed, "
        "(select count(*) from candidates c where c.night = n.id), "
        "(select count(*) from promotions p where p.night = n.id and p.state = 'sealed') "
        "from nights n order by seq",
    )


def promotions(connection: DuckDBPyConnection, slot: str = "") -> list[dict[str, Any]]:
    """Return every promotion in any state, oldest first; of one slot if named."""
    names = (
        "promotion task target generation candidate state commit parent night speedup lower upper "
        "evidence at"
    )
    return named(
        connection,
        names,
        "select id, task, target, generation, candidate, state, baseline, parent, night, speedup, "
        "lower, upper, evidence, ts from promotions "
        "where $slot = '' or task || '/' || target = $slot order by seq",
        {"slot": slot},
    )


def candidates(connection: DuckDBPyConnection, night_id: str) -> list[dict[str, Any]]:
    """Return the candidates of a night, without their sources, oldest first."""
    names = "candidate task target student title state check reason at"
    return named(
        connection,
        names,
        "select id, task, target, student, title, state, check_id, reason, ts from candidates "
        "where night = $night order by seq",
        {"night": night_id},
    )


def events(
    connection: DuckDBPyConnection, after: int = 0, limit: int = 1000
) -> list[dict[str, Any]]:
    """Return at most ``limit`` events that follow number ``after``, oldest first."""
    rows = named(
        connection,
        "seq at kind subject body prev hash",
        "select seq, ts, kind, subject, body, prev, hash from events "
        "where seq > $after order by seq limit $limit",
        {"after": after, "limit": limit},
    )
    return [{**row, "body": json.loads(row["body"])} for row in rows]


QUERIES: dict[str, Callable[..., Any]] = {
    "status": status,
    "history": history,
    "show": show,
    "nights": nights,
    "night": night,
    "promotions": promotions,
    "candidates": candidates,
    "events": events,
}
"""Every question by name; parameters are passed by keyword and are JSON values."""


def answer(connection: DuckDBPyConnection, name: str, params: Mapping[str, Any]) -> Json:
    """Answer a named question.

    Raises:
        UsageError: There is no such question, it takes other parameters, or it names what the
            ledger does not have.
    """
    question = QUERIES.get(name)
    if question is None:
        raise UsageError(f"The ledger answers no {name!r}; known: {', '.join(sorted(QUERIES))}.")
    code = question.__code__
    known = code.co_varnames[1 : code.co_argcount]
    unknown = sorted(set(params) - set(known))
    optional = len(question.__defaults__ or ())
    missing = [one for one in known[: len(known) - optional] if one not in params]
    if unknown or missing:
        raise UsageError(
            f"The question {name!r} takes {list(known)}; got {sorted(params)} instead."
        )
    return question(connection, **params)
