"""The states of a candidate and the only moves between them.

A state is a durable fact. Work in progress is a lease, never a state, so a killed process
leaves no candidate half-way.
"""

from __future__ import annotations

from enum import StrEnum


class CandidateState(StrEnum):
    """Where a candidate stands.

    ``WAITING`` passed its screen and is owed a confirmation; ``ACCEPTED`` is owed a seal.
    """

    PROPOSED = "proposed"
    WAITING = "waiting"
    ACCEPTED = "accepted"
    SEALED = "sealed"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"

    @property
    def is_final(self) -> bool:
        """Whether no move leaves this state."""
        return not MOVES[self]


S = CandidateState

MOVES: dict[CandidateState, frozenset[CandidateState]] = {
    S.PROPOSED: frozenset({S.WAITING, S.REJECTED, S.INCONCLUSIVE, S.SUPERSEDED, S.ABANDONED}),
    S.WAITING: frozenset({S.ACCEPTED, S.REJECTED, S.INCONCLUSIVE, S.SUPERSEDED, S.ABANDONED}),
    S.ACCEPTED: frozenset({S.SEALED, S.REJECTED, S.SUPERSEDED, S.ABANDONED}),
    S.SEALED: frozenset(),
    S.REJECTED: frozenset(),
    S.INCONCLUSIVE: frozenset(),
    S.SUPERSEDED: frozenset(),
    S.ABANDONED: frozenset(),
}


def check_move(old: CandidateState, new: CandidateState) -> None:
    """Raise ``ValueError`` unless the table allows the move from ``old`` to ``new``."""
    if new not in MOVES[old]:
        allowed = ", ".join(sorted(MOVES[old])) or "none, it is final"
        raise ValueError(f"A candidate cannot go from {old} to {new}; allowed: {allowed}.")
