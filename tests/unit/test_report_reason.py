"""Reasons a person reads: what a kernel did wrong, and nothing of the judge's own code."""

from __future__ import annotations

import traceback

from forge.report.reason import indented, shown_reason

CHAINED = """Traceback (most recent call last):
  File "/project/forge/judge/zygote.py", line 120, in _child
    run_arm(spec, fds, native)
    ~~~~~~~^^^^^^^^^^^^^^^^^^^
  File "/scratch/kernel.py", line 4, in helper
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/project/forge/judge/arm.py", line 251, in warm_up
    launch(*arguments[i % n_warm])
  File "/scratch/kernel.py", line 9, in launch
    raise ValueError("no") from None
  File "/usr/lib/python3.11/site-packages/torch/_ops.py", line 12, in call
    return self._op(*args)
ValueError: no
"""


def test_a_traceback_is_the_kernels_frames_and_its_errors():
    assert shown_reason(CHAINED).splitlines() == [
        "kernel.py:4 in helper: return 1 / 0",
        "ZeroDivisionError: division by zero",
        "During handling of the above exception, another exception occurred:",
        'kernel.py:9 in launch: raise ValueError("no") from None',
        "ValueError: no",
    ]


def test_a_traceback_whose_beginning_was_cut_off_begins_at_a_whole_frame():
    cut = CHAINED[CHAINED.index("judge/arm.py") :]
    assert shown_reason(cut).splitlines() == [
        'kernel.py:9 in launch: raise ValueError("no") from None',
        "ValueError: no",
    ]


def test_a_kernel_that_cannot_be_parsed_shows_its_line():
    try:
        compile("def launch(:\n", "/scratch/kernel.py", "exec")
    except SyntaxError:
        text = traceback.format_exc()
    first, last = shown_reason(text).splitlines()
    assert first == "kernel.py:1: def launch(:"
    assert last.startswith("SyntaxError: ")


def test_a_kernel_that_is_not_on_disk_is_known_by_its_name():
    text = 'Traceback (most recent call last):\n  File "<kernel>", line 2, in launch\nKeyError: 1'
    assert shown_reason(text) == "kernel.py:2 in launch\nKeyError: 1"


def test_what_no_traceback_is_in_is_left_alone():
    for text in ("", "0.97x over the baseline", "kernel.cpp:3:1: error: expected\n    3 | }"):
        assert shown_reason(text) == text


def test_an_error_without_a_frame_of_the_kernel_is_its_last_line():
    frame = '  File "/a/arm.py", line 2, in f\n    g()'
    text = f"Traceback (most recent call last):\n{frame}\nOSError: x"
    assert shown_reason(text) == "OSError: x"


def test_every_line_of_a_reason_is_moved_in():
    assert indented("a\n\n b") == ["  a", "", "   b"]
    assert indented("") == []
