"""A decision is a value with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forge.types import Speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Correct everywhere it was tried, and faster at the policy's error."""

    speedup: Speedup


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """Shown not to be worth sealing.

    Attributes:
        check: Id of the check that decided (``forge.judge.checks``).
        reason: One sentence with the values that led to it.
    """

    check: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconclusive:
    """The evidence cannot decide; measure more or stop, but never seal."""

    reason: str


Verdict = Accepted | Rejected | Inconclusive
