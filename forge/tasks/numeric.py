"""The numeric contract: how far an output may lie from its float64 value. Stated once, here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from forge.tasks.model import Task

EPS = 2.0**-23
"""Distance from 1 to the next float32."""
_SMALLEST = 2.0**-149


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How one call's outputs compare with their float64 values.

    Attributes:
        worst_ratio: Largest error over allowed error; infinite where NaN or Inf is misplaced;
            above 1 is a failure.
        error: Absolute error of the worst element.
        allowed: Allowed error of the worst element.
        output: Index of the output that holds it.
        index: Its flat index.
    """

    worst_ratio: float
    error: float
    allowed: float
    output: int
    index: int

    @property
    def is_within(self) -> bool:
        """Whether every element of every output is within its allowed error."""
        return self.worst_ratio <= 1.0


def allowed(
    task: Task,
    axes: Mapping[str, int],
    expected: Sequence[Tensor],
    terms: Sequence[Tensor],
    reference32: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Return the allowed absolute error of every output element, float64.

    It is the largest of 4 times the float32 reference's own error (where given), ``c * eps *
    sqrt(K) * terms``, and 2 ulp of the expected value as float32.

    Args:
        task: The task, for c and K.
        axes: Resolved axes.
        expected: Outputs in float64.
        terms: Scale of the honest rounding error, from the task's reference.
        reference32: Outputs of the reference in float32.
    """
    budget = task.numeric.c * EPS * math.sqrt(task.reduction(axes))
    bounds: list[Tensor] = []
    for number, (value, scale) in enumerate(zip(expected, terms, strict=True)):
        # 2 ulp is at most 2 eps |value|; below the normal numbers an ulp is constant.
        bound = value.abs().mul_(2.0 * EPS).clamp_(min=2.0 * _SMALLEST)
        torch.maximum(bound, scale * budget, out=bound)
        if reference32 is not None:
            own = (reference32[number].double() - value).abs_().mul_(4.0).nan_to_num_(nan=0.0)
            torch.maximum(bound, own, out=bound)
        bounds.append(bound)
    return tuple(bounds)


def compare(
    actual: Sequence[Tensor], expected: Sequence[Tensor], bounds: Sequence[Tensor]
) -> Comparison:
    """Compare every element of ``actual`` with ``expected`` and name the worst one.

    NaN must be where ``expected`` has NaN; an infinity of the same sign where it, as float32,
    is infinite.

    Args:
        actual: Outputs of a kernel, in the task's dtypes.
        expected: Outputs in float64.
        bounds: What ``allowed`` returned.
    """
    worst = Comparison(worst_ratio=-1.0, error=0.0, allowed=0.0, output=0, index=0)
    for number, (got, value, bound) in enumerate(zip(actual, expected, bounds, strict=True)):
        error = (got.double() - value).abs_()
        ratio = error / bound
        target = value.float()
        fixed = ~torch.isfinite(target)
        if bool(fixed.any()):
            same = (got == target) | (got.isnan() & target.isnan())
            ratio = torch.where(fixed, torch.where(same, 0.0, torch.inf), ratio)
        ratio.nan_to_num_(nan=torch.inf, posinf=torch.inf)
        index = int(ratio.argmax())
        found = float(ratio.flatten()[index])
        if found > worst.worst_ratio:
            worst = Comparison(
                worst_ratio=found,
                error=float(error.flatten()[index]),
                allowed=float(bound.flatten()[index]),
                output=number,
                index=index,
            )
    return worst
