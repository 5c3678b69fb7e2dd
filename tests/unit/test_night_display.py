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
    for word in ("softmax", "cpu-1t", "2", "7", "1.50x", "confirming x", "0:30 left"):
        assert word in text


def test_a_narrow_terminal_cuts_only_what_is_being_done():
    console = Console(width=60, file=io.StringIO())
    speedup = Speedup(point=1.75, lower=1.7, upper=1.8)
    row = standing(generation=2, tried=17, best=1.5, speedup=speedup, doing="confirming " * 9)
    console.print(slots_table([row], 30, 60))
    heading, cells = console.file.getvalue().splitlines()[1:3]
    assert heading.split() == ["task", "gen", "tried", "sealed", "best", "now"]
    assert cells.split()[:6] == ["softmax", "2", "17", "1.75x", "1.50x", "confirming"]
    assert cells.rstrip().endswith("…")


def test_slots_of_two_targets_are_told_apart():
    console = Console(width=120, file=io.StringIO())
    other = Standing(slot=Slot(task="softmax", target="gpu"), task=None)
    console.print(slots_table([standing(), other], 30, 60))
    assert "softmax/cpu-1t" in console.file.getvalue()
    assert "softmax/gpu" in console.file.getvalue()


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
