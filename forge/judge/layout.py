"""Where each buffer of a burst lies in shared memory. Pure: sizes in, offsets out.

Every buffer stands between two guards that hold the poison pattern, so that a write beside it
shows and a read beside it contaminates the result. All arms use the same offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.tasks.model import Task, TensorSpec

ITEM_BYTES = {"float32": 4, "int32": 4, "int64": 8, "bool": 1}
GUARD_BYTES = 192
PAGE = 4096


class Region(BaseModel):
    """One tensor of one call in shared memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    start: int
    """Byte offset of its first element."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, as torch counts them."""
    dtype: str

    @property
    def span_bytes(self) -> int:
        """Bytes from the first to one past the last element."""
        if 0 in self.shape:
            return 0
        last = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]


class Layout(BaseModel):
    """The buffers of a number of calls in one shared memory file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    calls: tuple[tuple[Region, ...], ...]
    size: int
    """Bytes of the file, a multiple of the page size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstLayout:
    """Inputs and outputs of one burst; outputs lie in a file of each arm's own."""

    inputs: Layout
    outputs: Layout


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def strides_of(spec: TensorSpec, shape: Sequence[int], axes: Mapping[str, int]) -> tuple[int, ...]:
    """Return the strides of a tensor whose rows may lie apart (``row_stride``), in elements."""
    strides = contiguous_strides(shape)
    if spec.row_stride is None or len(shape) < 2:
        return strides
    step = axes[spec.row_stride]
    outer: list[int] = []
    for n in reversed(shape[:-1]):
        outer.append(step)
        step *= max(n, 1)
    return (*reversed(outer), 1)


def plan(task: Task, axes: Mapping[str, int], offset: int, calls: int) -> BurstLayout:
    """Lay out ``calls`` calls of a workload.

    Args:
        task: Whose tensors.
        axes: Every axis with its value (``Task.resolve``).
        offset: Elements by which every buffer is moved off its 64-byte alignment.
        calls: Number of calls, each on buffers of its own.
    """
    return BurstLayout(
        inputs=_lay(list(task.inputs.values()), task, axes, (offset, calls)),
        outputs=_lay(list(task.outputs.values()), task, axes, (offset, calls)),
    )


def _lay(
    specs: Sequence[TensorSpec], task: Task, axes: Mapping[str, int], how: tuple[int, int]
) -> Layout:
    offset, calls = how
    cursor = GUARD_BYTES
    rows: list[tuple[Region, ...]] = []
    for _ in range(calls):
        row: list[Region] = []
        for spec in specs:
            shape = task.shape(spec, axes)
            start = -(-cursor // 64) * 64 + offset * ITEM_BYTES[spec.dtype]
            region = Region(
                start=start,
                shape=tuple(shape),
                strides=strides_of(spec, shape, axes),
                dtype=spec.dtype,
            )
            cursor = start + region.span_bytes + GUARD_BYTES
            row.append(region)
        rows.append(tuple(row))
    return Layout(calls=tuple(rows), size=-(-cursor // PAGE) * PAGE)


def guards(layout: Layout) -> list[tuple[int, int]]:
    """Return the byte ranges between and around the buffers, as (start, end), whole words only."""
    ranges: list[tuple[int, int]] = []
    cursor = 0
    for region in (region for call in layout.calls for region in call):
        ranges.append((_up(cursor), region.start // 4 * 4))
        cursor = region.start + region.span_bytes
    ranges.append((_up(cursor), layout.size))
    return [(start, end) for start, end in ranges if end > start]


def _up(offset: int) -> int:
    return -(-offset // 4) * 4


def burst_calls(bytes_per_call: int, burst_bytes: int) -> int:
    """Return how many calls a burst has, from the task alone, never from a candidate.

    At least 4 draws (docs/decisions/0003); small calls are repeated up to 256 times, until a
    burst moves ``burst_bytes``: what a burst's start adds (a stopped arm wakes up, its first call
    finds cold code) varies by tens of microseconds and must stay small beside it.
    """
    wanted = -(-burst_bytes // max(bytes_per_call, 1))
    return max(4, min(256, wanted))


def as_json(layout: Layout) -> dict[str, Any]:
    """Return the layout as plain JSON, for the processes that map it."""
    return layout.model_dump(mode="json")
