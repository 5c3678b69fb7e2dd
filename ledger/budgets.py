"""Budgets, double entry: the upper bound is reserved before the spend, the actual settled after.

Amounts are kept as whole millionths: reservations and charges rounded up, limits down.
"""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING

from forge.errors import StaleState, UsageError
from ledger.journal import Journal, Transaction, moved_one

if TYPE_CHECKING:
    from typing import Any

NIGHT = "night"
"""The envelope around all others of a night."""
_MILLION = 1_000_000


class BudgetExceeded(UsageError):
    """The reservation does not fit its envelope; nothing was reserved."""


class Budgets(Journal):
    """Settled and reserved amounts never exceed their envelope.

    An envelope is named by a path, each part inside the one before: ``night``,
    ``night/softmax``. A reservation must fit every envelope on its path that has a limit, and
    the night itself must have one: what nobody granted cannot be spent.
    """

    def set_envelope(self, night_id: str, unit: str, limit: float, envelope: str = NIGHT) -> None:
        """Grant an envelope of a night ``limit`` of ``unit``, instead of what it had.

        Raises:
            BudgetExceeded: More is spent or reserved in it already.
        """
        amount = max(0, math.floor(limit * _MILLION))
        with self.writing() as tx:
            used = _used(tx, night_id, unit, envelope)
            if used > amount:
                raise BudgetExceeded(
                    f"Envelope {envelope} of night {night_id} cannot be {limit:g} {unit}: "
                    f"{used / _MILLION:g} are spent or reserved."
                )
            body = {"envelope": envelope, "unit": unit, "millionths": amount}
            seq = tx.event("budget.granted", night_id, body)
            tx.run(
                "insert or replace into envelopes values (?, ?, ?, ?, ?)",
                night_id,
                envelope,
                unit,
                seq,
                amount,
            )

    def reserve(self, night_id: str, envelope: str, unit: str, amount: float) -> str:
        """Set ``amount`` aside, an upper bound of what will be spent, and return its id.

        Raises:
            BudgetExceeded: It does not fit; nothing was reserved.
        """
        wanted = _millionths(amount)
        with self.writing() as tx:
            for outer in _path(envelope):
                _check_fits(tx, (night_id, unit, outer), wanted)
            reservation = uuid.uuid4().hex
            body = {
                "night": night_id,
                "envelope": envelope,
                "unit": unit,
                "millionths": wanted,
            }
            seq = tx.event("budget.reserved", reservation, body)
            tx.run(
                "insert into reservations values (?, ?, ?, ?, ?, ?, 0, 0, 'open')",
                reservation,
                seq,
                night_id,
                "/".join(_path(envelope)[-1:]),
                unit,
                wanted,
            )
            return reservation

    def settle(self, reservation_id: str, actual: float) -> None:
        """Replace a reservation by what was really spent.

        What exceeds the reservation is charged to the envelopes if they still have it. What they
        have not is written down apart, as an overrun, and nothing more can be reserved.
        """
        spent = _millionths(actual)
        with self.writing() as tx:
            row = _open(tx, reservation_id)
            night, envelope, unit, reserved = row
            extra = max(0, spent - reserved)
            room = min(
                (
                    room
                    for outer in _path(envelope)
                    if (room := _room(tx, (night, unit, outer))) is not None
                ),
                default=0,
            )
            overrun = extra - min(extra, max(0, room))
            _close(tx, reservation_id, "settled", (spent - overrun, overrun))
            tx.event("budget.settled", reservation_id, {"millionths": spent, "overrun": overrun})

    def release(self, reservation_id: str) -> None:
        """Give a reservation back: nothing was spent."""
        with self.writing() as tx:
            _open(tx, reservation_id)
            _close(tx, reservation_id, "released", (0, 0))
            tx.event("budget.released", reservation_id, {})

    def open_reservations(self, night_id: str) -> list[tuple[str, str, str, float]]:
        """Return id, envelope, unit and amount of what is reserved and not settled yet."""
        rows = self._rows(
            "select id, envelope, unit, reserved from reservations "
            "where night = ? and state = 'open' order by seq",
            night_id,
        )
        return [(id_, envelope, unit, amount / _MILLION) for id_, envelope, unit, amount in rows]

    def spent(self, night_id: str) -> dict[str, float]:
        """Return what a night has spent by unit, overruns included, open reservations not."""
        rows = self._rows(
            "select unit, sum(settled + overrun) from reservations where night = ? "
            "group by unit order by unit",
            night_id,
        )
        return {unit: int(amount) / _MILLION for unit, amount in rows}

    def remaining(self, night_id: str, unit: str, envelope: str = NIGHT) -> float:
        """Return the most that could be reserved in an envelope now."""
        with self.writing() as tx:
            rooms = [_room(tx, (night_id, unit, outer)) for outer in _path(envelope)]
        return max(0, min((room for room in rooms if room is not None), default=0)) / _MILLION


def _millionths(amount: float) -> int:
    if not (math.isfinite(amount) and amount >= 0):
        raise ValueError(f"An amount is finite and not negative; got {amount}.")
    return math.ceil(amount * _MILLION)


def _path(envelope: str) -> list[str]:
    """Return the envelope and those around it, the night first."""
    parts = envelope.split("/")
    if parts[0] != NIGHT:
        parts = [NIGHT, *parts]
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _used(tx: Transaction, night: str, unit: str, envelope: str) -> int:
    """Return what is settled, overrun or reserved in an envelope and those inside it."""
    row = tx.row(
        "select coalesce(sum(settled + overrun + case state when 'open' then reserved else 0 end),"
        " 0) from reservations where night = ? and unit = ? "
        "and (envelope = ? or starts_with(envelope, ?))",
        night,
        unit,
        envelope,
        f"{envelope}/",
    )
    return int(row[0]) if row else 0


def _room(tx: Transaction, key: tuple[str, str, str]) -> int | None:
    """Return what an envelope has left, ``None`` where it has no limit of its own."""
    night, unit, envelope = key
    row = tx.row(
        "select amount from envelopes where night = ? and unit = ? and envelope = ?", *key
    )
    if row is None and envelope != NIGHT:
        return None
    return (int(row[0]) if row else 0) - _used(tx, night, unit, envelope)


def _check_fits(tx: Transaction, key: tuple[str, str, str], wanted: int) -> None:
    room = _room(tx, key)
    if room is None or wanted <= room:
        return
    night, unit, envelope = key
    if room < 0:
        who = f"night {night}" if envelope == NIGHT else f"{envelope} of night {night}"
        unit = {"wall_s": "seconds", "device_s": "seconds of measuring"}.get(unit, unit)
        raise BudgetExceeded(f"{who} has taken {-room / _MILLION:.3g} {unit} more than it had.")
    raise BudgetExceeded(
        f"{wanted / _MILLION:g} {unit} do not fit envelope {envelope} of night {night}: "
        f"{max(0, room) / _MILLION:g} are left."
    )


def _open(tx: Transaction, reservation_id: str) -> tuple[Any, ...]:
    row = tx.row(
        "select night, envelope, unit, reserved from reservations where id = ? and state = 'open'",
        reservation_id,
    )
    if row is None:
        raise StaleState(f"Reservation {reservation_id} is not open; read it again.")
    return row


def _close(tx: Transaction, reservation_id: str, state: str, amounts: tuple[int, int]) -> None:
    closed = tx.rows(
        "update reservations set state = ?, settled = ?, overrun = ? "
        "where id = ? and state = 'open' returning id",
        state,
        *amounts,
        reservation_id,
    )
    moved_one(closed, f"Reservation {reservation_id} is not open")
