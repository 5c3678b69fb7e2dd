"""What a commit of the store says: plain prose for a person, then trailers for a program.

Pure. Whatever a student wrote (titles, names) is flattened to one printable line first, so that
it can neither start a trailer nor hide one.
"""

from __future__ import annotations

import math
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from baselines import layout
from forge.types import Speedup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forge.promotion import Promotion, RivalLine, WorkloadLine
    from forge.types import KernelSource, Slot

STORE_FORMAT = "1"
_WIDTH = 72
_LEAST_TITLE = 12
_CUT = "..."
_INDENT = " " * 4
_TRAILER = re.compile(r"([A-Z][A-Za-z-]*): (.*)")
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str, width: int = 200) -> str:
    """Return ``text`` as one line of printable characters, at most ``width`` of them."""
    shown = "".join(" " if unicodedata.category(c) in _UNPRINTABLE else c for c in text)
    line = " ".join(shown.split())
    if len(line) <= width:
        return line
    return line[: max(width - len(_CUT), 0)].rstrip(" ,;:(") + _CUT


def headline(start: str, title: str) -> str:
    """Return ``start (title)`` on one line of a commit's width.

    A title that is too long is cut after a part of it, or after a word where that leaves little.
    """
    room = _WIDTH - len(start) - len(" ()")
    shown = plain(title)
    if not shown or room < _LEAST_TITLE:
        return start
    if len(shown) > room:
        most = room - len(_CUT)
        part = re.match(rf"(.{{{most // 2},{most}}})[,;:] ", shown)
        words = part or re.match(rf"(.{{1,{most}}})[ ,;:]", shown)
        shown = words[1].rstrip(" ,;:(") + _CUT if words else plain(shown, room)
    return f"{start} ({shown})"


def promotion_message(promotion: Promotion) -> str:
    """Return the message of the commit that seals ``promotion``."""
    candidate = promotion.candidate
    slot = candidate.slot
    start = f"{slot.task}: generation {promotion.generation} is "
    start += f"{promotion.speedup.point:.2f}x eager"
    paragraphs = [
        headline(start, candidate.title),
        *_what_it_is(promotion),
        *_workload_table(promotion),
        *_beside_rivals(promotion),
        _measured_on(promotion),
        _how_to_check(promotion),
        _trailers(
            {
                "Promotion-Id": promotion.id,
                "Task": slot.task,
                "Target": slot.target,
                "Generation": str(promotion.generation),
                "Candidate": candidate.id,
                "Parent": promotion.parent,
                "Speedup": figure(promotion.speedup.point),
                "Speedup-Lower": figure(promotion.speedup.lower),
                "Speedup-Upper": figure(promotion.speedup.upper),
                "Speedup-Over-Parent": figure(promotion.over_parent.point),
                "Source-Digest": candidate.source.digest,
                "Evidence": promotion.evidence,
                "Chain-Head": promotion.chain_head,
                "Night": promotion.night,
                "Student": candidate.student,
                "Environment": promotion.environment,
                "Model": promotion.model,
                "Cost-Usd": f"{promotion.cost_usd:.4f}",
            }
        ),
    ]
    return "\n\n".join(paragraphs) + "\n"


def seed_message(slot: Slot, source: KernelSource, task_digest: str) -> str:
    """Return the message of the commit that makes ``source`` generation 0 of ``slot``."""
    paragraphs = [
        f"{slot.task}: generation 0, the reference run eagerly",
        _prose(
            f"Where {slot.task} starts on {slot.target}: its reference in plain PyTorch, run "
            "eagerly, one operation after the other. It says what is correct, and every "
            'later "times eager" is measured against it.'
        ),
        _trailers(
            {
                "Task": slot.task,
                "Target": slot.target,
                "Generation": "0",
                "Source-Digest": source.digest,
                "Task-Digest": task_digest,
            }
        ),
    ]
    return "\n\n".join(paragraphs) + "\n"


