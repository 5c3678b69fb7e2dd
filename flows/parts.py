"""What a night works with, and the rules that every step of it keeps: budget, stop, faults."""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from forge.errors import HarnessFault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from baselines.store import BaselineStore
    from flows.standing import Standing
    from flows.stop import Stop
    from forge.config import Settings
    from forge.host import Environment
    from forge.judge.base import Judge
    from forge.students.base import Student
    from forge.teacher.base import Teacher
    from forge.types import Slot
    from ledger.store import Ledger

Made = TypeVar("Made")
_log = logging.getLogger(__name__)

# A fault is tried twice more; a third one in a row ends what was being measured.
TRIES = 3


class Watcher(Protocol):
    """Shows a person how a night goes. It decides nothing, and must cost next to nothing."""

    def say(self, text: str) -> None:
        """Tell one thing that happened."""
        ...

    def show(self, standings: Sequence[Standing], left_s: float) -> None:
        """Take note of how the slots stand; draws at most twice a second."""
        ...


@dataclass(slots=True, kw_only=True)
class Charge:
    """What one phase turned out to cost beyond its wall time.

    Attributes:
        device_s: Seconds the measured cores were held.
    """

    device_s: float = 0.0


class Budget:
    """The time a night may take: reserved in the ledger before each phase, settled after it."""

    def __init__(
        self, ledger: Ledger, night: str, seconds: float, drain_s: float, started: float
    ) -> None:
        self._ledger = ledger
        self._night = night
        self._drain_s = min(drain_s, seconds / 4)
        self._seconds = seconds
        self._started = started
        self._charged_s = 0.0
        for unit in ("wall_s", "device_s"):
            ledger.set_envelope(night, unit, seconds)
        # Held from the start: nothing can be reserved any more once a night has overrun.
        self._overhead = ledger.reserve(night, "overhead", "wall_s", 0.0)

    @property
    def deadline(self) -> float:
        """When the night ends, on ``time.monotonic``."""
        return self._started + self._seconds

    @property
    def left_s(self) -> float:
        """Seconds until the night ends; negative after it."""
        return self.deadline - time.monotonic()

    @property
    def is_draining(self) -> bool:
        """Whether what is left is kept for finishing what was started."""
        return self.left_s < self._drain_s

    @property
    def usable_s(self) -> float:
        """Seconds until the drain begins, not negative."""
        return max(0.0, self.left_s - self._drain_s)

    @contextlib.contextmanager
    def phase(self, envelope: str, at_most_s: float) -> Generator[Charge]:
        """Reserve ``at_most_s`` for one phase, and settle what it took when it is over."""
        amount = max(0.0, min(at_most_s, self.left_s))
        held = {
            unit: self._ledger.reserve(self._night, envelope, unit, amount)
            for unit in ("wall_s", "device_s")
        }
        charge, began = Charge(), time.monotonic()
        try:
            yield charge
        finally:
            took_s = time.monotonic() - began
            self._charged_s += took_s
            self._ledger.settle(held["wall_s"], took_s)
            self._ledger.settle(held["device_s"], charge.device_s)

    def settle_rest(self) -> None:
        """Charge the wall time that no phase accounts for: git, ledger, Prefect, the student."""
        rest_s = time.monotonic() - self._started - self._charged_s
        self._ledger.settle(self._overhead, max(0.0, rest_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a night works with.

    Attributes:
        night: Its id.
        settings: What was asked for.
        environment: This machine.
        ledger: Where everything is recorded.
        store: Where promotions are committed.
        judge: Who decides.
        student: Who proposes.
        teacher: Who studies the baselines.
        budget: The time there is.
        stop: Whether somebody asked the night to end.
        watcher: Who shows it.
    """

    night: str
    settings: Settings
    environment: Environment
    ledger: Ledger
    store: BaselineStore
    judge: Judge
    student: Student
    teacher: Teacher
    budget: Budget
    stop: Stop
    watcher: Watcher

    @property
    def is_over(self) -> bool:
        """Whether nothing new may be started."""
        return self.stop.is_requested or self.budget.is_draining

    def trying(self, slot: Slot, what: str, call: Callable[[], Made]) -> Made:
        """Return what ``call`` returns, trying again after a fault, which is recorded.

        Raises:
            HarnessFault: It failed ``TRIES`` times; the last one is the caller's to record.
        """
        for left in reversed(range(TRIES)):
            try:
                return call()
            except HarnessFault as fault:
                if not left or self.is_over:
                    raise
                self.record_fault(slot, what, fault)
        raise AssertionError("unreachable: the last try returns or raises")

    def record_fault(self, slot: Slot, what: str, fault: HarnessFault) -> None:
        """Record a fault of ours: it says nothing about a candidate."""
        _log.info("fault in %s of %s: %s", what, slot, fault)
        self.ledger.record_fault(self.night, f"{slot}, {what}: {fault}")
