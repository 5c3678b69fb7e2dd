"""What was observed: evidence and verdicts, noise, roofs and rivals."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge.types import CandidateId, Slot, Speedup
from forge.verdict import Accepted, Inconclusive, Rejected, Verdict
from ledger.blobs import BlobStore
from ledger.chain import canonical
from ledger.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forge.judge.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """A verdict and the evidence it must follow from.

    Attributes:
        candidate: Of whom.
        phase: ``"screen"``, ``"confirm"``, ``"reconfirm"``, ...
        evidence: Digest of the evidence.
        decision: The decision module that read it, for example ``"v1"``.
        verdict: What it said.
    """

    candidate: CandidateId
    phase: str
    evidence: str
    decision: str
    verdict: Verdict


class Observations(Journal):
    """Evidence before conclusion: blobs first, then the rows that name them."""

    @property
    def blobs(self) -> BlobStore:
        """The raw samples."""
        return BlobStore(self.evidence_dir)

    def put_evidence(self, candidate_id: CandidateId, evidence: Evidence) -> str:
        """Keep ``evidence`` for good and return its digest; again changes nothing.

        The blob is on disk before the row that names it, so a crash leaves at worst a blob
        without a row.
        """
        digest, size = self.blobs.write(evidence)
        with self.writing() as tx:
            known = "select 1 from evidence where digest = ? and candidate = ?"
            if tx.row(known, digest, candidate_id):
                return digest
            body = {"evidence": digest, "phase": evidence.phase, "rounds": len(evidence.rounds)}
            seq = tx.event("evidence", candidate_id, body)
            tx.run(
                "insert into evidence values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                digest,
                candidate_id,
                seq,
                tx.ts,
                evidence.phase,
                evidence.decision,
                evidence.environment,
                evidence.harness,
                len(evidence.rounds),
                evidence.policy.alpha,
                evidence.noise.get("x"),
                max((error.worst_ratio for error in evidence.errors), default=None),
                evidence.device_s,
                evidence.wall_s,
                size,
            )
        return digest

    def evidence(self, digest: str) -> Evidence:
        """Return the evidence of ``digest``; ``HarnessFault`` if it is lost or was changed."""
        return self.blobs.read(digest)

    def evidence_digests(self) -> list[str]:
        """Return the digest of all evidence recorded, oldest first."""
        rows = self._rows("select digest from evidence group by digest order by min(seq)")
        return [digest for (digest,) in rows]

    def record_verdict(
        self, candidate_id: CandidateId, phase: str, evidence_digest: str, verdict: Verdict
    ) -> None:
        """Record what the decision module made of a piece of evidence; again changes nothing."""
        word, check, reason, speedup = _parts(verdict)
        with self.writing() as tx:
            known = "select 1 from verdicts where candidate = ? and phase = ? and evidence = ?"
            if tx.row(known, candidate_id, phase, evidence_digest):
                return
            bounds = None if speedup is None else (speedup.point, speedup.lower, speedup.upper)
            body = {
                "phase": phase,
                "evidence": evidence_digest,
                "verdict": word,
                "check": check,
                "reason": reason,
                "speedup": bounds,
            }
            seq = tx.event("verdict", candidate_id, body)
            tx.run(
                "insert into verdicts values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                candidate_id,
                phase,
                evidence_digest,
                seq,
                tx.ts,
                word,
                check,
                reason,
                *(bounds or (None, None, None)),
            )

    def verdicts(self) -> list[VerdictRow]:
        """Return every verdict, oldest first, for an audit to derive again."""
        rows = self._rows(
            "select v.candidate, v.phase, v.evidence, e.decision, v.verdict, v.check_id, "
            "v.reason, v.speedup, v.lower, v.upper from verdicts v join evidence e "
            "on e.digest = v.evidence and e.candidate = v.candidate order by v.seq"
        )
        return [
            VerdictRow(
                candidate=CandidateId(candidate),
                phase=phase,
                evidence=digest,
                decision=decision,
                verdict=_verdict(tuple(rest)),
            )
            for candidate, phase, digest, decision, *rest in rows
        ]

    def record_noise(
        self,
        slot: Slot,
        baseline_digest: str,
        environment: str,
        noise: Mapping[str, float],
        evidence_digest: str,
    ) -> None:
        """Record the A/A noise of a baseline; the latest counts."""
        with self.writing() as tx:
            body = {"baseline": baseline_digest, "environment": environment, "noise": dict(noise)}
            seq = tx.event("noise", str(slot), {**body, "evidence": evidence_digest})
            tx.run(
                "insert into noise values (?, ?, ?, ?, ?, ?, ?)",
                slot.task,
                slot.target,
                baseline_digest,
                environment,
                seq,
                canonical(noise),
                evidence_digest,
            )

    def noise(
        self, slot: Slot, baseline_digest: str, environment: str
    ) -> Mapping[str, float] | None:
        """Return the latest A/A noise of a baseline in an environment, or ``None``."""
        return self._latest_json(
            "select noise from noise where task = ? and target = ? and baseline = ? "
            "and environment = ? order by seq desc limit 1",
            slot.task,
            slot.target,
            baseline_digest,
            environment,
        )

    def record_roof(self, target: str, environment: str, body: Mapping[str, Any]) -> None:
        """Record what the teacher measured of a machine; the latest counts."""
        with self.writing() as tx:
            seq = tx.event("roof", target, {"environment": environment, "roof": dict(body)})
            tx.run(
                "insert into roofs values (?, ?, ?, ?)", target, environment, seq, canonical(body)
            )

    def roof(self, target: str, environment: str) -> Mapping[str, Any] | None:
        """Return the latest roof of a target in an environment, or ``None``."""
        return self._latest_json(
            "select body from roofs where target = ? and environment = ? "
            "order by seq desc limit 1",
            target,
            environment,
        )

    def record_rival(self, slot: Slot, commit: str, name: str, body: Mapping[str, Any]) -> None:
        """Record a rival timed beside the baseline ``commit``; the latest of a name counts.

        Args:
            slot: Of which slot.
            commit: The baseline that was timed with it.
            name: The rival, for example ``"torch.compile"``.
            body: ``speedup`` is the baseline's time over the rival's (above 1 the rival is
                faster); ``roof_share``, if there, the share of the roof that the baseline
                reaches; the rest is the caller's.
        """
        with self.writing() as tx:
            event = {"baseline": commit, "name": name, "rival": dict(body)}
            seq = tx.event("rival", str(slot), event)
            tx.run(
                "insert into rivals values (?, ?, ?, ?, ?, ?, ?)",
                slot.task,
                slot.target,
                commit,
                name,
                seq,
                tx.ts,
                canonical(body),
            )

    def rivals(self, slot: Slot) -> list[Mapping[str, Any]]:
        """Return every timing of a rival, oldest first, with its ``commit`` and ``name``."""
        rows = self._rows(
            "select baseline, name, body from rivals where task = ? and target = ? order by seq",
            slot.task,
            slot.target,
        )
        return [
            {**json.loads(body), "commit": commit, "name": name} for commit, name, body in rows
        ]

    def _latest_json(self, sql: str, *values: object) -> Mapping[str, Any] | None:
        row = self._row(sql, *values)
        return None if row is None else json.loads(row[0])


def _parts(verdict: Verdict) -> tuple[str, str, str, Speedup | None]:
    match verdict:
        case Accepted(speedup=speedup):
            return "accepted", "", "", speedup
        case Rejected(check=check, reason=reason):
            return "rejected", check, reason, None
        case Inconclusive(reason=reason):
            return "inconclusive", "", reason, None


def _verdict(row: tuple[Any, ...]) -> Verdict:
    word, check, reason, point, lower, upper = row
    if word == "accepted":
        return Accepted(speedup=Speedup(point=point, lower=lower, upper=upper))
    if word == "rejected":
        return Rejected(check=check, reason=reason)
    return Inconclusive(reason=reason)
