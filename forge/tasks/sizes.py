"""How much memory a task takes, so that one too large is refused before it is tried.

The figure is what the judge holds of one workload at least; what fits may still be slow.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

from forge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from forge.tasks.load import LoadedTask
    from forge.tasks.model import Task, TensorSpec

# A burst has at least eight calls on buffers of their own, and two more warm it up.
_CALLS = 10
# Of each input element: the draw that is kept, and the one that arms read.
_INPUT_BYTES = 2 * 4
# Of each output element: its value in float64, the allowed error, and one output an arm.
_OUTPUT_BYTES = 8 + 4 + 3 * 4
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_GIB = 2**30


def refuse_too_large(tasks: Iterable[LoadedTask], limit_bytes: int | None = None) -> None:
    """Raise unless every workload of every task fits into this machine's memory.

    Args:
        tasks: What is to be measured or checked.
        limit_bytes: The memory there is; this machine's if not given.

    Raises:
        UsageError: One does not; the message names it, what it needs and what there is.
    """
    limit = memory_bytes() if limit_bytes is None else limit_bytes
    for loaded in tasks:
        for name, needed in needs(loaded.task):
            if needed > limit:
                raise UsageError(
                    f"{name} of task {loaded.task.name} needs about {_gib(needed)} GiB of memory, "
                    f"and this machine has {_gib(limit)} GiB: make it smaller in "
                    f"{loaded.folder / 'task.toml'}."
                )


def needs(task: Task) -> list[tuple[str, int]]:
    """Return what each workload and the largest holdout are called, and the bytes they take."""
    found: list[tuple[str, int]] = []
    for workload in task.workloads:
        axes = " ".join(f"{name}={value}" for name, value in workload.axes.items())
        found.append((f"Workload {axes}", _needed(task, task.resolve(workload.axes))))
    tensors = len(task.inputs) * _INPUT_BYTES + len(task.outputs) * _OUTPUT_BYTES
    largest = _largest_holdout(task)
    found.append((f"A holdout of {largest} elements", largest * tensors * _CALLS))
    return found


def memory_bytes() -> int:
    """Return the memory that this process may use: the machine's, or its container's."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(machine, int(_CGROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return machine


def _largest_holdout(task: Task) -> int:
    """Return the elements of the largest tensor that a holdout may have."""
    high = {axis: top for axis, (_, top) in task.holdouts.ranges.items()}
    try:
        whole = task.resolve(task.with_strides(high))
    except ValueError:
        # The high ends do not go together; the rule on elements still holds.
        return task.holdouts.max_elements
    return min(task.holdouts.max_elements, task.elements(whole))


def _needed(task: Task, axes: Mapping[str, int]) -> int:
    inputs = sum(_elements(spec, axes) for spec in task.inputs.values())
    outputs = sum(_elements(spec, axes) for spec in task.outputs.values())
    return (inputs * _INPUT_BYTES + outputs * _OUTPUT_BYTES) * _CALLS


def _elements(spec: TensorSpec, axes: Mapping[str, int]) -> int:
    """Return the elements a tensor spans, the room between its rows included."""
    return (
        math.prod(axes[name] for name in spec.shape[:-1]) * axes[spec.row_stride or spec.shape[-1]]
    )


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f}"
