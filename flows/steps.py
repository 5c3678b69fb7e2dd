"""Prefect tasks, called steps here: each one wraps one plain function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prefect import task
from prefect.cache_policies import NO_CACHE

from flows.improve import RoundReport, improve
from flows.standing import under_way

if TYPE_CHECKING:
    from flows.parts import Parts
    from flows.standing import Standing


class Turn:
    """The arguments of one round, opaque to Prefect, which would walk through and copy them."""

    __slots__ = ("_parts", "_standing", "_until")

    def __init__(self, parts: Parts, standing: Standing, until: float) -> None:
        self._parts = parts
        self._standing = standing
        self._until = until

    def take(self) -> RoundReport:
        """Run the round."""
        return improve(self._parts, self._standing, self._until)


# A measurement is never served from a cache or repeated behind the ledger's back.
@task(
    name="round",
    task_run_name="{slot} round {number}",
    cache_policy=NO_CACHE,
    retries=0,
    persist_result=False,
    log_prints=False,
)
def improve_step(slot: str, number: int, turn: Turn) -> RoundReport:
    """See ``flows.improve.improve``; ``slot`` and ``number`` name the run for a person."""
    return turn.take()


def take_turn(parts: Parts, standing: Standing, until: float) -> RoundReport:
    """Run one round as a Prefect task run."""
    parts.stop.under_way = lambda: under_way(standing)
    turn = Turn(parts, standing, until)
    return improve_step(str(standing.slot), standing.rounds + 1, turn)
