"""What the ledger's tests put into it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forge.judge.evidence import Evidence, NumericError, Policy, Round, Sample, WorkloadSpec
from forge.lifecycle import CandidateState as S
from forge.promotion import Promotion, WorkloadLine
from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup
from ledger.store import Ledger

SLOT = Slot(task="softmax", target="zen4-avx512-7t")
NIGHT = "2026-03-01-a"
COMMIT_0 = "c0" * 20


class SteppedClock:
    """A clock that a test sets; it moves one second at each reading."""

    def __init__(self, now: datetime = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


def open_ledger(folder: Path, clock: Callable[[], datetime] | None = None) -> Ledger:
    return Ledger(folder / "ledger.duckdb", folder / "evidence", clock or SteppedClock())


def candidate(name: str = "a", slot: Slot = SLOT, parent: str = COMMIT_0) -> Candidate:
    return Candidate(
        id=CandidateId(f"{name}-candidate"),
        slot=slot,
        source=KernelSource(files={"kernel.cpp": f"// {name}\n"}),
        parent=parent,
        student="sweep",
        title=f"kernel {name}",
        origin={"family": "softmax", "lanes": "16"},
    )


def evidence(phase: str = "confirm", rounds: int = 3, worst: float = 0.5) -> Evidence:
    sample = Sample(
        workload="tune-0",
        order=("candidate", "baseline"),
        burst_ns={"baseline": 2, "candidate": 1},
    )
    return Evidence(
        phase=phase,
        task=SLOT.task,
        target=SLOT.target,
        candidate_digest="d" * 64,
        baseline_digest="b" * 64,
        environment="e" * 12,
        harness="h" * 64,
        policy=Policy(alpha=0.025),
        noise={"x": 0.004, "tune-0": 0.006},
        workloads=(
            WorkloadSpec(
                id="tune-0",
                axes={"rows": 2048, "cols": 4096},
                split="tune",
                weight=1.0,
                protected=False,
                distribution="normal",
                calls=8,
            ),
        ),
        rounds=tuple(Round(seed_digest=f"{n}", samples=(sample,)) for n in range(rounds)),
        errors=(
            NumericError(workload="tune-0", max_error=worst, allowed_error=1.0, worst_ratio=worst),
        ),
        device_s=1.5,
        wall_s=2.0,
    )


def promotion(one: Candidate, generation: int = 1, identity: str = "p1") -> Promotion:
    return Promotion(
        id=identity,
        candidate=one,
        generation=generation,
        parent=one.parent,
        speedup=Speedup(point=1.5 * generation, lower=1.4 * generation, upper=1.6 * generation),
        over_parent=Speedup(point=1.5, lower=1.4, upper=1.6),
        evidence="f" * 64,
        confirm_evidence="a" * 64,
        night=NIGHT,
        environment="e" * 12,
        alpha=0.025,
        workloads=(WorkloadLine(axes="rows=8 cols=8", ratio=1.5, lower=1.4, upper=1.6),),
    )


def accepted(ledger: Ledger, one: Candidate) -> Candidate:
    """Bring ``one`` to the state in which it is owed a seal."""
    ledger.record_candidate(one, NIGHT)
    ledger.advance(one.id, S.PROPOSED, S.WAITING)
    ledger.advance(one.id, S.WAITING, S.ACCEPTED)
    return one


def sealed(ledger: Ledger, name: str, generation: int, parent: str = COMMIT_0) -> str:
    """Seal a new candidate as ``generation`` and return its commit."""
    one = accepted(ledger, candidate(name, parent=parent))
    commit = f"{generation:040x}"
    ledger.intend(promotion(one, generation, f"promotion-{name}"))
    ledger.mark_committed(f"promotion-{name}", commit)
    ledger.mark_sealed(f"promotion-{name}", commit)
    return commit
