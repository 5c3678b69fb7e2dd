"""What a commit of the store says: plain prose for a person, then trailers for a program.

Pure. Whatever a student wrote (titles, names) is flattened to one printable line first, so that
it can neither start a trailer nor hide one.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from baselines import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forge.promotion import Promotion, WorkloadLine
    from forge.types import KernelSource, Slot, Speedup

STORE_FORMAT = "1"
_WIDTH = 72
_TITLE_WIDTH = 80
_TRAILER = re.compile(r"([A-Z][A-Za-z-]*): (.*)")
_UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def plain(text: str, width: int = 200) -> str:
    """Return ``text`` as one line of printable characters, at most ``width`` of them."""
    shown = "".join(" " if unicodedata.category(c) in _UNPRINTABLE else c for c in text)
    line = " ".join(shown.split())
    if len(line) <= width:
        return line
    return line[: max(width - 3, 0)].rstrip(" ,;:(") + "..."


def promotion_message(promotion: Promotion) -> str:
    """Return the message of the commit that seals ``promotion``."""
    candidate = promotion.candidate
    slot = candidate.slot
    start = f"{slot.task}: generation {promotion.generation} is "
    start += f"{promotion.speedup.point:.2f}x eager"
    title = plain(candidate.title, _TITLE_WIDTH - len(start) - 3)
    paragraphs = [
        f"{start} ({title})" if title else start,
        *_what_it_is(promotion),
        *_workload_table(promotion),
        *_beside_a_rival(promotion),
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
what it is compared to. The lines at the end (`Promotion-Id: ...`) are git trailers:

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
        "(In brackets: 95 % intervals.)"
    )
    arms = "all three kernels" if before else "both kernels"
    yield _prose(
        f"It was accepted at an error probability of {promotion.alpha:.2g}, then measured anew "
        f"for the figures above: {arms} in random turns, on cold caches and on inputs "
        "none had seen, each output compared with the reference in float64."
    )


def _times(speedup: Speedup) -> str:
    return f"{speedup.point:.2f} times as fast [{speedup.lower:.2f} to {speedup.upper:.2f}]"


def _workload_table(promotion: Promotion) -> Iterable[str]:
    if not promotion.workloads:
        return
    yield _prose(
        f"By workload, against generation {promotion.generation - 1} (above 1 is faster):"
    )
    yield "\n".join(["    ratio   95 % interval   workload", *_rows(promotion.workloads)])


def _rows(workloads: Sequence[WorkloadLine]) -> Iterable[str]:
    for line in workloads:
        ratio, bounds = f"{line.ratio:.2f}x", f"{line.lower:.2f} to {line.upper:.2f}"
        axes = textwrap.wrap(plain(line.axes), _TITLE_WIDTH - 28) or [""]
        yield f"    {ratio:<5}   {bounds:<13}   {axes[0]}".rstrip()
        yield from (" " * 28 + more for more in axes[1:])


def _beside_a_rival(promotion: Promotion) -> Iterable[str]:
    if not promotion.rival or promotion.rival_speedup is None:
        return
    ratio = promotion.rival_speedup
    words = "It loses to" if ratio < 1 else "Beside"
    yield _prose(
        f"{words} {plain(promotion.rival)}, timed live at the heaviest workload: this kernel is "
        f"{ratio:.2f} times as fast."
    )


def _how_to_check(promotion: Promotion) -> str:
    slot = promotion.candidate.slot
    file = f"{layout.folder(slot)}/{promotion.candidate.source.entry}"
    return (
        "To see the evidence, and to measure it again from a checkout of this commit:\n\n"
        f"    forge show {plain(promotion.candidate.id)}\n"
        f"    forge judge --task {slot.task} --target {slot.target} \\\n"
        f"        --against {promotion.generation - 1} {file}"
    )


def _prose(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _trailers(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}: {plain(value)}" for key, value in values.items() if value)
