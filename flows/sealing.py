"""From waiting to sealed: confirm, measure afresh, time the rivals, promote."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from flows.promotion import promote
from flows.standing import ROOF_SHARE_S, measured_roof
from forge.errors import HarnessFault, StaleState
from forge.judge.decision_v1 import alpha_for
from forge.judge.decisions import summarise
from forge.lifecycle import CandidateState as S
from forge.promotion import (
    Promotion,
    machine_text,
    rival_lines,
    rival_to_show,
    workload_lines,
)
from forge.types import content_digest
from forge.verdict import Accepted, Inconclusive, Rejected

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flows.parts import Parts
    from flows.standing import Standing, Subject
    from forge.judge.base import Built, Judged
    from forge.judge.evidence import Evidence
    from forge.types import Candidate, Speedup
    from forge.verdict import Verdict

_log = logging.getLogger(__name__)

RIVALS = ("eager", "torch.compile")
RECONFIRM_ROUNDS = 6
# Upper bounds that are reserved before a phase. A clear win is confirmed in ten rounds; a holdout
# on which a candidate is exactly as fast takes about 35 to show that it is not slower than 0.98.
CONFIRM_S, RECONFIRM_S, RIVALS_S = 60.0, 25.0, 30.0
LEAST_CONFIRM_S = 25.0


def confirm_and_seal(
    parts: Parts, standing: Standing, subject: Subject, candidate: Candidate
) -> bool:
    """Confirm a waiting candidate; on success measure it afresh and seal it.

    Returns:
        Whether it was sealed.

    Raises:
        StaleState: Somebody else moved the candidate or the slot.
    """
    built = _rebuilt(parts, standing, candidate, S.WAITING)
    if built is None:
        return False
    standing.doing = f"confirming {candidate.title}"
    tries = parts.ledger.enter_confirm(standing.slot, candidate.id)
    try:
        judged = _confirm(parts, standing, subject, built, (candidate, alpha_for(tries)))
    except HarnessFault as fault:
        if parts.stop.is_requested:
            return False  # the judge was stopped with its night: the candidate goes on waiting
        parts.record_fault(standing.slot, "confirm", fault)
        parts.ledger.advance(candidate.id, S.WAITING, S.INCONCLUSIVE, f"faults: {fault}")
        return False
    digest = parts.ledger.put_evidence(candidate.id, judged.evidence)
    parts.ledger.record_verdict(candidate.id, "confirm", digest, judged.verdict)
    match judged.verdict:
        case Rejected(check=check, reason=reason):
            parts.ledger.advance(candidate.id, S.WAITING, S.REJECTED, reason, check)
            return False
        case Inconclusive(reason=reason):
            parts.ledger.advance(candidate.id, S.WAITING, S.INCONCLUSIVE, reason)
            return False
        case Accepted():
            parts.ledger.advance(candidate.id, S.WAITING, S.ACCEPTED)
    return reconfirm_and_seal(parts, standing, subject, candidate)


def reconfirm_and_seal(
    parts: Parts, standing: Standing, subject: Subject, candidate: Candidate
) -> bool:
    """Measure an accepted candidate afresh, and seal it unless that does not reproduce it.

    Returns:
        Whether it was sealed. After faults it stays accepted, and a later night tries again.

    Raises:
        StaleState: Somebody else moved the candidate.
        HarnessFault: It could not be measured.
    """
    built = _rebuilt(parts, standing, candidate, S.ACCEPTED)
    if built is None:
        return False
    standing.doing = f"measuring {candidate.title} afresh"
    judged = _reconfirm(parts, standing, subject, built, candidate)
    digest = parts.ledger.put_evidence(candidate.id, judged.evidence)
    parts.ledger.record_verdict(candidate.id, "reconfirm", digest, judged.verdict)
    match judged.verdict:
        case Rejected(check=check, reason=reason):
            parts.ledger.advance(candidate.id, S.ACCEPTED, S.REJECTED, reason, check)
            return False
        case Inconclusive(reason=reason):
            parts.ledger.advance(candidate.id, S.ACCEPTED, S.ABANDONED, reason)
            return False
        case Accepted(speedup=speedup):
            rivals = timed_rivals(parts, standing, built, candidate)
            promotion = promotion_of(
                parts, subject, candidate, (judged.evidence, digest), (speedup, rivals)
            )
    return seal(parts, standing, built, promotion, rivals)


def promotion_of(
    parts: Parts,
    subject: Subject,
    candidate: Candidate,
    measured: tuple[Evidence, str],
    numbers: tuple[Speedup, Mapping[str, Speedup]],
) -> Promotion:
    """Return everything that the commit, the intent and the ledger will agree on.

    Args:
        parts: The night.
        subject: The baseline that is replaced.
        candidate: What replaces it.
        measured: The reconfirmation's evidence and its digest.
        numbers: The speedup over generation 0, and what each rival's time is of this kernel's.
    """
    evidence, digest = measured
    speedup, rivals = numbers
    summary = summarise(evidence)
    if summary.over_baseline is None:
        raise HarnessFault("A reconfirmation accepted a candidate without an interval.")
    confirmed = confirmation_of(parts, candidate)
    rival = rival_to_show(rivals)
    identity = content_digest(candidate.id.encode(), candidate.parent.encode(), digest.encode())
    return Promotion(
        id=identity[:16],
        candidate=candidate,
        generation=subject.baseline.generation + 1,
        parent=subject.baseline.commit,
        speedup=speedup,
        over_parent=summary.over_baseline,
        evidence=digest,
        confirm_evidence=confirmed,
        night=parts.night,
        environment=parts.environment.id,
        alpha=parts.ledger.evidence(confirmed).policy.alpha,
        machine=machine_text(parts.environment),
        workloads=workload_lines(evidence, summary),
        rival=rival,
        rival_speedup=rivals[rival].point if rival else None,
        rivals=rival_lines(rivals),
        chain_head=parts.ledger.chain_head(),
    )


def confirmation_of(parts: Parts, candidate: Candidate) -> str:
    """Return the digest of the evidence that accepted ``candidate``, perhaps in another night."""
    phases = parts.ledger.query("show", id=candidate.id)["phases"]
    digests = [
        row["evidence"]
        for row in phases
        if row["phase"] == "confirm" and row["verdict"] == "accepted"
    ]
    if not digests:
        raise HarnessFault(f"{candidate.id} is accepted without a confirmation on record.")
    return digests[-1]


def seal(
    parts: Parts,
    standing: Standing,
    built: Built,
    promotion: Promotion,
    rivals: Mapping[str, Speedup],
) -> bool:
    """Promote; then close what was waiting against the baseline that is no longer one."""
    candidate = promotion.candidate
    try:
        baseline = promote(parts.ledger, parts.store, promotion)
    except StaleState as stale:
        parts.watcher.say(f"{standing.slot}: {candidate.title} was superseded: {stale}")
        standing.subject = None
        return False
    parts.ledger.retire_secret(standing.slot, promotion.generation - 1)
    share = _roof_share(parts, standing, built)
    for name, over in rivals.items():
        # A record of a rival is about the rival: its own speedup, over the baseline.
        body = {"speedup": 1 / over.point, "lower": 1 / over.upper, "upper": 1 / over.lower}
        body |= {} if share is None else {"roof_share": share}
        parts.ledger.record_rival(standing.slot, baseline.commit, name, body)
    for state in (S.WAITING, S.PROPOSED):
        for other in parts.ledger.candidates(standing.slot, state):
            reason = f"generation {baseline.generation} was sealed first"
            parts.ledger.advance(other.id, state, S.SUPERSEDED, reason)
    standing.subject = None
    standing.is_exhausted = False
    standing.generation = baseline.generation
    standing.speedup = promotion.speedup
    standing.roof_share = share
    standing.rival = promotion.rival
    standing.rival_speedup = promotion.rival_speedup
    over = promotion.speedup
    parts.watcher.say(
        f"{standing.slot}: sealed generation {baseline.generation}, {candidate.title}: "
        f"{over.point:.2f}x over generation 0 [{over.lower:.2f}, {over.upper:.2f}]"
    )
    _log.info("sealed %s as generation %d of %s", candidate.id, baseline.generation, standing.slot)
    return True


def timed_rivals(
    parts: Parts, standing: Standing, built: Built, candidate: Candidate
) -> dict[str, Speedup]:
    """Return each rival's time over the kernel's, or nothing where there is no time for it.

    A rival that cannot be timed holds nobody up: it is a fault on record, and no number.
    """
    if parts.budget.left_s < RIVALS_S or parts.stop.is_requested:
        return {}
    standing.doing = f"timing rivals of {candidate.title}"
    try:
        with parts.budget.phase(str(standing.slot), RIVALS_S):
            return parts.judge.time_rivals(standing.task, built, RIVALS)
    except HarnessFault as fault:
        parts.record_fault(standing.slot, "rivals", fault)
        return {}


def _roof_share(parts: Parts, standing: Standing, built: Built) -> float | None:
    """Return how near the roof the kernel is, or ``None`` where there is no time to measure it."""
    if parts.budget.left_s < ROOF_SHARE_S or parts.stop.is_requested:
        return None
    roof = measured_roof(parts, standing.slot)
    try:
        with parts.budget.phase(str(standing.slot), ROOF_SHARE_S):
            return parts.judge.roof_share(standing.task, built, roof)
    except HarnessFault as fault:
        parts.record_fault(standing.slot, "roof share", fault)
        return None


def _confirm(
    parts: Parts,
    standing: Standing,
    subject: Subject,
    built: Built,
    attempt: tuple[Candidate, float],
) -> Judged:
    candidate, alpha = attempt
    secret = parts.ledger.secret(standing.slot, subject.baseline.generation)

    def on_round(evidence: Evidence, _verdict: Verdict) -> None:
        standing.doing = f"confirming {candidate.title}, round {len(evidence.rounds)}"
        parts.watcher.show([standing], parts.budget.left_s)

    def measure() -> Judged:
        return parts.judge.confirm(
            standing.task,
            built,
            subject.built,
            noise=subject.noise,
            alpha=alpha,
            secret=secret,
            deadline=_deadline(parts, standing),
            on_round=on_round,
        )

    with parts.budget.phase(str(standing.slot), CONFIRM_S) as charge:
        judged = parts.trying(standing.slot, "confirm", measure)
        charge.device_s = judged.evidence.device_s
    return judged


def _deadline(parts: Parts, standing: Standing) -> float:
    """Return when a confirmation must have decided: in its slot's turn, unless that is short."""
    now = time.monotonic()
    turn = max(standing.until, now + LEAST_CONFIRM_S)
    return min(now + CONFIRM_S, turn, parts.budget.deadline)


def _reconfirm(
    parts: Parts, standing: Standing, subject: Subject, built: Built, candidate: Candidate
) -> Judged:
    secret = parts.ledger.secret(standing.slot, subject.baseline.generation)

    def measure() -> Judged:
        return parts.judge.reconfirm(
            standing.task,
            built,
            subject.built,
            subject.origin,
            noise=subject.noise,
            secret=secret,
            rounds=RECONFIRM_ROUNDS,
        )

    with parts.budget.phase(str(standing.slot), RECONFIRM_S) as charge:
        judged = parts.trying(standing.slot, "reconfirm", measure)
        charge.device_s = judged.evidence.device_s
    return judged


def _rebuilt(parts: Parts, standing: Standing, candidate: Candidate, state: S) -> Built | None:
    """Return the candidate built again, which its digest makes a look into the cache."""
    result = parts.judge.build(candidate.source)
    if isinstance(result, Rejected):
        parts.ledger.advance(candidate.id, state, S.REJECTED, result.reason, result.check)
        return None
    return result
