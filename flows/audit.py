"""Whether the record can be believed: the ledger, the evidence and the store against each other.

Nothing is repaired here, and nothing is trusted because it is in the ledger: every verdict is
derived again from its raw samples by the decision module of its version.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from baselines.message import parse_trailers, promotion_message
from baselines.store import BaselineStore
from flows.agreement import how_to_restore
from forge.errors import ForgeError, UsageError
from forge.host import wall_clock
from forge.judge.decisions import decide, summarise
from forge.report.table import counted
from forge.verdict import Accepted, Rejected, Verdict
from ledger.store import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from baselines.lineage import StoreCommit
    from forge.config import Workspace
    from forge.judge.evidence import Evidence
    from forge.promotion import Promotion
    from forge.types import Clock, Speedup
    from ledger.observations import VerdictRow

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """What was looked at, and what does not agree.

    Attributes:
        is_full: Whether everything was looked at, not only what was sealed.
        generations: Commits of the store compared with the ledger.
        blobs: Pieces of evidence read and hashed.
        verdicts: Verdicts derived again.
        problems: One sentence for each thing that is wrong; empty when the record is sound.
    """

    is_full: bool
    generations: int
    blobs: int
    verdicts: int
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as ``forge audit --json`` prints it."""
        return {**asdict(self), "problems": list(self.problems), "sound": not self.problems}

    def to_text(self) -> str:
        """Return the report as a person reads it."""
        looked = (
            f"Compared {counted(self.generations, 'generation')} with the ledger, read "
            f"{counted(self.blobs, 'piece')} of evidence and derived "
            f"{counted(self.verdicts, 'verdict')} again"
        )
        if not self.problems:
            return f"{looked}: all agree."
        count = counted(len(self.problems), "problem")
        return "\n".join([f"{looked}: {count}.", *(f"- {line}" for line in self.problems)])


def audit_workspace(
    paths: Workspace, clock: Clock = wall_clock, *, full: bool = True
) -> AuditReport:
    """Audit a workspace that no night is using; see ``audit``.

    Raises:
        UsageError: There is no workspace, or a night holds its ledger.
    """
    if not paths.ledger_db.exists():
        raise UsageError(f"There is nothing to audit in {paths.home}: run `forge night` first.")
    with Ledger(paths.ledger_db, paths.evidence_dir, clock) as ledger:
        return audit(ledger, BaselineStore(paths.baselines_git, clock), full=full)


def audit(ledger: Ledger, store: BaselineStore, *, full: bool = True) -> AuditReport:
    """Compare everything with everything else.

    Args:
        ledger: The ledger, opened by its owner.
        store: The store.
        full: Whether to read all evidence and every object of the store; otherwise only the
            evidence of what was sealed, and how the store's objects connect.
    """
    problems = [f"Ledger: {line}." for line in (*ledger.verify_chain(), *ledger.verify_tables())]
    problems += [f"Store: {line}" for line in store.problems(full=full)]
    sealed = ledger.sealed_promotions()
    problems += _unfinished(ledger)
    try:
        commits = [entry for slot in store.slots() for entry in store.commits(slot)]
        problems += _compared(ledger, sealed, commits)
        if _recorded(ledger, sealed) - {entry.commit for entry in commits}:
            problems.append(f"Store: {how_to_restore(ledger, store)}")
    except UsageError:
        # The store has said above that it cannot be read.
        commits = []
    rows = ledger.verdicts()
    wanted = {digest for promotion, _ in sealed for digest in _evidence_of(promotion)}
    if full:
        wanted.update(ledger.evidence_digests())
    else:
        rows = [row for row in rows if row.evidence in wanted]
    problems += _underived(ledger, sorted(wanted), rows, [promotion for promotion, _ in sealed])
    return AuditReport(
        is_full=full,
        generations=len(commits),
        blobs=len(wanted),
        verdicts=len(rows),
        problems=tuple(problems),
    )


def _recorded(ledger: Ledger, sealed: Iterable[tuple[Promotion, str]]) -> set[str]:
    """Return every commit that the ledger says the store's branch holds."""
    seeds = {commit for _, commit, _ in ledger.seeds()}
    return seeds | {commit for _, commit in sealed}


def _evidence_of(promotion: Promotion) -> tuple[str, str]:
    return promotion.evidence, promotion.confirm_evidence


def _unfinished(ledger: Ledger) -> Iterator[str]:
    for promotion, state in ledger.unsealed_promotions():
        yield (
            f"Promotion {promotion.id} of {promotion.candidate.slot} is only {state}; the next "
            "`forge night` finishes it."
        )


