"""Columns of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "


def columns(rows: Sequence[Sequence[str]], right: str = "") -> list[str]:
    """Return ``rows`` as lines with aligned columns.

    Args:
        rows: Cells; a row may be shorter than the others.
        right: One character a column, ``r`` for one that is flush right; the rest is flush left.
    """
    count = max((len(row) for row in rows), default=0)
    widths = [max((len(row[i]) for row in rows if i < len(row)), default=0) for i in range(count)]
    return [
        _GAP.join(
            cell.rjust(width) if right[i : i + 1] == "r" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ).rstrip()
        for row in rows
    ]


def counted(number: int, noun: str) -> str:
    """Return ``1 round``, ``2 rounds``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
