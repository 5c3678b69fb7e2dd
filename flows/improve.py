"""One round of one slot: propose, build, screen, confirm, seal. Plain functions, no Prefect.

Who writes never judges: the student's word is a source text, a title and its knobs. Every
step asks the ledger where a candidate stands before it acts, so that a round that was killed
is taken up where it was: what was proposed is screened, what waits is confirmed, what was
accepted is measured afresh and sealed.
"""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flows.sealing import confirm_and_seal, reconfirm_and_seal
from flows.standing import log_over_baseline, prepare
from forge.errors import HarnessFault, StaleState
from forge.judge.screening import is_near_tie
from forge.lifecycle import CandidateState as S
from forge.students.base import Brief, Trial
from forge.types import Candidate, CandidateId, content_digest
from forge.verdict import Inconclusive, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flows.parts import Parts
    from flows.standing import Standing, Subject
    from forge.judge.base import Built
    from forge.students.base import Proposal

_log = logging.getLogger(__name__)

# Upper bounds that are reserved before a phase; measured, they take a fraction of it.
SCREEN_S, BUILD_S = 15.0, 10.0
# A second confirmation in one round is worth its time only if the first one came to nothing.
CONFIRMATIONS = 2
# A verdict of these checks comes from times, so the times say how fast the candidate was.
TIMING_CHECKS = frozenset(
    {"not-faster", "slower-on-protected", "slower-on-holdout", "not-reproduced"}
)


@dataclass(slots=True, kw_only=True)
class RoundReport:
    """What one round came to.

    Attributes:
        slot: Whose.
        round: Its number tonight, from 1.
        proposed: Candidates recorded.
        screened: Candidates measured.
        sealed: Generation that was sealed, or ``None``.
        said: One sentence for a person, or nothing.
    """

    slot: str
    round: int
    proposed: int = 0
    screened: int = 0
    sealed: int | None = None
    said: str = ""


@dataclass(slots=True, kw_only=True)
class Open:
    """The open candidates of a slot that were written against its present baseline."""

    accepted: list[Candidate] = field(default_factory=list[Candidate])
    waiting: list[Candidate] = field(default_factory=list[Candidate])
    proposed: list[Candidate] = field(default_factory=list[Candidate])


def improve(parts: Parts, standing: Standing, until: float) -> RoundReport:
    """Run one round of a slot; start nothing new after ``until`` (``time.monotonic``).

    Faults end the round, not the night: they are recorded, and the slot is left in peace.
    """
    standing.rounds += 1
    standing.until = until
    report = RoundReport(slot=str(standing.slot), round=standing.rounds)
    try:
        _round(parts, standing, until, report)
    except HarnessFault as fault:
        parts.record_fault(standing.slot, standing.doing or "round", fault)
        standing.trouble = str(fault)
        report.said = f"left alone tonight: {fault}"
    except StaleState as stale:
        # Somebody's hand was on the store or on a candidate: read everything again.
        standing.subject = None
        report.said = f"starting over: {stale}"
    standing.doing = ""
    standing.fruitless = 0 if report.sealed is not None else standing.fruitless + 1
    return report


def _round(parts: Parts, standing: Standing, until: float, report: RoundReport) -> None:
    subject = prepare(parts, standing)
    opened = open_candidates(parts, standing, subject)
    for candidate in opened.accepted:
        if reconfirm_and_seal(parts, standing, subject, candidate):
            report.sealed = standing.generation
            return
    fresh: list[Candidate] = []
    if not opened.waiting and not _is_late(parts, until):
        fresh = propose(parts, standing, subject)
        report.proposed = len(fresh)
    report.screened = screen_all(parts, standing, subject, [*opened.proposed, *fresh], until)
    report.sealed = confirm_best(parts, standing, subject)


