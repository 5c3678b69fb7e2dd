"""Candidates and their moves, the confirmations they spend, and what students learned."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge.errors import HarnessFault
from forge.lifecycle import CandidateState, check_move
from forge.types import Candidate, CandidateId, KernelSource, Slot
from ledger.chain import canonical
from ledger.journal import Journal, Transaction, moved_one

if TYPE_CHECKING:
    from collections.abc import Mapping

_COLUMNS = (
    "c.id, c.task, c.target, c.parent, c.student, c.title, c.origin, s.files "
    "from candidates c join sources s on s.digest = c.digest"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """What a student tried and what came of it.

    Attributes:
        candidate: The candidate it became.
        family: Family of kernels.
        knobs: Choice by knob.
        log_speedup: Over generation 0; ``None`` if it failed before a time existed.
    """

    candidate: CandidateId
    family: str
    knobs: Mapping[str, int | str | bool]
    log_speedup: float | None


class Candidates(Journal):
    """Who proposed what, and where it stands."""

    def record_candidate(self, candidate: Candidate, night_id: str) -> None:
        """Record ``candidate`` as proposed; the same one again changes nothing.

        Raises:
            HarnessFault: Another candidate has its id.
        """
        with self.writing() as tx:
            known = _find(tx.rows(f"select {_COLUMNS} where c.id = ?", candidate.id))
            if known is not None:
                if known != candidate:
                    raise HarnessFault(f"Candidate id {candidate.id} is another candidate's.")
                return
            slot, digest = candidate.slot, candidate.source.digest
            seq = tx.event(
                "candidate.proposed",
                candidate.id,
                {
                    "slot": str(slot),
                    "source": digest,
                    "parent": candidate.parent,
                    "student": candidate.student,
                    "title": candidate.title,
                    "origin": dict(candidate.origin),
                    "night": night_id,
                },
            )
            tx.run(
                "insert into sources values (?, ?) on conflict do nothing",
                digest,
                canonical(candidate.source.files),
            )
            tx.run(
                "insert into candidates values "
                "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'proposed', '', '')",
                candidate.id,
                seq,
                tx.ts,
                slot.task,
                slot.target,
                digest,
                candidate.parent,
                candidate.student,
                candidate.title,
                canonical(candidate.origin),
                night_id,
            )

    def advance(
        self,
        candidate_id: CandidateId,
        old: CandidateState,
        new: CandidateState,
        reason: str = "",
        check: str = "",
    ) -> None:
        """Move a candidate from ``old`` to ``new``.

        Args:
            candidate_id: Which one.
            old: Where the caller believes it stands.
            new: Where it goes; the lifecycle must allow the move.
            reason: One sentence, empty where the move needs none.
            check: Id of the check that decided, empty where none did.

        Raises:
            StaleState: It is no longer ``old``; nothing was changed.
        """
        check_move(old, new)
        with self.writing() as tx:
            move_candidate(tx, candidate_id, old, new, (reason, check))

    def state(self, candidate_id: CandidateId) -> CandidateState:
        """Return where a candidate stands; ``KeyError`` if there is none of that id."""
        row = self._row("select state from candidates where id = ?", candidate_id)
        if row is None:
            raise KeyError(f"No candidate {candidate_id!r} in {self.path}.")
        return CandidateState(row[0])

    def candidate(self, candidate_id: CandidateId) -> Candidate:
        """Return a candidate with its source; ``KeyError`` if there is none of that id."""
        found = _find(self._rows(f"select {_COLUMNS} where c.id = ?", candidate_id))
        if found is None:
            raise KeyError(f"No candidate {candidate_id!r} in {self.path}.")
        return found

    def candidates(self, slot: Slot, state: CandidateState) -> list[Candidate]:
        """Return the candidates of ``slot`` that stand at ``state``, oldest first."""
        rows = self._rows(
            f"select {_COLUMNS} where c.task = ? and c.target = ? and c.state = ? order by c.seq",
            slot.task,
            slot.target,
            str(state),
        )
        return [_candidate(row) for row in rows]

    def known_digest(self, slot: Slot, digest: str) -> bool:
        """Say whether ``slot`` ever had a candidate with this source."""
        return bool(
            self._row(
                "select 1 from candidates where digest = ? and task = ? and target = ? limit 1",
                digest,
                slot.task,
                slot.target,
            )
        )

    def enter_confirm(self, slot: Slot, candidate_id: CandidateId) -> int:
        """Record that a candidate enters confirm and return its number in the slot's year.

        Number 1 is the first candidate of ``slot`` to enter in this calendar year. A candidate
        that entered before keeps the number it has, so a repeated step spends nothing twice.
        """
        with self.writing() as tx:
            row = tx.row("select k from confirms where candidate = ?", candidate_id)
            if row is not None:
                return int(row[0])
            year = tx.ts.year
            last = tx.row(
                "select coalesce(max(k), 0) from confirms "
                "where task = ? and target = ? and year = ?",
                slot.task,
                slot.target,
                year,
            )
            k = int(last[0]) + 1 if last else 1
            body = {"slot": str(slot), "year": year, "k": k}
            seq = tx.event("confirm.entered", candidate_id, body)
            tx.run(
                "insert into confirms values (?, ?, ?, ?, ?, ?)",
                candidate_id,
                seq,
                slot.task,
                slot.target,
                year,
                k,
            )
            return k

    def record_trial(
        self,
        slot: Slot,
        candidate_id: CandidateId,
        family: str,
        knobs: Mapping[str, int | str | bool],
        log_speedup: float | None,
    ) -> None:
        """Record what a student's choice came to; a candidate's later word replaces its first."""
        with self.writing() as tx:
            tx.run("delete from trials where candidate = ?", candidate_id)
            body = {"family": family, "knobs": dict(knobs), "log_speedup": log_speedup}
            seq = tx.event("trial", candidate_id, {"slot": str(slot), **body})
            tx.run(
                "insert into trials values (?, ?, ?, ?, ?, ?, ?)",
                candidate_id,
                seq,
                slot.task,
                slot.target,
                family,
                json.dumps(dict(knobs)),
                log_speedup,
            )

    def trials(self, slot: Slot) -> list[TrialRow]:
        """Return every trial of ``slot``, oldest first."""
        rows = self._rows(
            "select candidate, family, knobs, log_speedup from trials "
            "where task = ? and target = ? order by seq",
            slot.task,
            slot.target,
        )
        return [
            TrialRow(
                candidate=candidate,
                family=family,
                knobs=json.loads(knobs),
                log_speedup=log_speedup,
            )
            for candidate, family, knobs, log_speedup in rows
        ]


def move_candidate(
    tx: Transaction,
    candidate_id: CandidateId,
    old: CandidateState,
    new: CandidateState,
    why: tuple[str, str] = ("", ""),
) -> None:
    """Compare and swap a candidate's state; ``why`` is a reason and the id of a check."""
    reason, check = why
    moved = tx.rows(
        "update candidates set state = ?, check_id = ?, reason = ? "
        "where id = ? and state = ? returning id",
        str(new),
        check,
        reason,
        candidate_id,
        str(old),
    )
    moved_one(moved, f"Candidate {candidate_id} is no longer {old}")
    body = {"old": str(old), "new": str(new), "reason": reason, "check": check}
    tx.event("candidate.moved", candidate_id, body)


def _find(rows: list[tuple[Any, ...]]) -> Candidate | None:
    return _candidate(rows[0]) if rows else None


def _candidate(row: tuple[Any, ...]) -> Candidate:
    id_, task, target, parent, student, title, origin, files = row
    return Candidate(
        id=CandidateId(id_),
        slot=Slot(task=task, target=target),
        source=KernelSource(files=json.loads(files)),
        parent=parent,
        student=student,
        title=title,
        origin=json.loads(origin),
    )