def _compared(
    ledger: Ledger, sealed: Iterable[tuple[Promotion, str]], commits: Iterable[StoreCommit]
) -> Iterator[str]:
    """Compare what the ledger says was sealed with what the store holds, both ways."""
    found = {entry.commit: entry for entry in commits}
    told: set[str] = set()
    for slot, commit, digest in ledger.seeds():
        told.add(commit)
        entry = found.get(commit)
        if entry is None:
            yield f"Generation 0 of {slot} is {commit} in the ledger, and not in the store."
        elif entry.trailers["Source-Digest"] != digest:
            yield f"Generation 0 of {slot} ({commit}) is another source in the ledger: {digest}."
    for promotion, commit in sealed:
        told.add(commit)
        entry = found.get(commit)
        if entry is None:
            yield (
                f"Promotion {promotion.id} sealed generation {promotion.generation} of "
                f"{promotion.candidate.slot} as {commit}, which is not in the store."
            )
        else:
            yield from _trailer_problems(promotion, entry)
    unsealed = {promotion.id for promotion, _ in ledger.unsealed_promotions()}
    for commit, entry in found.items():
        if commit not in told and entry.promotion_id not in unsealed:
            yield f"Commit {entry} seals {entry.slot}, and the ledger never sealed it."


def _trailer_problems(promotion: Promotion, entry: StoreCommit) -> Iterator[str]:
    for key, value in parse_trailers(promotion_message(promotion)).items():
        # A commit that an older version wrote may lack a trailer; its name pins those it has.
        said = entry.trailers.get(key, value)
        if said != value:
            yield f"Commit {entry} says {key}: {said}; the ledger says {value}."


def _underived(
    ledger: Ledger,
    digests: Iterable[str],
    rows: Iterable[VerdictRow],
    sealed: Iterable[Promotion],
) -> Iterator[str]:
    """Derive each verdict and published figure again, reading each piece of evidence once."""
    by_digest: defaultdict[str, list[VerdictRow]] = defaultdict(list)
    for row in rows:
        by_digest[row.evidence].append(row)
    published: defaultdict[str, list[Promotion]] = defaultdict(list)
    for promotion in sealed:
        published[promotion.evidence].append(promotion)
        accepted = {
            (r.phase, type(r.verdict)) for e in _evidence_of(promotion) for r in by_digest[e]
        }
        for phase in ("confirm", "reconfirm"):
            if (phase, Accepted) not in accepted:
                yield f"Promotion {promotion.id} was sealed without an accepted {phase}."
    for digest in digests:
        try:
            evidence = ledger.evidence(digest)
        except (ForgeError, ValueError) as error:
            yield f"Evidence {digest} cannot be read: {error}"
            continue
        for row in by_digest[digest]:
            yield from _verdict_problems(row, evidence)
        for promotion in published[digest]:
            yield from _figure_problems(promotion, evidence)


def _verdict_problems(row: VerdictRow, evidence: Evidence) -> Iterator[str]:
    name = f"The {row.phase} verdict of {row.candidate}"
    if evidence.phase != row.phase:
        yield f"{name} cites evidence {row.evidence} of the phase {evidence.phase}."
    try:
        derived = decide(evidence)
    except (UsageError, ValueError) as error:
        yield f"{name} cannot be derived from evidence {row.evidence}: {error}"
        return
    if not _same_verdict(row.verdict, derived):
        yield (
            f"{name} is {_words(row.verdict)}; evidence {row.evidence} gives {_words(derived)}."
        )


def _figure_problems(promotion: Promotion, evidence: Evidence) -> Iterator[str]:
    name = f"Promotion {promotion.id} ({promotion.candidate.slot}, g{promotion.generation})"
    if evidence.candidate_digest != promotion.candidate.source.digest:
        yield (
            f"{name} sealed source {promotion.candidate.source.digest}; its evidence "
            f"{promotion.evidence} is of {evidence.candidate_digest}."
        )
    try:
        summary = summarise(evidence)
    except (UsageError, ValueError):
        # Its verdict could not be derived either, which has been said.
        return
    over_origin = summary.over_origin or summary.over_baseline
    for what, said, derived in (
        ("over generation 0", promotion.speedup, over_origin),
        ("over its parent", promotion.over_parent, summary.over_baseline),
    ):
        if derived is None or not _same_speedup(said, derived):
            yield (
                f"{name} was published at {_interval(said)} {what}; evidence "
                f"{promotion.evidence} gives {_interval(derived)}."
            )


def _same_verdict(said: Verdict, derived: Verdict) -> bool:
    match said, derived:
        case Accepted(speedup=one), Accepted(speedup=other):
            return _same_speedup(one, other)
        case Rejected(check=one), Rejected(check=other):
            return one == other
        case _:
            return type(said) is type(derived)


def _same_speedup(said: Speedup, derived: Speedup) -> bool:
    return all(
        math.isclose(one, other, rel_tol=0, abs_tol=TOLERANCE)
        for one, other in (
            (said.point, derived.point),
            (said.lower, derived.lower),
            (said.upper, derived.upper),
        )
    )


def _words(verdict: Verdict) -> str:
    match verdict:
        case Accepted(speedup=speedup):
            return f"accepted at {_interval(speedup)}"
        case Rejected(check=check):
            return f"rejected by {check}"
        case _:
            return "inconclusive"


def _interval(speedup: Speedup | None) -> str:
    if speedup is None:
        return "no figure"
    return f"{speedup.point:.9f} [{speedup.lower:.9f}, {speedup.upper:.9f}]"