def open_candidates(parts: Parts, standing: Standing, subject: Subject) -> Open:
    """Return what an earlier round or night left open; what is out of date is superseded."""
    kept: dict[S, list[Candidate]] = {S.ACCEPTED: [], S.WAITING: [], S.PROPOSED: []}
    for state, candidates in kept.items():
        for candidate in parts.ledger.candidates(standing.slot, state):
            if candidate.parent == subject.baseline.commit:
                candidates.append(candidate)
            else:
                parts.ledger.advance(
                    candidate.id, state, S.SUPERSEDED, "written against an older baseline"
                )
    return Open(accepted=kept[S.ACCEPTED], waiting=kept[S.WAITING], proposed=kept[S.PROPOSED])


def propose(parts: Parts, standing: Standing, subject: Subject) -> list[Candidate]:
    """Ask the student for candidates, and record those that this slot has never seen."""
    standing.doing = "proposing"
    brief = Brief(
        task=standing.task,
        target=standing.slot.target,
        threads=parts.environment.arm_threads,
        baseline=subject.baseline.source,
        curriculum=subject.curriculum,
        trials=[
            Trial(family=row.family, knobs=row.knobs, log_speedup=row.log_speedup)
            for row in parts.ledger.trials(standing.slot)
        ],
        seed=parts.settings.seed,
    )
    proposals = _proposals(parts, brief)
    standing.is_exhausted = not proposals
    fresh: list[Candidate] = []
    for proposal in proposals:
        candidate = _candidate(parts, standing, subject, proposal)
        if parts.ledger.known_digest(standing.slot, proposal.source.digest):
            _record_twin(parts, standing, candidate)
            continue
        parts.ledger.record_candidate(candidate, parts.night)
        fresh.append(candidate)
    return fresh


def _proposals(parts: Parts, brief: Brief) -> Sequence[Proposal]:
    try:
        return parts.student.propose(brief, parts.settings.proposals)
    # A student is a plug-in that reads what models and files say: whatever it raises ends its
    # turn at this slot, and not the night of all the others.
    except Exception as error:
        raise HarnessFault(f"The student {parts.student.name} failed: {error!r}") from error


def screen_all(
    parts: Parts,
    standing: Standing,
    subject: Subject,
    candidates: Sequence[Candidate],
    until: float,
) -> int:
    """Build and screen ``candidates``; return how many were screened.

    Those that there is no time for stay proposed, and the next round begins with them.
    """
    if not candidates or _is_late(parts, until):
        return 0
    standing.doing = f"building {len(candidates)}"
    parts.watcher.show([standing], parts.budget.left_s)
    with parts.budget.phase(str(standing.slot), BUILD_S):
        built = parts.judge.build_many([candidate.source for candidate in candidates])
    screened = 0
    for candidate, result in zip(candidates, built, strict=True):
        if isinstance(result, Rejected):
            parts.ledger.advance(candidate.id, S.PROPOSED, S.REJECTED, result.reason, result.check)
            _record_trial(parts, standing, candidate, None)
        elif not _is_late(parts, until):
            screened += 1
            screen(parts, standing, subject, candidate, result)
        parts.watcher.show([standing], parts.budget.left_s)
    standing.tried += screened
    return screened


