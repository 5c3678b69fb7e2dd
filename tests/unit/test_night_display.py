import io

from rich.console import Console

from flows.display import LineWatcher, LiveWatcher, budget_bar, slots_table
from flows.standing import Standing
from forge.types import Slot, Speedup


def standing(**fields):
    return Standing(slot=Slot(task="softmax", target="cpu-1t"), task=None, **fields)


def test_the_bar_empties():
    assert budget_bar(60, 120) == "#" * 15 + "." * 15 + " 1:00 left"
    assert budget_bar(-5, 120) == "." * 30 + " 0:00 left"


def test_a_pipe_gets_a_line_for_each_round_and_no_more():
    stream = io.StringIO()
    watcher = LineWatcher(stream)
    done = standing(rounds=1, tried=4, generation=1, speedup=Speedup(point=2, lower=1, upper=3))
    watcher.show([standing(doing="screening")], 10)
    watcher.show([done], 10)
    watcher.show([done], 9)
    assert stream.getvalue() == (
        "softmax/cpu-1t: generation 1, 2.00x sealed, 4 candidates in 1 round (10 s left)\n"
    )


def test_the_table_shows_every_slot():
    console = Console(width=120, file=io.StringIO())
    row = standing(generation=2, tried=7, best=1.5, doing="confirming x", trouble="")
    console.print(slots_table([row], 30, 60))
    text = console.file.getvalue()
    for word in ("softmax/cpu-1t", "2", "7", "1.50x", "confirming x", "0:30 left"):
        assert word in text


def test_a_drawing_shows_a_standing_as_it_is_then():
    now = [100.0]
    watcher = LiveWatcher(Console(file=io.StringIO()), monotonic=lambda: now[0])
    row = standing(doing="calibrating")
    watcher.show([row], 60)
    row.doing, now[0] = "confirming x", 130.0
    console = Console(width=120, file=io.StringIO())
    console.print(watcher.draw())
    assert "confirming x" in console.file.getvalue()
    assert "0:30 left" in console.file.getvalue()
