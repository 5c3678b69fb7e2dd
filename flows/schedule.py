"""Whose turn it is, and for how long. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flows.standing import Standing

# Prefect keeps 19 KB of each step, so a long night gives each step a longer turn.
MOST_STEPS = 400
# What a kernel is taken to reach of the roof while nobody has measured it: half of the way.
UNKNOWN_ROOF_SHARE = 0.5


def first_share_s(usable_s: float, slots_left: int) -> float:
    """Return the seconds of a slot's first turn: an equal share of what is left."""
    return usable_s / max(1, slots_left)


def turn_s(night_s: float) -> float:
    """Return the least length of a turn in a night of ``night_s`` seconds."""
    return night_s / MOST_STEPS


def gain(standing: Standing) -> float:
    """Return how promising another round of a slot is; 0 when there is nothing to try.

    The distance to the roof, halved by each round in a row that sealed nothing.
    """
    if not standing.is_workable:
        return 0.0
    share = UNKNOWN_ROOF_SHARE if standing.roof_share is None else standing.roof_share
    headroom = min(1.0, max(0.02, 1.0 - share))
    return headroom / 2**standing.fruitless


def most_promising(standings: Sequence[Standing]) -> Standing | None:
    """Return the slot whose turn it is after the first pass, or ``None`` if none has any use."""
    best = max(standings, key=gain, default=None)
    return best if best is not None and gain(best) > 0 else None