def start_message() -> str:
    """Return the message of the store's first commit."""
    paragraphs = [
        "Start a store of sealed kernels",
        _prose("README.md says how to read it."),
        _trailers({"Store-Format": STORE_FORMAT}),
    ]
    return "\n\n".join(paragraphs) + "\n"


def figure(value: float) -> str:
    """Return a speedup as trailers write it."""
    return f"{value:.4f}"


def parse_trailers(message: str) -> dict[str, str]:
    """Return the trailers of a commit message; empty unless its last paragraph is all trailers."""
    lines = message.rstrip("\n").rpartition("\n\n")[2].split("\n")
    found = [_TRAILER.fullmatch(line) for line in lines]
    if any(match is None for match in found):
        return {}
    return {match[1]: match[2] for match in found if match is not None}


def readme() -> str:
    """Return the text of ``README.md`` at the root of the store."""
    return f"""# Sealed kernels

Every kernel here was measured to be faster than the one before it, checked against its
reference in float64, and committed by Everforge. One branch, `{layout.BRANCH_NAME}`; one
commit per kernel; nothing is ever rewritten.

| to see | type |
|---|---|
| what became faster, newest first | `git log --oneline` |
| how one task got there, kernel by kernel | `git log -p -- softmax/` |
| the kernel in force | the files in `<task>/<target>/` |
| generation 3 of a task | `git show softmax/<target>/g3` |
| all generations | `git tag` |
| a figure, for a program | `git log --format='%h %(trailers:key=Speedup,valueonly)'` |

**Folders.** `<task>/<target>/`: a task is an operation with its contract; a target is a model
of device with its instruction set and threads (`-8t`: eight). `kernel.cpp`, `kernel.cu` or
`kernel.py` defines `launch`. Generation 0 is `reference.py`, the task in plain PyTorch, which
says what is correct and is run eagerly wherever a speedup is called "times eager".

**Messages.** A figure such as 1.84x is the time of the other kernel over the time of this one,
with its 95 % interval, measured anew after the kernel had been accepted, in random turns with
what it is compared to: above 1 this kernel is the faster one, a rival's figure included. A speedup
is the weighted geometric mean over the task's workloads; rivals (the reference run eagerly, or by
torch.compile) are timed at the heaviest workload alone. The lines at the end
(`Promotion-Id: ...`) are git trailers:

| trailer | means |
|---|---|
| `Task`, `Target`, `Generation` | which kernel this is |
| `Parent` | the commit of the generation before |
| `Speedup`, `Speedup-Lower`, `Speedup-Upper` | times generation 0, and its 95 % interval |
| `Speedup-Over-Parent` | times the generation before |
| `Source-Digest` | SHA-256 over the files' paths and texts |
| `Evidence` | SHA-256 of the raw measurements, kept in `evidence/` beside the store |
| `Chain-Head` | the ledger's last event when the kernel was sealed: it pins all events before |
| `Candidate`, `Night`, `Student`, `Model`, `Cost-Usd` | who wrote it, when, at what cost |
| `Environment` | id of the machine, compiler and libraries it was measured with |
| `Promotion-Id` | unique; a kernel is sealed once |

**Do not edit it.** A commit of another hand is found by `forge audit`, and a folder changed by
hand is not built upon.
"""


def _what_it_is(promotion: Promotion) -> Iterable[str]:
    slot = promotion.candidate.slot
    before = promotion.generation - 1
    replaced = (
        f", and {_times(promotion.over_parent)} as generation {before}, which it replaces"
        if before
        else ""
    )
    yield _prose(
        f"A kernel for {slot.task} on {slot.target}, by the student "
        f"{plain(promotion.candidate.student)}. It is {_times(promotion.speedup)} as "
        f"generation 0, the task's reference run eagerly by PyTorch{replaced}. "
        "(Weighted geometric means over the workloads; in brackets, 95 % intervals.)"
    )
    arms = "all three kernels" if before else "both kernels"
    yield _prose(
        "It was accepted by a test that lets a kernel pass that is not faster with a probability "
        f"of at most {promotion.alpha:.2g}, then measured anew for the figures above: {arms} in "
        "random turns, on cold caches and on inputs none had seen, each output compared with the "
        "reference in float64."
    )


