"""Holdouts: workloads that nobody who writes kernels can foresee, drawn with a slot's secret."""

from __future__ import annotations

import hashlib
import math
from random import Random
from typing import TYPE_CHECKING, TypeVar

from forge.tasks.model import Task, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

# The ugliest first, so that even a single holdout is an ugly one: no vector width divides it.
_KINDS = ("odd", "edge", "free", "odd", "round", "edge")
_ROUND = 64


def draw_holdouts(task: Task, secret: bytes, count: int) -> tuple[Workload, ...]:
    """Return ``count`` workloads within the task's holdout rules, the same for the same secret.

    Every legal distribution comes before any comes twice, and so does every offset; shapes are
    odd, at an edge of their ranges (one row, one column), round, or anything, in turn.
    """
    digest = hashlib.sha256(b"holdouts\0" + task.name.encode() + b"\0" + secret).digest()
    random = Random(int.from_bytes(digest, "big"))  # noqa: S311 - the seed is the secret
    distributions = _deal(task.holdouts.distributions, count, random)
    offsets = _deal(task.holdouts.offsets, count, random)
    return tuple(
        Workload(
            axes=_axes(task, _KINDS[index % len(_KINDS)], random),
            distribution=distributions[index],
            offset=offsets[index],
            split="holdout",
        )
        for index in range(count)
    )


def _deal(options: Sequence[T], count: int, random: Random) -> list[T]:
    """Return ``count`` options, reshuffled each time all of them were dealt."""
    dealt: list[T] = []
    while len(dealt) < count:
        dealt += random.sample(options, len(options))
    return dealt[:count]


def _axes(task: Task, kind: str, random: Random) -> dict[str, int]:
    strides = task.stride_axes
    free = [axis for axis in task.var_axes if axis not in strides]
    edge = random.choice(free) if kind == "edge" else None
    axes: dict[str, int] = {}
    for axis in free:
        low, high = task.holdouts.ranges[axis]
        if axis == edge:
            axes[axis] = random.choice((low, low, high))
        else:
            axes[axis] = _SIZES.get(kind, _free)(low, high, random)
    extra = {stride: random.randint(*task.holdouts.ranges[stride]) for stride in strides}
    return _within(task, axes, extra, keep=edge)


def _within(
    task: Task, axes: dict[str, int], extra: dict[str, int], keep: str | None
) -> dict[str, int]:
    """Shrink the largest axis, ``keep`` last, until the workload has few enough elements."""
    ranges = task.holdouts.ranges
    while True:
        whole = task.resolve(axes | extra | _strides(task, axes, extra))
        if task.elements(whole) <= task.holdouts.max_elements:
            return {axis: whole[axis] for axis in task.var_axes}
        room = [axis for axis in axes if axes[axis] > ranges[axis][0]]
        if room:
            largest = max(room, key=lambda axis: (axis != keep, axes[axis]))
            axes[largest] = max(ranges[largest][0], (axes[largest] * 3 // 4) | (axes[largest] & 1))
        else:
            extra = {stride: ranges[stride][0] for stride in extra}


def _strides(task: Task, axes: dict[str, int], extra: dict[str, int]) -> dict[str, int]:
    """Return each row stride: its last dimension and what lies beyond."""
    lasts = task.stride_axes
    if not extra:
        return {}
    whole = task.resolve(axes | dict.fromkeys(extra, 2**31))
    return {stride: whole[lasts[stride]] + beyond for stride, beyond in extra.items()}


def _free(low: int, high: int, random: Random) -> int:
    """Any size, small ones as likely as large ones (log-uniform)."""
    low = max(1, low)
    size = math.exp(random.uniform(math.log(low), math.log(high + 1)))
    return min(high, max(low, int(size)))


def _odd(low: int, high: int, random: Random) -> int:
    size = _free(low, high, random)
    return size if size % 2 else max(low, size - 1)


def _round(low: int, high: int, random: Random) -> int:
    size = _free(low, high, random)
    return max(low, size - size % _ROUND) if size > _ROUND else size


_SIZES: dict[str, Callable[[int, int, Random], int]] = {"odd": _odd, "round": _round}