def screen(
    parts: Parts, standing: Standing, subject: Subject, candidate: Candidate, built: Built
) -> None:
    """Screen one built candidate: rejected, or waiting for its confirmation."""
    standing.doing = f"screening {candidate.title}"
    try:
        with parts.budget.phase(str(standing.slot), SCREEN_S) as charge:
            judged = parts.trying(
                standing.slot,
                "screen",
                lambda: parts.judge.screen(
                    standing.task, built, subject.built, noise=subject.noise
                ),
            )
            charge.device_s = judged.evidence.device_s
    except HarnessFault as fault:
        if parts.stop.is_requested:
            return  # the judge was stopped with its night: the candidate is screened another time
        parts.record_fault(standing.slot, "screen", fault)
        parts.ledger.advance(candidate.id, S.PROPOSED, S.INCONCLUSIVE, f"faults: {fault}")
        _record_trial(parts, standing, candidate, None)
        return
    digest = parts.ledger.put_evidence(candidate.id, judged.evidence)
    parts.ledger.record_verdict(candidate.id, "screen", digest, judged.verdict)
    log_speedup: float | None = None
    match judged.verdict:
        case Rejected(check=check, reason=reason):
            if check in TIMING_CHECKS:
                log_speedup = log_over_baseline(judged.evidence)
            parts.ledger.advance(candidate.id, S.PROPOSED, S.REJECTED, reason, check)
        case Inconclusive(reason=reason):
            log_speedup = log_over_baseline(judged.evidence)
            if is_near_tie(judged.evidence):
                why = f"{reason}, which noise alone may show; not worth a confirmation"
                parts.ledger.advance(candidate.id, S.PROPOSED, S.INCONCLUSIVE, why)
            else:
                parts.ledger.advance(candidate.id, S.PROPOSED, S.WAITING, reason)
        case _:
            raise HarnessFault("A screen accepted a candidate, which only a confirmation may do.")
    _record_trial(parts, standing, candidate, log_speedup)


def confirm_best(parts: Parts, standing: Standing, subject: Subject) -> int | None:
    """Confirm the waiting candidates that screened fastest; return the generation sealed."""
    means = screened_means(parts, standing)
    waiting = parts.ledger.candidates(standing.slot, S.WAITING)
    waiting.sort(key=lambda candidate: means.get(candidate.id, 0.0), reverse=True)
    for number, candidate in enumerate(waiting[:CONFIRMATIONS]):
        # The first one is owed; a second would take another slot's time.
        if parts.is_over or (number and time.monotonic() > standing.until):
            return None
        if confirm_and_seal(parts, standing, subject, candidate):
            return standing.generation
    return None


def screened_means(parts: Parts, standing: Standing) -> dict[str, float]:
    """Return the log-speedup over generation 0 that each candidate's screen showed."""
    return {
        row.candidate: row.log_speedup
        for row in parts.ledger.trials(standing.slot)
        if row.log_speedup is not None
    }


def _record_trial(
    parts: Parts, standing: Standing, candidate: Candidate, log_over: float | None
) -> None:
    """Tell the ledger what the student may learn: its knobs, and a speedup over generation 0."""
    log_speedup = None if log_over is None else log_over + standing.log_speedup
    if log_speedup is not None:
        standing.best = max(standing.best or 0.0, math.exp(log_speedup))
    parts.ledger.record_trial(
        standing.slot,
        candidate.id,
        candidate.origin.get("family", ""),
        json.loads(candidate.origin.get("knobs", "{}")),
        log_speedup,
    )


def _record_twin(parts: Parts, standing: Standing, candidate: Candidate) -> None:
    """Tell the student that these knobs come to a text it has proposed before."""
    known = screened_means(parts, standing).get(candidate.id)
    knobs = candidate.origin["knobs"]
    twin = content_digest(candidate.id.encode(), knobs.encode())[:12]
    parts.ledger.record_trial(
        standing.slot,
        CandidateId(twin),
        candidate.origin["family"],
        json.loads(knobs),
        known,
    )


def _candidate(
    parts: Parts, standing: Standing, subject: Subject, proposal: Proposal
) -> Candidate:
    parent = subject.baseline.commit
    identity = content_digest(
        str(standing.slot).encode(), parent.encode(), proposal.source.digest.encode()
    )
    return Candidate(
        id=CandidateId(identity[:12]),
        slot=standing.slot,
        source=proposal.source,
        parent=parent,
        student=parts.student.name,
        title=proposal.title,
        origin={
            "family": proposal.family,
            "knobs": json.dumps(dict(proposal.knobs), sort_keys=True),
        },
    )


def _is_late(parts: Parts, until: float) -> bool:
    return parts.is_over or time.monotonic() >= until
