"""Holdouts: workloads that nobody who writes kernels can foresee, drawn with a slot's secret."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, TypeVar

from forge.tasks.model import Task, Workload
from forge.types import content_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

# The ugliest first, so that even a single holdout is an ugly one: no vector width divides it.
_KINDS = ("odd", "edge", "free", "odd", "round", "edge")
_ROUND = 64


def draw_holdouts(task: Task, secret: bytes, count: int) -> tuple[Workload, ...]:
    """Return ``count`` workloads within the task's holdout rules, the same for the same secret.

    Fewer of them are the first of more.
    Every legal distribution comes before any comes twice, and so does every offset; shapes are
    odd, at an edge of their ranges (one row, one column), round, or anything, in turn.
    """
    distributions = _deal(
        task.holdouts.distributions, count, _random(task, secret, "distributions")
    )
    offsets = _deal(task.holdouts.offsets, count, _random(task, secret, "offsets"))
    random = _random(task, secret, "shapes")
    return tuple(
        Workload(
            axes=_axes(task, _KINDS[index % len(_KINDS)], random),
            distribution=distributions[index],
            offset=offsets[index],
            split="holdout",
        )
        for index in range(count)
    )


def _random(task: Task, secret: bytes, purpose: str) -> Random:
    """Return a stream of its own for each purpose, so that none shifts another."""
    digest = content_digest(b"holdouts", task.name.encode(), purpose.encode(), secret)
    return Random(int(digest, 16))  # noqa: S311 - the seed is the secret


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
        whole = task.with_strides(axes | extra)
        if task.elements(task.resolve(whole)) <= task.holdouts.max_elements:
            return {axis: whole[axis] for axis in task.var_axes}
        room = [axis for axis in axes if axes[axis] > ranges[axis][0]]
        if room:
            largest = max(room, key=lambda axis: (axis != keep, axes[axis]))
            axes[largest] = _smaller(axes[largest], ranges[largest][0])
        else:
            extra = {stride: ranges[stride][0] for stride in extra}


def _smaller(size: int, low: int) -> int:
    """Return about three quarters of ``size``, less than it; odd for an odd one if it can."""
    less = max(low, size * 3 // 4)
    return less - 1 if size % 2 > less % 2 and less > low else less


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
