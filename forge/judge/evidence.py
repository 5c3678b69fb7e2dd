"""What was observed of one candidate in one phase. No opinion: the decision module reads it.

An ``Evidence`` is JSON in, JSON out (pydantic), stored as one compressed blob per candidate and
phase; a verdict is a pure function of it, so that it can be derived again without a device.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Phase = Literal["calibrate", "screen", "confirm", "reconfirm", "by-hand"]
# Which kernel a time belongs to. ``origin`` is generation 0, an arm of reconfirmations only.
Arm = Literal["baseline", "candidate", "origin"]


class Record(BaseModel):
    """Base of what is written down: frozen, complete, nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkloadSpec(Record):
    """One workload of a phase."""

    id: str
    """Unique in the phase: ``tune-0``, ``holdout-1``."""
    axes: dict[str, int]
    split: Literal["tune", "holdout"]
    weight: float
    """Share in the weighted mean log-ratio; 0 for a holdout."""
    protected: bool
    """Whether it has a no-harm test of its own; holdouts always have one."""
    distribution: str
    """Name of the value distribution its draws came from."""
    offset: int = 0
    """Elements by which every buffer was moved off its 64-byte alignment."""
    calls: int
    """Timed calls in one burst, each on its own draw."""


class Sample(Record):
    """One turn of every arm on one workload, back to back in ``order``."""

    workload: str
    order: tuple[Arm, ...]
    burst_ns: dict[Arm, int]
    """Coordinator time of each arm's whole burst, in nanoseconds."""


class Round(Record):
    """One sample per workload of the round, all on fresh draws."""

    seed_digest: str
    """SHA-256 of the round's secret seed: which draws, without giving them away."""
    samples: tuple[Sample, ...]


class Finding(Record):
    """A check that the candidate failed; the first one decides."""

    check: str
    reason: str
    workload: str | None = None


class NumericError(Record):
    """The worst element of a workload over every checked call."""

    workload: str
    max_error: float
    """Absolute error against float64 of the worst element: the largest share of its budget."""
    allowed_error: float
    """What was allowed at that element."""
    worst_ratio: float
    """The one over the other; above 1 is a failure."""


class Policy(Record):
    """The thresholds of one decision."""

    bar: float = 1.01
    """Speedup that must be exceeded (DESIGN.md section 4: 1.01 on a CPU, 1.005 on a GPU)."""
    clip_sigmas: float = 5.0
    alpha: float = 0.05
    """Error probability this candidate may spend: 0.05 / (k (k + 1)) in a night."""
    floor: float = 0.98
    """Speedup below which a protected or holdout workload is harmed."""
    floor_alpha: float = 0.01
    futility_alpha: float = 0.05
    """At this error the bar is shown to be out of reach, and the candidate is rejected."""
    max_rounds: int = 400


class Evidence(Record):
    """Everything observed in one phase of one candidate."""

    version: int = 1
    decision: str = "v1"
    """Decision module that reads it."""
    phase: Phase
    task: str
    target: str
    candidate_digest: str
    baseline_digest: str
    origin_digest: str | None = None
    environment: str
    """Environment id (``forge.host.Environment.id``)."""
    harness: str
    """Harness digest: hash of the code that verified and measured."""
    policy: Policy
    noise: dict[str, float]
    """A/A noise, as robust standard deviations of a round's log-ratio: under ``"x"`` that of
    the weighted mean, under a workload's id that of the workload."""
    workloads: tuple[WorkloadSpec, ...]
    rounds: tuple[Round, ...] = ()
    findings: tuple[Finding, ...] = ()
    errors: tuple[NumericError, ...] = ()
    holdouts: Literal["passed", "failed", "not-run"] = "not-run"
    device_s: float = Field(default=0.0, ge=0)
    """Seconds the measured cores were held."""
    wall_s: float = Field(default=0.0, ge=0)
    missing_layers: tuple[str, ...] = ()
    """Sandbox layers this host lacked."""
