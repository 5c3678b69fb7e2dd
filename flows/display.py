"""What a person sees of a night while it runs, on stderr.

A live table on a terminal, lines elsewhere. The table is drawn once a second by a thread of rich:
the judge's clock runs in the same process, but it polls without the interpreter and goes before
other threads, and a drawing takes about 3 ms.
"""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from forge.report.table import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from flows.parts import Watcher
    from flows.standing import Standing

_DRAWINGS_PER_S = 1
_BAR_CELLS = 30


class LineWatcher:
    """Writes a line for each thing that happened; for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._told: dict[str, str] = {}

    def say(self, text: str) -> None:
        """Write one line."""
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def show(self, standings: Sequence[Standing], left_s: float) -> None:
        """Write a line for each slot that has finished a round since it was last shown."""
        for standing in standings:
            line = f"{standing.slot}: {describe(standing)}"
            is_news = standing.rounds and not standing.doing
            if is_news and self._told.get(str(standing.slot)) != line:
                self._told[str(standing.slot)] = line
                self.say(f"{line} ({max(0, left_s):.0f} s left)")


class LiveWatcher:
    """Keeps a table of every slot and a bar of the time that is left on a terminal."""

    def __init__(self, console: Console, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._monotonic = monotonic
        self._standings: dict[str, Standing] = {}
        self._total_s = 0.0
        self._ends = 0.0

    def say(self, text: str) -> None:
        """Print one line above the table."""
        self._console.print(Text(text))

    def show(self, standings: Sequence[Standing], left_s: float) -> None:
        """Remember what the next drawing shows; a standing goes on changing until then."""
        self._standings.update({str(standing.slot): standing for standing in standings})
        self._total_s = max(self._total_s, left_s)
        self._ends = self._monotonic() + left_s

    def draw(self) -> Table:
        """Return the table as it stands."""
        left_s = self._ends - self._monotonic()
        return slots_table(list(self._standings.values()), left_s, self._total_s)


@contextlib.contextmanager
def watcher_for_stderr() -> Generator[Watcher]:
    """Return what suits stderr: a live table on a terminal, lines elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield LineWatcher(sys.stderr)
        return
    watcher = LiveWatcher(console)
    with Live(
        console=console,
        get_renderable=watcher.draw,
        refresh_per_second=_DRAWINGS_PER_S,
        transient=True,
    ):
        yield watcher


def describe(standing: Standing) -> str:
    """Return how a slot stands, in one line."""
    if standing.trouble:
        return f"left alone: {standing.trouble}"
    sealed = "not sealed yet"
    if standing.speedup is not None:
        sealed = f"{standing.speedup.point:.2f}x sealed"
    return (
        f"generation {standing.generation}, {sealed}, "
        f"{counted(standing.tried, 'candidate')} in {counted(standing.rounds, 'round')}"
    )


def slots_table(standings: Sequence[Standing], left_s: float, total_s: float) -> Table:
    """Return the table of every slot, with the time that is left as its caption.

    On a narrow terminal what is being done is cut short, and nothing else.
    """
    targets = {standing.slot.target for standing in standings}
    first = "slot" if len(targets) > 1 else "task"
    caption = f"{budget_bar(left_s, total_s)}; sealed and best are over generation 0"
    table = Table(
        box=None,
        pad_edge=False,
        title=None if len(targets) > 1 else "".join(targets),
        title_justify="left",
        caption=caption,
        caption_justify="left",
    )
    for name in (first, "gen", "tried", "sealed", "best", "now"):
        justify = "left" if name in {first, "now"} else "right"
        # Rich narrows what may wrap before anything else; no cell of "now" does wrap.
        table.add_column(name, no_wrap=name != "now", justify=justify)
    for standing in standings:
        sealed = "-" if standing.speedup is None else f"{standing.speedup.point:.2f}x"
        best = "-" if standing.best is None else f"{standing.best:.2f}x"
        now = standing.trouble or standing.doing
        table.add_row(
            str(standing.slot) if len(targets) > 1 else standing.slot.task,
            str(standing.generation),
            str(standing.tried),
            sealed,
            best,
            Text(
                now, no_wrap=True, overflow="ellipsis", style="bold" if standing.doing else "dim"
            ),
        )
    return table


def budget_bar(left_s: float, total_s: float) -> str:
    """Return the time that is left as a bar and in words."""
    left_s = max(0.0, left_s)
    share = left_s / total_s if total_s > 0 else 0.0
    cells = round(min(1.0, share) * _BAR_CELLS)
    minutes, seconds = divmod(round(left_s), 60)
    return f"{'#' * cells}{'.' * (_BAR_CELLS - cells)} {minutes}:{seconds:02d} left"
