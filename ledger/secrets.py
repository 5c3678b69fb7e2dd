"""The secrets that holdouts are drawn with: readable here and nowhere else, until retired."""

from __future__ import annotations

import secrets as randomness
from typing import TYPE_CHECKING

from forge.errors import StaleState
from ledger.journal import Journal

if TYPE_CHECKING:
    from forge.types import Slot

_BYTES = 32


class Secrets(Journal):
    """One secret per slot and generation. No query, event or log holds one that is in use."""

    def secret(self, slot: Slot, generation: int) -> bytes:
        """Return the 32 secret bytes of a slot's generation, made when first asked for."""
        key = (slot.task, slot.target, generation)
        with self.writing() as tx:
            row = tx.row(
                "select secret from secrets where task = ? and target = ? and generation = ?", *key
            )
            if row is not None:
                return bytes(row[0])
            made = randomness.token_bytes(_BYTES)
            tx.event("secret.made", str(slot), {"generation": generation})
            tx.run("insert into secrets values (?, ?, ?, ?, false)", *key, made)
            return made

    def retire_secret(self, slot: Slot, generation: int) -> None:
        """Publish a secret in an event, so that old holdouts can be drawn again by anybody.

        Raises:
            StaleState: It was never made.
        """
        key = (slot.task, slot.target, generation)
        with self.writing() as tx:
            row = tx.row(
                "select secret, is_retired from secrets "
                "where task = ? and target = ? and generation = ?",
                *key,
            )
            if row is None:
                raise StaleState(
                    f"{slot} has no secret of generation {generation}; read it again."
                )
            if row[1]:
                return
            body = {"generation": generation, "secret": bytes(row[0]).hex()}
            tx.event("secret.retired", str(slot), body)
            tx.run(
                "update secrets set is_retired = true "
                "where task = ? and target = ? and generation = ?",
                *key,
            )
