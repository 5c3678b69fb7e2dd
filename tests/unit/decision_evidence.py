"""Builds evidence from ratios, for tests of what reads evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from forge.judge.evidence import Arm, Evidence, Round, Sample, WorkloadSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BURST_NS = 1_000_000_000  # rounding a time to whole nanoseconds moves a ratio by 1e-9 at most


def tune(number: int = 0, *, weight: float = 1.0, protected: bool = False) -> WorkloadSpec:
    """A tune workload called ``tune-<number>``."""
    return _spec(f"tune-{number}", "tune", weight, protected)


def holdout(number: int = 0) -> WorkloadSpec:
    """A holdout called ``holdout-<number>``."""
    return _spec(f"holdout-{number}", "holdout", 0.0, protected=False)


def _spec(name: str, split: Any, weight: float, protected: bool) -> WorkloadSpec:
    return WorkloadSpec(
        id=name,
        axes={"rows": 64 + len(name), "cols": 4096},
        split=split,
        weight=weight,
        protected=protected,
        distribution="normal",
        calls=8,
    )


def make_round(ratios: Mapping[str, float], origin: float | None = None) -> Round:
    """A round in which the candidate is ``ratios[id]`` times as fast as the baseline.

    ``origin`` is how many times as fast as generation 0 the baseline is; it adds that arm.
    """
    samples: list[Sample] = []
    for name, ratio in ratios.items():
        times: dict[Arm, int] = {"baseline": BURST_NS, "candidate": round(BURST_NS / ratio)}
        if origin is not None:
            times["origin"] = round(BURST_NS * origin)
        samples.append(Sample(workload=name, order=tuple(times), burst_ns=times))
    return Round(seed_digest="5eed", samples=tuple(samples))


def make_evidence(
    rounds: Sequence[Round],
    workloads: Sequence[WorkloadSpec] = (tune(),),
    *,
    noise: float = 0.01,
    **fields: Any,
) -> Evidence:
    """Evidence of a confirmation, unless ``fields`` say otherwise; ``noise`` is everyone's."""
    names = ["x", *(spec.id for spec in workloads if spec.split == "tune")]
    body: dict[str, Any] = {
        "phase": "confirm",
        "task": "softmax",
        "target": "testcpu-avx2-1t",
        "candidate_digest": "c0ffee",
        "baseline_digest": "ba5e",
        "environment": "0123456789ab",
        "harness": "4a55",
        "policy": {},
        "noise": dict.fromkeys(names, noise),
        "workloads": tuple(workloads),
        "rounds": tuple(rounds),
    }
    return Evidence.model_validate(body | fields)


def repeated(count: int, ratios: Mapping[str, float], origin: float | None = None) -> list[Round]:
    """The same round ``count`` times."""
    return [make_round(ratios, origin)] * count
