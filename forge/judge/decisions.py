"""Which frozen module reads which evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from forge.errors import UsageError
from forge.judge import decision_v1

if TYPE_CHECKING:
    from forge.judge.decision_v1 import Summary
    from forge.judge.evidence import Evidence
    from forge.verdict import Verdict

CURRENT = decision_v1.VERSION


class Decision(Protocol):
    """A decision module: pure functions of evidence, never changed once evidence cites them."""

    def decide(self, evidence: Evidence) -> Verdict:
        """Return the verdict; ``ValueError`` for malformed evidence."""
        ...

    def summarise(self, evidence: Evidence) -> Summary:
        """Return the numbers; ``ValueError`` for malformed evidence."""
        ...


DECISIONS: dict[str, Decision] = {decision_v1.VERSION: decision_v1}


def decision_for(evidence: Evidence) -> Decision:
    """Return the module that ``evidence`` names.

    Raises:
        UsageError: This installation has no such module; the evidence is of a newer one.
    """
    if evidence.decision not in DECISIONS:
        raise UsageError(
            f"Evidence was taken for decision {evidence.decision!r}, and this installation knows"
            f" {sorted(DECISIONS)}; use the version of forge that recorded it."
        )
    return DECISIONS[evidence.decision]


def decide(evidence: Evidence) -> Verdict:
    """Return the verdict on ``evidence`` by the module of its version."""
    return decision_for(evidence).decide(evidence)


def summarise(evidence: Evidence) -> Summary:
    """Return the numbers of ``evidence`` by the module of its version."""
    return decision_for(evidence).summarise(evidence)