def _times(speedup: Speedup) -> str:
    return f"{speedup.point:.2f} times as fast [{speedup.lower:.2f} to {speedup.upper:.2f}]"


def _workload_table(promotion: Promotion) -> Iterable[str]:
    if not promotion.workloads:
        return
    has_times = any(line.time_ns is not None for line in promotion.workloads)
    also = ", and this kernel's median time a call" if has_times else ""
    yield _prose(
        f"By workload, against generation {promotion.generation - 1} (above 1 is faster){also}:"
    )
    head = f"{_INDENT}ratio   95 % interval   " + f"{'time':<9}   " * has_times
    yield "\n".join([f"{head}workload", *_rows(promotion.workloads, len(head))])


def _rows(workloads: Sequence[WorkloadLine], indent: int) -> Iterable[str]:
    for line in workloads:
        ratio, bounds = f"{line.ratio:.2f}x", f"{line.lower:.2f} to {line.upper:.2f}"
        time = "" if line.time_ns is None else duration(line.time_ns)
        start = f"{_INDENT}{ratio:<5}   {bounds:<13}   {time}".ljust(indent)
        axes = textwrap.wrap(plain(line.axes), _WIDTH - indent) or [""]
        yield (start + axes[0]).rstrip()
        yield from (" " * indent + more for more in axes[1:])


def duration(time_ns: float) -> str:
    """Return a time with three digits and the unit that suits it."""
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if time_ns >= size_ns:
            value = time_ns / size_ns
            return f"{value:.{max(0, 2 - int(math.log10(value)))}f} {unit}"
    return f"{time_ns:.0f} ns"


def _beside_rivals(promotion: Promotion) -> Iterable[str]:
    said = [f"{_times(_speedup(line))} as {plain(line.name)}" for line in promotion.rivals]
    lost = [plain(line.name) for line in promotion.rivals if line.ratio < 1]
    if not said and promotion.rival and promotion.rival_speedup is not None:
        said = [f"{promotion.rival_speedup:.2f} times as fast as {plain(promotion.rival)}"]
        lost = [plain(promotion.rival)] if promotion.rival_speedup < 1 else []
    if not said:
        return
    loses = f"It loses to {' and '.join(lost)}. " if lost else ""
    yield _prose(
        f"{loses}Timed live beside its rivals, at the heaviest workload alone (the one that moves "
        f"the most bytes), it is {', and '.join(said)}."
    )


def _speedup(line: RivalLine) -> Speedup:
    return Speedup(point=line.ratio, lower=line.lower, upper=line.upper)


def _measured_on(promotion: Promotion) -> str:
    environment = f"environment {plain(promotion.environment)}"
    if not promotion.machine:
        return f"Measured in {environment}."
    return _prose(f"Measured on {plain(promotion.machine, 400)} ({environment}).")


def _how_to_check(promotion: Promotion) -> str:
    slot = promotion.candidate.slot
    tag = layout.tag(slot, promotion.generation).removeprefix(layout.TAGS)
    file = f"{layout.folder(slot)}/{promotion.candidate.source.entry}"
    intro = _prose(
        "To see the evidence, and to measure it again on such a machine, in the folder that has "
        "the workspace .forge/:"
    )
    commands = [
        f"forge show {plain(promotion.candidate.id)}",
        "git clone -q .forge/baselines.git sealed",
        f"git -C sealed checkout -q {tag}",
        f"forge judge --task {slot.task} --target {slot.target} \\",
        f"    --against {promotion.generation - 1} sealed/{file}",
    ]
    return f"{intro}\n\n" + "\n".join(_INDENT + command for command in commands)


def _prose(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _trailers(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}: {plain(value)}" for key, value in values.items() if value)
