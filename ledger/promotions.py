"""Promotions: intent, commit, swap, sealed; a crash between any two is repaired by replaying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from forge.errors import StaleState
from forge.lifecycle import CandidateState
from forge.promotion import Promotion
from forge.types import content_digest
from ledger.candidates import move_candidate
from ledger.journal import Journal, Transaction, moved_one

if TYPE_CHECKING:
    from forge.types import Slot

PromotionState = Literal["intended", "committed", "sealed", "superseded"]


class Promotions(Journal):
    """The ledger's half of exactly-once; the store's half is ``BaselineStore.seal``."""

    def seed_recorded(self, slot: Slot, commit: str, digest: str) -> None:
        """Record generation 0 of ``slot``; the same again changes nothing.

        Raises:
            StaleState: The slot has another generation 0.
        """
        with self.writing() as tx:
            known = tx.row(
                "select baseline, digest from seeds where task = ? and target = ?",
                slot.task,
                slot.target,
            )
            if known is not None:
                if known != (commit, digest):
                    raise StaleState(f"Generation 0 of {slot} is {known[0]}, not {commit}.")
                return
            seq = tx.event("slot.seeded", str(slot), {"commit": commit, "source": digest})
            tx.run(
                "insert into seeds values (?, ?, ?, ?, ?, ?)",
                slot.task,
                slot.target,
                seq,
                tx.ts,
                commit,
                digest,
            )

    def intend(self, promotion: Promotion) -> None:
        """Record that ``promotion`` will be carried out; on disk when this returns.

        Raises:
            StaleState: Its candidate is not accepted, or its id is another promotion's.
        """
        text = promotion.to_json()
        with self.writing() as tx:
            known = tx.row("select body from promotions where id = ?", promotion.id)
            if known is not None:
                moved_one([known] if known[0] == text else [], f"{promotion.id} is another one")
                return
            candidate = promotion.candidate
            accepted = tx.rows(
                "select id from candidates where id = ? and state = 'accepted'", candidate.id
            )
            moved_one(accepted, f"Candidate {candidate.id} is not accepted")
            body = {
                "slot": str(candidate.slot),
                "candidate": candidate.id,
                "generation": promotion.generation,
                "parent": promotion.parent,
                "promotion": content_digest(text.encode()),
                "evidence": promotion.evidence,
            }
            seq = tx.event("promotion.intended", promotion.id, body)
            tx.run(
                "insert into promotions values "
                "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'intended', null, ?)",
                promotion.id,
                seq,
                candidate.slot.task,
                candidate.slot.target,
                promotion.generation,
                candidate.id,
                promotion.parent,
                promotion.night,
                candidate.student,
                promotion.evidence,
                promotion.speedup.point,
                promotion.speedup.lower,
                promotion.speedup.upper,
                promotion.rival,
                promotion.rival_speedup,
                text,
                tx.ts,
            )

    def mark_committed(self, promotion_id: str, commit: str) -> None:
        """Record the commit that carries a promotion; it may not be the slot's baseline yet."""
        with self.writing() as tx:
            state = _state(tx, promotion_id)
            if state == ("committed", commit):
                return
            # A commit that lost the race for the branch is made again on the new tip.
            _move(tx, promotion_id, ("intended", "committed"), "committed", commit)
            tx.event("promotion.committed", promotion_id, {"commit": commit})

    def mark_sealed(self, promotion_id: str, commit: str) -> None:
        """Record that the store's branch holds a promotion, and that its candidate is sealed."""
        with self.writing() as tx:
            if _state(tx, promotion_id) == ("sealed", commit):
                return
            _move(tx, promotion_id, ("intended", "committed"), "sealed", commit)
            tx.event("promotion.sealed", promotion_id, {"commit": commit})
            old, new = CandidateState.ACCEPTED, CandidateState.SEALED
            move_candidate(tx, _promotion(tx, promotion_id).candidate.id, old, new)

    def mark_superseded(self, promotion_id: str, reason: str) -> None:
        """Record that another baseline came first; the candidate is superseded with it."""
        with self.writing() as tx:
            if _state(tx, promotion_id)[0] == "superseded":
                return
            _move(tx, promotion_id, ("intended", "committed"), "superseded", None)
            tx.event("promotion.superseded", promotion_id, {"reason": reason})
            candidate = _promotion(tx, promotion_id).candidate.id
            row = tx.row("select state from candidates where id = ?", candidate)
            if row == (str(CandidateState.ACCEPTED),):
                old, new = CandidateState.ACCEPTED, CandidateState.SUPERSEDED
                move_candidate(tx, candidate, old, new, (reason, ""))

    def promotion(self, promotion_id: str) -> Promotion:
        """Return a promotion; ``KeyError`` if there is none of that id."""
        row = self._row("select body from promotions where id = ?", promotion_id)
        if row is None:
            raise KeyError(f"No promotion {promotion_id!r} in {self.path}.")
        return Promotion.from_json(row[0])

    def unsealed_promotions(self) -> list[tuple[Promotion, PromotionState]]:
        """Return the promotions a crash left between intent and seal, oldest first."""
        rows = self._rows(
            "select body, state from promotions where state in ('intended', 'committed') "
            "order by seq"
        )
        return [(Promotion.from_json(body), state) for body, state in rows]

    def sealed_promotions(self) -> list[tuple[Promotion, str]]:
        """Return every sealed promotion with its commit, oldest first, for an audit."""
        rows = self._rows(
            "select body, baseline from promotions where state = 'sealed' order by seq"
        )
        return [(Promotion.from_json(body), commit) for body, commit in rows]

    def newest_commit(self) -> str | None:
        """Return the commit that the store's branch ended with when last we sealed something."""
        row = self._row(
            "select baseline from (select seq, baseline from seeds union all "
            "select seq, baseline from promotions where state = 'sealed') "
            "order by seq desc limit 1"
        )
        return None if row is None else row[0]

    def seeds(self) -> list[tuple[str, str, str]]:
        """Return slot, commit and source digest of every generation 0, oldest first."""
        return [
            (f"{task}/{target}", commit, digest)
            for task, target, commit, digest in self._rows(
                "select task, target, baseline, digest from seeds order by seq"
            )
        ]


def _state(tx: Transaction, promotion_id: str) -> tuple[str, str | None]:
    row = tx.row("select state, baseline from promotions where id = ?", promotion_id)
    if row is None:
        raise StaleState(f"There is no promotion {promotion_id}; read it again.")
    return row[0], row[1]


def _move(
    tx: Transaction,
    promotion_id: str,
    old: tuple[PromotionState, PromotionState],
    new: PromotionState,
    commit: str | None,
) -> None:
    moved = tx.rows(
        "update promotions set state = ?, baseline = ?, ts = ? "
        "where id = ? and state in (?, ?) returning id",
        new,
        commit,
        tx.ts,
        promotion_id,
        *old,
    )
    state = "" if moved else _state(tx, promotion_id)[0]
    moved_one(moved, f"Promotion {promotion_id} is {state}, and cannot become {new}")


def _promotion(tx: Transaction, promotion_id: str) -> Promotion:
    row = tx.row("select body from promotions where id = ?", promotion_id)
    return Promotion.from_json(row[0] if row else "")
