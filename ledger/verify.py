"""What can be checked of a ledger from the file alone: the chain, and the tables against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.chain import Event, chain_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

_BATCH = 10_000
# Each returns what is wrong, in words: a row without its event, or one that says otherwise.
_DISAGREEMENTS = (
    # The last move of a candidate is where it stands.
    """
    with last as (
        select subject,
            arg_max(coalesce(json_extract_string(body, '$.new'), 'proposed'), seq) state
        from events where kind in ('candidate.proposed', 'candidate.moved') group by subject
    )
    select 'candidate ' || coalesce(c.id, l.subject) || ' is '
        || coalesce(c.state, 'missing') || ', its last event says ' || coalesce(l.state, 'nothing')
    from candidates c full outer join last l on l.subject = c.id
    where c.state is distinct from l.state order by 1
    """,
    """
    select 'candidate ' || c.id || ' has another source than it was proposed with'
    from candidates c join events e on e.seq = c.seq
    where json_extract_string(e.body, '$.source') <> c.digest order by 1
    """,
    # A promotion stands where its last event left it, with the commit that event names.
    """
    with last as (
        select subject, arg_max(split_part(kind, '.', 2), seq) state,
            arg_max(coalesce(json_extract_string(body, '$.commit'), ''), seq) as baseline
        from events where starts_with(kind, 'promotion.') group by subject
    )
    select 'promotion ' || coalesce(p.id, l.subject) || ' is ' || coalesce(p.state, 'missing')
        || ' ' || coalesce(p.baseline, '') || ', its last event says '
        || coalesce(l.state, 'nothing') || ' ' || coalesce(l.baseline, '')
    from promotions p full outer join last l on l.subject = p.id
    where p.state is distinct from l.state
        or coalesce(p.baseline, '') is distinct from coalesce(l.baseline, '') order by 1
    """,
    """
    select 'verdict of candidate ' || v.candidate || ' in ' || v.phase || ' is ' || v.verdict
        || ', its event says ' || coalesce(json_extract_string(e.body, '$.verdict'), 'nothing')
    from verdicts v left join events e on e.seq = v.seq and e.kind = 'verdict'
    where json_extract_string(e.body, '$.verdict') is distinct from v.verdict
        or json_extract_string(e.body, '$.evidence') is distinct from v.evidence order by 1
    """,
    """
    select 'evidence ' || v.evidence || ' of candidate ' || v.candidate || ' is not recorded'
    from verdicts v where not exists (
        select 1 from evidence e where e.digest = v.evidence and e.candidate = v.candidate
    ) order by 1
    """,
)


def chain_of(connection: DuckDBPyConnection) -> list[str]:
    """Return one sentence for each event that is missing, moved or changed."""
    return list(chain_problems(_events(connection)))


def disagreements(connection: DuckDBPyConnection) -> list[str]:
    """Return one sentence for each row that disagrees with the events about it."""
    return [
        str(sentence)
        for sql in _DISAGREEMENTS
        for (sentence,) in connection.execute(sql).fetchall()
    ]


def _events(connection: DuckDBPyConnection) -> Iterator[Event]:
    rows = connection.execute(
        "select seq, ts, kind, subject, body, prev, hash from events order by seq"
    )
    while batch := rows.fetchmany(_BATCH):
        for seq, ts, kind, subject, body, prev, digest in batch:
            yield Event(
                seq=seq, ts=ts, kind=kind, subject=subject, body=body, prev=prev, hash=digest
            )
