"""The workloads of one task as the judge runs them, and the record of one phase."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from forge.judge.bench import Pool, Turned
from forge.judge.decisions import decide
from forge.judge.evidence import (
    Evidence,
    Finding,
    NumericError,
    Policy,
    Round,
    Sample,
    WorkloadSpec,
)
from forge.judge.layout import burst_calls, plan
from forge.tasks.holdouts import draw_holdouts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from forge.judge.base import Built
    from forge.judge.evidence import Phase
    from forge.tasks.load import LoadedTask
    from forge.tasks.model import Workload
    from forge.verdict import Verdict

TIMED_HOLDOUTS = 2
CHECKED_HOLDOUTS = 6
"""Holdouts that are only checked, once, before the timed ones."""
# Bytes a burst moves at least, where 256 calls do: a holdout must only not be slower.
TUNE_BYTES, HOLDOUT_BYTES = 16 << 20, 8 << 20
CHECKED_CALLS = 4
"""Draws on which a tuned shape is checked under another distribution."""
POOL_USES = 48
"""How many arms may see a screening pool before it is drawn anew."""


def tune_specs(loaded: LoadedTask) -> tuple[WorkloadSpec, ...]:
    """Return the task's own workloads."""
    return tuple(
        spec_of(loaded, workload, f"tune-{i}") for i, workload in enumerate(loaded.task.workloads)
    )


def tune_specs_of_all_values(loaded: LoadedTask) -> tuple[WorkloadSpec, ...]:
    """Return the tuned shapes with every other legal distribution, to be checked, not timed.

    A kernel that is careful on unknown shapes only would otherwise be careless on these. The
    heaviest shape gets one distribution, drawn anew each time.
    """
    task, tune = loaded.task, tune_specs(loaded)
    heavy = max(tune, key=lambda spec: task.bytes_moved(task.resolve(spec.axes)))
    found: list[WorkloadSpec] = []
    for spec in tune:
        others = [d for d in task.holdouts.distributions if d != spec.distribution]
        for name in [secrets.choice(others)] if spec is heavy and others else others:
            changed = {
                "id": f"{spec.id}-{name}",
                "distribution": name,
                "split": "holdout",
                "calls": CHECKED_CALLS,
                "weight": 0.0,
            }
            found.append(spec.model_copy(update=changed))
    return tuple(found)


def holdout_specs(loaded: LoadedTask, secret: bytes) -> tuple[WorkloadSpec, ...]:
    """Return the slot's holdouts: the first ``TIMED_HOLDOUTS`` are timed, the others checked."""
    drawn = draw_holdouts(loaded.task, secret, TIMED_HOLDOUTS + CHECKED_HOLDOUTS)
    return tuple(spec_of(loaded, workload, f"holdout-{i}") for i, workload in enumerate(drawn))


def spec_of(loaded: LoadedTask, workload: Workload, name: str) -> WorkloadSpec:
    """Return how a workload is run; its number of calls follows from its sizes alone."""
    axes = loaded.task.resolve(workload.axes)
    one = plan(loaded.task, axes, workload.offset, 1)
    moved = sum(r.span_bytes for layout in (one.inputs, one.outputs) for r in layout.calls[0])
    is_tune = workload.split == "tune"
    return WorkloadSpec(
        id=name,
        axes=dict(workload.axes),
        split=workload.split,
        weight=workload.weight if is_tune else 0.0,
        protected=workload.protected or not is_tune,
        distribution=workload.distribution,
        offset=workload.offset,
        calls=burst_calls(moved, TUNE_BYTES if is_tune else HOLDOUT_BYTES),
    )


class ScreeningPools:
    """Draws that several candidates' screens share; every arm process sees one once."""

    def __init__(self) -> None:
        self._pools: dict[str, tuple[Pool, int]] = {}

    def take(self, spec: WorkloadSpec) -> Pool:
        """Return the pool of a workload, drawn anew when enough arms have seen it."""
        pool, uses = self._pools.get(spec.id, (None, 0))
        if pool is None or uses >= POOL_USES:
            seed = secrets.token_bytes(32)
            key = f"screen/{spec.id}/{hashlib.sha256(seed).hexdigest()[:12]}"
            pool, uses = Pool.of(key, seed, spec.calls, is_kept=True), 0
        self._pools[spec.id] = (pool, uses + 1)
        return pool

    def keys(self) -> list[str]:
        """Return the names of the pools in use."""
        return [pool.key for pool, _ in self._pools.values()]

    def clear(self) -> None:
        """Forget all of them."""
        self._pools.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who stands before the judge, and under which rules."""

    phase: Phase
    loaded: LoadedTask
    candidate: Built
    baseline: Built
    origin: Built | None
    target: str
    environment: str
    harness: str
    policy: Policy
    noise: Mapping[str, float]
    missing_layers: tuple[str, ...]


@dataclass(slots=True)
class Record:
    """What one phase has observed so far."""

    subject: Subject
    specs: list[WorkloadSpec]
    rounds: list[Round] = field(default_factory=list[Round])
    findings: list[Finding] = field(default_factory=list[Finding])
    errors: dict[str, NumericError] = field(default_factory=dict[str, NumericError])
    holdouts: Literal["passed", "failed", "not-run"] = "not-run"
    device_s: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def note(self, turned: Turned) -> bool:
        """Take in one sample; whether the candidate is still without a finding."""
        self.device_s += turned.device_s
        self.findings += turned.findings
        if turned.error is not None:
            known = self.errors.get(turned.error.workload)
            if known is None or turned.error.worst_ratio > known.worst_ratio:
                self.errors[turned.error.workload] = turned.error
        return not turned.findings

    def add_round(self, seed: bytes, samples: Sequence[Sample]) -> None:
        """Close a round."""
        digest = hashlib.sha256(seed).hexdigest()
        self.rounds.append(Round(seed_digest=digest, samples=tuple(samples)))

    def evidence(self) -> Evidence:
        """Return everything observed so far."""
        subject = self.subject
        origin = subject.origin.source.digest if subject.origin else None
        return Evidence(
            phase=subject.phase,
            task=subject.loaded.task.name,
            target=subject.target,
            candidate_digest=subject.candidate.source.digest,
            baseline_digest=subject.baseline.source.digest,
            origin_digest=origin,
            environment=subject.environment,
            harness=subject.harness,
            policy=subject.policy,
            noise=dict(subject.noise),
            workloads=tuple(self.specs),
            rounds=tuple(self.rounds),
            findings=tuple(self.findings),
            errors=tuple(self.errors.values()),
            holdouts=self.holdouts,
            device_s=self.device_s,
            wall_s=time.monotonic() - self.started,
            missing_layers=subject.missing_layers,
        )

    def verdict(self) -> tuple[Evidence, Verdict]:
        """Return what was observed and what follows from it."""
        evidence = self.evidence()
        return evidence, decide(evidence)
