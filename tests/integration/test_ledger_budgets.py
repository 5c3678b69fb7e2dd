"""Whatever is reserved, settled and released in whatever order, no envelope is exceeded."""

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from forge.errors import StaleState, UsageError
from ledger.budgets import BudgetExceeded
from tests.integration.ledger_things import NIGHT, open_ledger

UNIT = "wall_s"
# Binary fractions, so that a plain sum of floats in the model is exact.
amounts = st.integers(min_value=0, max_value=60 * 8).map(lambda eighths: eighths / 8)
envelopes = st.sampled_from(["night", "softmax", "night/softmax/m0", "rmsnorm"])
LIMITS = {"night": 100.0, "night/softmax": 40.0}


def inside(envelope: str, outer: str) -> bool:
    path = envelope if envelope.startswith("night") else f"night/{envelope}"
    return path == outer or path.startswith(f"{outer}/")


class Spending(RuleBasedStateMachine):
    """A night that reserves, settles, releases and dies, beside a model of it."""

    reservations = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.ledger = open_ledger(Path(self.folder.name))
        for envelope, limit in LIMITS.items():
            self.ledger.set_envelope(NIGHT, UNIT, limit, envelope)
        self.open: dict[str, tuple[str, float]] = {}
        self.charged: list[tuple[str, float]] = []

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()

    def used(self, outer: str) -> float:
        both = [*self.open.values(), *self.charged]
        return sum(amount for envelope, amount in both if inside(envelope, outer))

    @rule(target=reservations, envelope=envelopes, amount=amounts)
    def reserve(self, envelope: str, amount: float) -> str:
        fits = all(
            self.used(outer) + amount <= limit
            for outer, limit in LIMITS.items()
            if inside(envelope, outer)
        )
        try:
            reservation = self.ledger.reserve(NIGHT, envelope, UNIT, amount)
        except BudgetExceeded:
            assert not fits
            return ""
        assert fits
        self.open[reservation] = (envelope, amount)
        return reservation

    @rule(reservation=reservations, actual=amounts)
    def settle(self, reservation: str, actual: float) -> None:
        if reservation not in self.open:
            with pytest.raises(StaleState):
                self.ledger.settle(reservation, actual)
            return
        self.ledger.settle(reservation, actual)
        envelope, _ = self.open.pop(reservation)
        self.charged.append((envelope, actual))

    @rule(reservation=reservations)
    def release(self, reservation: str) -> None:
        if reservation not in self.open:
            with pytest.raises(StaleState):
                self.ledger.release(reservation)
            return
        self.ledger.release(reservation)
        del self.open[reservation]

    @rule()
    def reopen(self) -> None:
        self.ledger.close()
        self.ledger = open_ledger(Path(self.folder.name))

    @invariant()
    def everything_spent_is_booked(self) -> None:
        spent = sum(amount for _, amount in self.charged)
        assert self.ledger.spent(NIGHT).get(UNIT, 0.0) == spent
        held = {id_: amount for id_, _, _, amount in self.ledger.open_reservations(NIGHT)}
        assert held == {id_: amount for id_, (_, amount) in self.open.items()}

    @invariant()
    def no_envelope_is_exceeded(self) -> None:
        with self.ledger.reading() as cursor:
            rows = cursor.execute(
                "select envelope, settled + if(state = 'open', reserved, 0) from reservations"
            ).fetchall()
        for outer, limit in LIMITS.items():
            assert sum(used for envelope, used in rows if inside(envelope, outer)) <= limit * 1e6
        expected = min(max(0.0, LIMITS["night"] - self.used("night")), LIMITS["night"])
        assert self.ledger.remaining(NIGHT, UNIT) == expected


Spending.TestCase.settings = settings(max_examples=8, stateful_step_count=15, deadline=None)
TestSpending = Spending.TestCase


def test_what_nobody_granted_cannot_be_spent(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        with pytest.raises(BudgetExceeded, match="0 are left") as refusal:
            ledger.reserve(NIGHT, "night", "usd", 0.01)
        assert isinstance(refusal.value, UsageError)
        ledger.set_envelope(NIGHT, "usd", 1.0)
        with pytest.raises(BudgetExceeded, match=r"0\.6 usd do not fit envelope night"):
            for _ in range(2):
                ledger.reserve(NIGHT, "night", "usd", 0.6)
        with pytest.raises(BudgetExceeded):
            ledger.reserve("another night", "night", "usd", 0.1)


def test_an_overrun_is_booked_and_stops_the_spending(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.set_envelope(NIGHT, "usd", 1.0)
        ledger.settle(ledger.reserve(NIGHT, "night", "usd", 0.5), 1.75)
        assert ledger.spent(NIGHT) == {"usd": 1.75}
        assert ledger.query("events")[-1]["body"] == {"millionths": 1_750_000, "overrun": 750_000}
        with pytest.raises(BudgetExceeded, match=r"has taken 0\.75 usd more than it had"):
            ledger.reserve(NIGHT, "night", "usd", 0.000001)
        with pytest.raises(BudgetExceeded, match=r"cannot be 1\.5 usd: 1\.75 are"):
            ledger.set_envelope(NIGHT, "usd", 1.5)
        ledger.set_envelope(NIGHT, "usd", 2.0)
        assert ledger.remaining(NIGHT, "usd") == 0.25


def test_a_night_that_took_longer_says_so_in_seconds(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.set_envelope(NIGHT, "wall_s", 15.0)
        ledger.settle(ledger.reserve(NIGHT, "roof", "wall_s", 15.0), 35.5)
        with pytest.raises(BudgetExceeded, match=rf"night {NIGHT} has taken 20\.5 seconds more"):
            ledger.reserve(NIGHT, "softmax/cpu", "wall_s", 0.0)


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
def test_what_is_no_amount_is_refused(tmp_path: Path, amount: float) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.set_envelope(NIGHT, "usd", 1.0)
        with pytest.raises(ValueError, match="finite and not negative"):
            ledger.reserve(NIGHT, "night", "usd", amount)


def test_threads_cannot_reserve_the_same_room(tmp_path: Path) -> None:
    granted: list[str] = []
    start = threading.Barrier(8)
    with open_ledger(tmp_path) as ledger:
        ledger.set_envelope(NIGHT, UNIT, 10.0)

        def spend() -> None:
            start.wait()
            try:
                granted.append(ledger.reserve(NIGHT, "night", UNIT, 4.0))
            except BudgetExceeded:
                return

        threads = [threading.Thread(target=spend) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == 2
        assert ledger.remaining(NIGHT, UNIT) == 2.0
