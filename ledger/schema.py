"""The schema, as an ordered list of migrations. Append; never edit one that has shipped.

No foreign keys and no enums: DuckDB can neither change nor extend them later. Amounts of budgets
are whole millionths of their unit, so that sums are exact. Times are UTC. ``seq`` is the event
that wrote the row.
"""

from __future__ import annotations

MIGRATIONS: tuple[str, ...] = (
    # 1: the first night.
    """
    create table events (
        seq bigint primary key,
        ts timestamp not null,
        kind varchar not null,
        subject varchar not null,
        body varchar not null,
        prev varchar not null,
        hash varchar not null
    );
    create table nights (
        id varchar primary key,
        seq bigint not null,
        status varchar not null check (status in ('open', 'done', 'interrupted', 'stopped')),
        opened timestamp not null,
        closed timestamp,
        settings varchar not null,
        summary varchar
    );
    create table faults (seq bigint not null, night varchar not null, what varchar not null);
    create table environments (
        id varchar primary key, seq bigint not null, body varchar not null
    );
    create table sources (digest varchar primary key, files varchar not null);
    create table candidates (
        id varchar primary key,
        seq bigint not null,
        ts timestamp not null,
        task varchar not null,
        target varchar not null,
        digest varchar not null,
        parent varchar not null,
        student varchar not null,
        title varchar not null,
        origin varchar not null,
        night varchar not null,
        state varchar not null check (state in ('proposed', 'waiting', 'accepted', 'sealed',
            'rejected', 'inconclusive', 'superseded', 'abandoned')),
        check_id varchar not null,
        reason varchar not null
    );
    create index candidates_by_digest on candidates (digest);
    create table evidence (
        digest varchar not null,
        candidate varchar not null,
        seq bigint not null,
        ts timestamp not null,
        phase varchar not null,
        decision varchar not null,
        environment varchar not null,
        harness varchar not null,
        rounds integer not null,
        alpha double not null,
        noise_x double,
        worst_ratio double,
        device_s double not null,
        wall_s double not null,
        bytes bigint not null,
        primary key (digest, candidate)
    );
    create table verdicts (
        candidate varchar not null,
        phase varchar not null,
        evidence varchar not null,
        seq bigint not null,
        ts timestamp not null,
        verdict varchar not null check (verdict in ('accepted', 'rejected', 'inconclusive')),
        check_id varchar not null,
        reason varchar not null,
        speedup double,
        lower double,
        upper double,
        primary key (candidate, phase, evidence)
    );
    create table confirms (
        candidate varchar primary key,
        seq bigint not null,
        task varchar not null,
        target varchar not null,
        year integer not null,
        k integer not null check (k >= 1),
        unique (task, target, year, k)
    );
    create table trials (
        candidate varchar primary key,
        seq bigint not null,
        task varchar not null,
        target varchar not null,
        family varchar not null,
        knobs varchar not null,
        log_speedup double
    );
    create table noise (
        task varchar not null,
        target varchar not null,
        baseline varchar not null,
        environment varchar not null,
        seq bigint not null,
        noise varchar not null,
        evidence varchar not null
    );
    create table roofs (
        target varchar not null,
        environment varchar not null,
        seq bigint not null,
        body varchar not null
    );
    create table rivals (
        task varchar not null,
        target varchar not null,
        baseline varchar not null,
        name varchar not null,
        seq bigint not null,
        ts timestamp not null,
        body varchar not null
    );
    create table secrets (
        task varchar not null,
        target varchar not null,
        generation integer not null,
        secret blob not null,
        is_retired boolean not null,
        primary key (task, target, generation)
    );
    create table seeds (
        task varchar not null,
        target varchar not null,
        seq bigint not null,
        ts timestamp not null,
        baseline varchar not null,
        digest varchar not null,
        primary key (task, target)
    );
    create table promotions (
        id varchar primary key,
        seq bigint not null,
        task varchar not null,
        target varchar not null,
        generation integer not null check (generation >= 1),
        candidate varchar not null,
        parent varchar not null,
        night varchar not null,
        student varchar not null,
        evidence varchar not null,
        speedup double not null,
        lower double not null,
        upper double not null,
        rival varchar not null,
        rival_speedup double,
        body varchar not null,
        state varchar not null check (state in ('intended', 'committed', 'sealed', 'superseded')),
        baseline varchar,
        ts timestamp not null
    );
    create table envelopes (
        night varchar not null,
        envelope varchar not null,
        unit varchar not null,
        seq bigint not null,
        amount bigint not null check (amount >= 0),
        primary key (night, envelope, unit)
    );
    create table reservations (
        id varchar primary key,
        seq bigint not null,
        night varchar not null,
        envelope varchar not null,
        unit varchar not null,
        reserved bigint not null check (reserved >= 0),
        settled bigint not null check (settled >= 0),
        overrun bigint not null check (overrun >= 0),
        state varchar not null check (state in ('open', 'settled', 'released'))
    );
    """,
)
NEWEST = len(MIGRATIONS)
