"""Ending a night by hand: the first signal asks, the second one insists."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """Whether somebody asked the night to end.

    Attributes:
        is_requested: True from the first request on.
        under_way: Says what is finished before a night that was asked to stop ends.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self.under_way: Callable[[], str] = lambda: "what is under way"

    def request(self) -> None:
        """Ask the night to end: it starts nothing more, and closes what it has started."""
        self.is_requested = True


@contextlib.contextmanager
def stop_on_signals(stop: Stop, tell: Callable[[str], None]) -> Generator[None]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into a request; the second raises at once.

    Only the main thread may take signals; elsewhere whoever runs the night requests the stop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.is_requested:
            raise KeyboardInterrupt(signal.Signals(number).name)
        stop.request()
        tell(
            f"Stopping, after {stop.under_way()}. Once more ends at once; what is sealed stays "
            "sealed either way."
        )

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def sparing_children() -> Generator[None]:
    """Keep the signals from processes that are started meanwhile; ours come when it is over.

    A terminal sends Ctrl-C to every process of the night. The judge's must go on, for the
    measurement under way is finished first; they end when the night closes their channel.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
