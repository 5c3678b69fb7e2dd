"""Nights, their faults, and the environments they measured in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ledger.chain import canonical
from ledger.journal import Journal, moved_one

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Ending = Literal["done", "interrupted", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRow:
    """A night as it was opened.

    Attributes:
        id: Unique.
        opened: When, in UTC.
        settings: What it was asked to do.
    """

    id: str
    opened: datetime
    settings: Mapping[str, Any]


class Nights(Journal):
    """A night is a row: a night killed anywhere goes on where it was."""

    def open_night(self, night_id: str, settings: Mapping[str, Any]) -> None:
        """Record that a night began; one that is open already is left as it is.

        Raises:
            StaleState: It has been closed.
        """
        with self.writing() as tx:
            row = tx.row("select status from nights where id = ?", night_id)
            if row is not None:
                moved_one([row] if row[0] == "open" else [], f"Night {night_id} is {row[0]}")
                return
            seq = tx.event("night.opened", night_id, {"settings": dict(settings)})
            tx.run(
                "insert into nights values (?, ?, 'open', ?, null, ?, null)",
                night_id,
                seq,
                tx.ts,
                canonical(settings),
            )

    def close_night(self, night_id: str, status: Ending, summary: Mapping[str, Any]) -> None:
        """Record how a night ended.

        Raises:
            StaleState: It is not open.
        """
        with self.writing() as tx:
            closed = tx.rows(
                "update nights set status = ?, closed = ?, summary = ? "
                "where id = ? and status = 'open' returning id",
                status,
                tx.ts,
                canonical(summary),
                night_id,
            )
            moved_one(closed, f"Night {night_id} is not open")
            tx.event("night.closed", night_id, {"status": status, "summary": dict(summary)})

    def open_nights(self) -> list[NightRow]:
        """Return the nights that have not been closed, oldest first."""
        rows = self._rows(
            "select id, opened, settings from nights where status = 'open' order by seq"
        )
        return [
            NightRow(id=id_, opened=opened, settings=json.loads(settings))
            for id_, opened, settings in rows
        ]

    def record_fault(self, night_id: str, what: str) -> None:
        """Record a fault of ours in a night; never a candidate's failure."""
        with self.writing() as tx:
            seq = tx.event("fault", night_id, {"what": what})
            tx.run("insert into faults values (?, ?, ?)", seq, night_id, what)

    def record_environment(self, environment_id: str, body: Mapping[str, Any]) -> None:
        """Record what an environment id stands for; once is enough."""
        with self.writing() as tx:
            if tx.row("select 1 from environments where id = ?", environment_id):
                return
            seq = tx.event("environment", environment_id, body)
            tx.run(
                "insert into environments values (?, ?, ?)", environment_id, seq, canonical(body)
            )
