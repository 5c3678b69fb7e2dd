"""Plots of one line each, because people would rather look than read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"
_MARGIN = 1.05
_GAIN_TICKS = (1, 2, 4, 8, 16)
CELLS_PER_DOUBLING = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A logarithmic axis for ratios: 2x as fast is as far from 1x as half as fast.

    Attributes:
        low: Ratio at the left end.
        high: Ratio at the right end.
        width: Characters from end to end.
    """

    low: float
    high: float
    width: int = 30

    def column(self, ratio: float) -> int:
        """Return the column of ``ratio``, the nearest end if it lies outside."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return round(max(0.0, min(1.0, share)) * (self.width - 1))

    def ruler(self) -> str:
        """Return the axis: 1x, and each end that leaves it room."""
        line = [" "] * self.width
        for ratio in (1.0, self.low, self.high):
            text = f"{ratio:.2g}x"
            start = min(self.column(ratio), self.width - len(text))
            around = line[max(0, start - 1) : start + len(text) + 1]
            if not "".join(around).strip():
                line[start : start + len(text)] = text
        return "".join(line).rstrip()


def scale_for(ratios: Iterable[float], width: int = 30) -> Scale:
    """Return a scale that holds ``ratios`` and 1x with a little room."""
    known = [1.0, *ratios]
    return Scale(low=min(known) / _MARGIN, high=max(known) * _MARGIN, width=width)


def interval_plot(point: float, lower: float, upper: float, scale: Scale) -> str:
    """Return ``├──●──┤`` on ``scale``, with a thin line where 1x is.

    An end that lies outside the scale is drawn as an arrow.
    """
    line = [" "] * scale.width
    if scale.low <= 1.0 <= scale.high:
        line[scale.column(1.0)] = "┊"
    first, last = scale.column(lower), scale.column(upper)
    line[first : last + 1] = "─" * (last - first + 1)
    line[first] = "◂" if lower < scale.low else "├"
    line[last] = "▸" if upper > scale.high else "┤"
    line[scale.column(point)] = "●"
    return "".join(line)


def gain_ruler() -> str:
    """Return the axis of :func:`gain_bar`: 1x to 16x."""
    line = ""
    for doublings, ratio in enumerate(_GAIN_TICKS):
        line = line.ljust(doublings * CELLS_PER_DOUBLING) + f"{ratio}x"
    return line


def gain_bar(ratio: float) -> str:
    """Return what ``ratio`` gains over 1x as a bar, on one scale wherever it is drawn.

    The scale is logarithmic. Less than 1x is no bar, more than it holds ends in an arrow.
    """
    cells = CELLS_PER_DOUBLING * (len(_GAIN_TICKS) - 1)
    share = math.log2(ratio) / (len(_GAIN_TICKS) - 1)
    return bar(share, cells) + ("▸" if share > 1 else "")


def interval_text(point: float, lower: float, upper: float) -> str:
    """Return a ratio and its 95 % interval as every report writes them."""
    return f"{point:.2f}x [{lower:.2f}, {upper:.2f}]"


def bar(share: float, width: int = 10) -> str:
    """Return ``share`` of ``width`` cells filled, to an eighth of a cell; 1 and more is full."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    text = _FULL * (eighths // 8) + (_PARTS[eighths % 8] if eighths % 8 else "")
    return text + "░" * (width - len(text))
