"""A ledger and a store with real evidence, ready to promote, for tests of both together."""

from pathlib import Path

from forge.judge.decisions import decide, summarise
from forge.lifecycle import CandidateState as S
from forge.promotion import Promotion
from forge.types import Baseline
from forge.verdict import Accepted
from ledger.store import Ledger
from tests.integration.store_making import NIGHT, promotion
from tests.unit.decision_evidence import make_evidence, repeated

RATIO, ORIGIN = 1.12, 1.5


def open_ledger(folder: Path) -> Ledger:
    return Ledger(folder / "ledger.duckdb", folder / "evidence", clock=lambda: NIGHT)


def start(ledger: Ledger, seed: Baseline) -> None:
    """Open a night and record generation 0."""
    ledger.open_night("2026-03-02-1", {})
    ledger.seed_recorded(seed.slot, seed.commit, seed.source.digest)


def accepted(ledger: Ledger, name: str, parent: Baseline) -> Promotion:
    """Take a candidate as far as it gets before its promotion, with evidence that says so."""
    made = promotion(name, parent.commit, parent.generation + 1, parent.slot)
    candidate = made.candidate
    ledger.record_candidate(candidate, made.night)
    ledger.advance(candidate.id, S.PROPOSED, S.WAITING)
    common = {
        "candidate_digest": candidate.source.digest,
        "baseline_digest": parent.source.digest,
        "policy": {"alpha": made.alpha},
    }
    confirm = make_evidence(repeated(40, {"tune-0": RATIO}), **common)
    confirm_digest = ledger.put_evidence(candidate.id, confirm)
    ledger.record_verdict(candidate.id, "confirm", confirm_digest, decide(confirm))
    ledger.advance(candidate.id, S.WAITING, S.ACCEPTED)
    rounds = [*repeated(4, {"tune-0": RATIO}, ORIGIN), *repeated(4, {"tune-0": 1.11}, ORIGIN)]
    again = make_evidence(rounds, phase="reconfirm", origin_digest="0a", **common)
    digest = ledger.put_evidence(candidate.id, again)
    verdict = decide(again)
    ledger.record_verdict(candidate.id, "reconfirm", digest, verdict)
    assert isinstance(decide(confirm), Accepted)
    assert isinstance(verdict, Accepted)
    over_parent = summarise(again).over_baseline
    assert over_parent is not None
    return promotion(
        name,
        parent.commit,
        parent.generation + 1,
        parent.slot,
        speedup=verdict.speedup,
        over_parent=over_parent,
        evidence=digest,
        confirm_evidence=confirm_digest,
        chain_head=ledger.chain_head(),
    )
