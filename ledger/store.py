"""The ledger: who proposed what, what was seen, what was decided, what it cost.

``Ledger`` is the owner's handle on one DuckDB file; each part of it is a module of its own. What
only reads goes through ``ledger.reader``, which works while a night owns the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.budgets import Budgets
from ledger.candidates import Candidates
from ledger.journal import read_head
from ledger.nights import Nights
from ledger.observations import Observations
from ledger.promotions import Promotions
from ledger.queries import answer
from ledger.secrets import Secrets
from ledger.verify import chain_of, disagreements

if TYPE_CHECKING:
    from ledger.chain import Json


class Ledger(Nights, Candidates, Observations, Promotions, Budgets, Secrets):
    """One DuckDB file, owned by this process until it is closed.

    Every method that changes something is one transaction that also appends to the hash chain,
    and is on disk when it returns. A move that somebody else made first raises ``StaleState``.
    """

    def chain_head(self) -> str:
        """Return the hash of the last event; 64 zeros when there is none."""
        with self.reading() as cursor:
            return read_head(cursor)[1]

    def verify_chain(self) -> list[str]:
        """Return one sentence for each event that is missing, moved or changed."""
        with self.reading() as cursor:
            return chain_of(cursor)

    def verify_tables(self) -> list[str]:
        """Return one sentence for each row that disagrees with the events about it."""
        with self.reading() as cursor:
            return disagreements(cursor)

    def query(self, name: str, **params: Json) -> Json:
        """Answer one of ``ledger.queries.QUERIES``, as every reader does."""
        with self.reading() as cursor:
            return answer(cursor, name, params)
