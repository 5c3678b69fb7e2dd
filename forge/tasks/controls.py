"""Null controls: a task is admitted only if what computes nothing fails it, and truth passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch

from forge.errors import UsageError
from forge.tasks.draws import make_draw
from forge.tasks.numeric import allowed, compare
from forge.tasks.reference import load_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor

    from forge.tasks.load import LoadedTask
    from forge.tasks.model import Task, Workload
    from forge.tasks.reference import Reference

Must = Literal["pass", "fail", "fail-somewhere", "any"]

# Distributions beyond the tune workloads' own are tried on workloads up to this size only.
_SMALL_ELEMENTS = 300_000
_HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlResult:
    """How one control fared on one distribution.

    Attributes:
        control: Its name: ``reference``, ``rounded``, ``zeros``, ``constant``, ``previous``,
            ``input <name>``, ``<half> inputs`` or ``<half> outputs``.
        distribution: What the draws came from.
        must: ``pass`` or ``fail`` on every workload, ``fail-somewhere`` on one at least; ``any``
            where a control may be right (the half of a one-hot row is exact).
        lowest: Smallest, over the workloads, of the largest error over allowed error.
        highest: Largest of them.
    """

    control: str
    distribution: str
    must: Must
    lowest: float
    highest: float

    @property
    def ok(self) -> bool:
        """Whether the control did what it must."""
        if self.must == "pass":
            return self.highest <= 1.0
        if self.must == "fail":
            return self.lowest > 1.0
        return self.must == "any" or self.highest > 1.0

    @property
    def reason(self) -> str:
        """What it did, what it must do, and what to change if it did not; one sentence."""
        found = (
            f"on {self.distribution} its largest error is {self.lowest:.3g} to "
            f"{self.highest:.3g} times the allowed one over the workloads"
        )
        if self.ok:
            return found
        if self.must == "pass":
            return (
                f"{found} and must stay within it: terms(...) or numeric.c is too small, or the "
                "distribution is not one that float32 survives"
            )
        where = "each workload" if self.must == "fail" else "some workload"
        return (
            f"{found} and must exceed it on {where}: terms(...) or numeric.c is too large, or "
            "the outputs hardly depend on the inputs"
        )


def check_controls(loaded: LoadedTask, seed: int = 0) -> list[ControlResult]:
    """Run every control of a task on each of its legal distributions.

    The task is sound when every result is ``ok``.

    Raises:
        UsageError: Its reference does not give the outputs that ``task.toml`` declares.
    """
    task, reference = loaded.task, load_reference(loaded.reference_source)
    tune = {workload.distribution for workload in task.workloads}
    results: list[ControlResult] = []
    for distribution in task.holdouts.distributions:
        ratios: dict[str, list[float]] = {}
        for workload in _workloads(task, distribution):
            for control, ratio in _ratios(task, reference, workload, distribution, seed):
                ratios.setdefault(control, []).append(ratio)
        results += [
            ControlResult(
                control=control,
                distribution=distribution,
                must=_must(control, is_tune=distribution in tune),
                lowest=min(found),
                highest=max(found),
            )
            for control, found in ratios.items()
        ]
    return results


def _workloads(task: Task, distribution: str) -> list[Workload]:
    """Return the workloads to try: those of the distribution, and every small one."""
    by_size = sorted(task.workloads, key=lambda item: task.elements(task.resolve(item.axes)))
    return by_size[:1] + [
        workload
        for workload in by_size[1:]
        if workload.distribution == distribution
        or task.elements(task.resolve(workload.axes)) <= _SMALL_ELEMENTS
    ]


def _must(control: str, *, is_tune: bool) -> Must:
    if control in ("reference", "rounded"):
        return "pass"
    if not is_tune:
        return "any"
    # A long sum of signed numbers may hide a half-precision step in the rounding it is allowed;
    # shorter ones do not, and one failed workload rejects a kernel.
    return "fail-somewhere" if control.endswith(("inputs", "outputs")) else "fail"


def _ratios(
    task: Task, reference: Reference, workload: Workload, distribution: str, seed: int
) -> Iterator[tuple[str, float]]:
    """Yield every control of one workload with its largest error over allowed error."""
    axes = task.resolve(workload.axes)
    inputs = make_draw(task, axes, distribution, 2 * seed + 1)
    exact = tuple(_as(value, torch.float64) for value in inputs)
    expected = reference.run(*exact)
    _must_be_declared(task, workload, expected, torch.float64)
    terms = reference.terms(exact, expected)
    _must_be_terms(task, workload, terms, expected)
    bounds = allowed(task, axes, expected, terms)
    before = reference.run(*make_draw(task, axes, distribution, 2 * seed))
    _must_be_declared(task, workload, before, torch.float32)
    for control, outputs in _controls(task, reference, inputs, before):
        yield control, compare(outputs, expected, bounds).worst_ratio
    rounded = tuple(value.float() for value in expected)
    yield "rounded", compare(rounded, expected, bounds).worst_ratio


def _must_be_declared(
    task: Task, workload: Workload, found: Sequence[Tensor], floating: torch.dtype
) -> None:
    """Raise unless ``found`` has the number, shapes and dtypes of the declared outputs.

    Args:
        task: Declares them.
        workload: What was computed.
        found: What ``run`` returned.
        floating: Dtype of the floating inputs, and so of the floating outputs.
    """
    axes, start = task.resolve(workload.axes), f"Task {task.name}: run of reference.py returns"
    where = f"on {_axes_text(workload)} with {_name(floating)} inputs"
    if len(found) != len(task.outputs):
        raise UsageError(
            f"{start} {len(found)} tensors {where}; task.toml declares the outputs "
            f"{', '.join(task.outputs)}."
        )
    has_floating = any(spec.dtype == "float32" for spec in task.inputs.values())
    for (name, spec), value in zip(task.outputs.items(), found, strict=True):
        dtype = getattr(torch, spec.dtype)
        if dtype.is_floating_point:
            dtype = floating if has_floating else value.dtype
        wanted = f"{list(task.shape(spec, axes))} of {_name(dtype)}"
        got = f"{list(value.shape)} of {_name(value.dtype)}"
        if got != wanted:
            raise UsageError(f"{start} {got} for output {name} {where}; it must be {wanted}.")


def _must_be_terms(
    task: Task, workload: Workload, terms: Sequence[Tensor], outputs: Sequence[Tensor]
) -> None:
    """Raise unless there is a term for every element of every output."""
    start = f"Task {task.name}: terms of reference.py returns"
    where = f"on {_axes_text(workload)}"
    if len(terms) != len(outputs):
        raise UsageError(f"{start} {len(terms)} tensors {where} for {len(outputs)} outputs.")
    for name, term, output in zip(task.outputs, terms, outputs, strict=True):
        try:
            term.expand(output.shape)
        except RuntimeError as error:
            raise UsageError(
                f"{start} {list(term.shape)} for output {name} {where}; it must be "
                f"{list(output.shape)}."
            ) from error


def _axes_text(workload: Workload) -> str:
    return " ".join(f"{name}={value}" for name, value in workload.axes.items())


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _controls(
    task: Task, reference: Reference, inputs: Sequence[Tensor], before: Sequence[Tensor]
) -> Iterator[tuple[str, Sequence[Tensor]]]:
    outputs = reference.run(*inputs)
    yield "reference", outputs
    yield "zeros", [torch.zeros_like(value) for value in outputs]
    # The mean of what came out last time: the best a kernel that reads nothing could write.
    yield "constant", [torch.full_like(value, float(value.double().mean())) for value in before]
    yield "previous", before
    for name, value in zip(task.inputs, inputs, strict=True):
        if value.is_floating_point() and all(value.shape == other.shape for other in outputs):
            yield f"input {name}", [value] * len(outputs)
    for name, half in _HALVES.items():
        yield f"{name} inputs", reference.run(*(_as(_as(v, half), torch.float32) for v in inputs))
        yield f"{name} outputs", [value.to(half).to(value.dtype) for value in outputs]


def _as(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a floating tensor; leave masks and indices alone."""
    return value.to(dtype) if value.is_floating_point() else value
