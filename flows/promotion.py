"""From accepted to sealed, exactly once: intent, commit, swap, sealed.

The ledger says what is meant to happen before the store makes it happen, and what happened
afterwards. The store finds a promotion again by the id in its commit, so a process that dies
anywhere in between is made good by doing the same once more.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from baselines.store import nowhere
from forge.errors import StaleState

if TYPE_CHECKING:
    from collections.abc import Callable

    from baselines.store import BaselineStore
    from forge.promotion import Promotion
    from forge.types import Baseline
    from ledger.store import Ledger

_log = logging.getLogger(__name__)


def promote(
    ledger: Ledger,
    store: BaselineStore,
    promotion: Promotion,
    at: Callable[[str], None] = nowhere,
) -> Baseline:
    """Seal an accepted candidate; again changes nothing.

    Args:
        ledger: Knows the candidate as accepted, or the promotion already.
        store: Where it is sealed.
        promotion: What to seal.
        at: Called between any two durable writes with the name of the point: ``"accepted"``,
            ``"intended"``, ``"committed"``, ``"swapped"``, ``"marked"``, ``"sealed"``.

    Returns:
        The slot's new baseline.

    Raises:
        StaleState: The slot has moved on; the promotion is recorded as superseded.
        UsageError: The store is damaged or was edited by hand; the promotion stays intended, and
            the next start tries it again.
    """
    at("accepted")
    ledger.intend(promotion)
    at("intended")
    try:
        baseline = store.seal(promotion, at)
    except StaleState as stale:
        ledger.mark_superseded(promotion.id, str(stale))
        _log.info("%s: %s is superseded", promotion.candidate.slot, promotion.candidate.id)
        raise
    if any(promotion.id == owed.id for owed, _ in ledger.unsealed_promotions()):
        ledger.mark_committed(promotion.id, baseline.commit)
        at("marked")
        ledger.mark_sealed(promotion.id, baseline.commit)
        at("sealed")
        _log.info("%s: %s is sealed", promotion.candidate.slot, promotion.candidate.id)
    return baseline


def repair(ledger: Ledger, store: BaselineStore) -> list[str]:
    """Finish every promotion and seed that a killed process left half-way.

    Call ``store.recover`` first: a lock of a killed git would stand in the way.

    Returns:
        What was done, one sentence each.

    Raises:
        UsageError: The store is damaged, or a slot to be promoted was edited by hand.
    """
    done: list[str] = []
    known = {slot for slot, _, _ in ledger.seeds()}
    for slot in store.slots():
        if str(slot) not in known:
            seed = store.at_generation(slot, 0)
            ledger.seed_recorded(slot, seed.commit, seed.source.digest)
            done.append(f"Recorded generation 0 of {slot}, which the store had already.")
    for promotion, state in ledger.unsealed_promotions():
        what = f"promotion {promotion.id} of {promotion.candidate.slot} ({state})"
        try:
            baseline = promote(ledger, store, promotion)
        except StaleState as stale:
            done.append(f"Closed {what} as superseded: {stale}")
        else:
            done.append(f"Finished {what} as generation {baseline.generation}.")
    return done
