"""What a task is: its axes, tensors, workloads, holdout rules and numeric contract.

The nouns are FlashInfer-Trace's (axes, inputs, outputs, workloads), written as TOML. Pure: no
torch, and nothing of the task's own code is executed.
"""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from forge.tasks import expressions

if TYPE_CHECKING:
    from collections.abc import Mapping

DTYPES = {"float32": 4, "int64": 8, "int32": 4, "bool": 1}
"""Bytes of one element, by dtype."""
DISTRIBUTIONS = (
    "normal", "shifted", "large", "huge", "tiny", "denormals", "ties", "constant", "sorted",
    "one_hot", "wide_range", "with_infinities",
)  # fmt: skip
"""Every value distribution; ``forge.tasks.draws`` says what each one is."""


def _expression(text: str) -> str:
    expressions.parse(text)
    return text


def _distribution(name: str) -> str:
    if name not in DISTRIBUTIONS:
        raise ValueError(f"{name!r} is not one of {', '.join(DISTRIBUTIONS)}")
    return name


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
# TOML has arrays and integers only, so these two are not strict.
Names = Annotated[tuple[str, ...], Field(strict=False)]
Range = Annotated[tuple[int, int], Field(strict=False)]
Expression = Annotated[str, AfterValidator(_expression)]
Distribution = Annotated[str, AfterValidator(_distribution)]
_HUGE = 2**62
# They would clash with the C++ or Python signature of ``launch``.
_RESERVED = {"launch", "stream", "float", "int", "bool", "char", "double", "long", "auto", "new",
             "void", "const", "short", "static", "register", "union", "struct"}  # fmt: skip


class Strict(BaseModel):
    """Base: frozen, no unknown key, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ConstAxis(Strict):
    """An axis of one size for ever."""

    type: Literal["const"]
    value: int = Field(ge=1)
    description: str = ""


class VarAxis(Strict):
    """An axis whose size each workload chooses; an argument of ``launch``."""

    type: Literal["var"]
    description: str = ""


class ExprAxis(Strict):
    """An axis that follows from others."""

    type: Literal["expr"]
    expression: Expression
    description: str = ""


Axis = Annotated[ConstAxis | VarAxis | ExprAxis, Field(discriminator="type")]


class TensorSpec(Strict):
    """One input or output."""

    shape: Names
    """Axis names, at least one, outermost first."""
    dtype: Literal["float32", "int64", "int32", "bool"]
    row_stride: str | None = None
    """Var axis that gives the elements from one row of the last dimension to the next (at least
    the last dimension); ``None`` is contiguous. A draw is contiguous; who runs a kernel lays it
    out."""
    values: Literal[
        "distribution", "normal", "near_one", "mask", "index", "cosine", "sine"
    ] = "distribution"  # fmt: skip
    """How an input is drawn: from the workload's distribution; always standard normal; a scale
    near one; booleans; indices under axis ``below``; the cosine or sine of shared angles."""
    below: str | None = None
    """Axis that bounds an ``index`` input."""
    description: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.shape:
            raise ValueError("shape needs at least one axis")
        if (self.values == "index") != (self.below is not None):
            raise ValueError('values = "index" and below = "<axis>" go together')
        wanted = {"index": ("int64", "int32"), "mask": ("bool",)}.get(self.values, ("float32",))
        if self.values != "distribution" and self.dtype not in wanted:
            raise ValueError(f"values = {self.values!r} needs dtype {' or '.join(wanted)}")
        return self


class Workload(Strict):
    """One concrete instance of a task."""

    axes: dict[str, int]
    """The value of every var axis."""
    weight: float = Field(default=1.0, gt=0)
    """Share in the weighted mean log-ratio."""
    protected: bool = False
    """Whether a kernel must not be slower here, however fast elsewhere."""
    distribution: Distribution = "normal"
    offset: int = Field(default=0, ge=0, le=64)
    """Elements by which every buffer is moved off its 64-byte alignment."""
    split: Literal["tune", "holdout"] = "tune"


class HoldoutRules(Strict):
    """What holdouts are drawn from; the secret that draws them is never in a task."""

    ranges: dict[str, Range]
    """Lowest and highest value of every var axis; of a row stride, the elements it has beyond
    the last dimension."""
    max_elements: int = Field(default=1_000_000, ge=1)
    """Elements of the largest tensor of a holdout, at most."""
    distributions: Annotated[tuple[Distribution, ...], Field(strict=False)]
    """Every legal distribution of the task; a tune workload uses one of them."""
    offsets: Annotated[tuple[int, ...], Field(strict=False)] = (0,)

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if not self.distributions or not self.offsets:
            raise ValueError("distributions and offsets need at least one entry")
        if any(not 0 <= offset <= 64 for offset in self.offsets):
            raise ValueError(f"offsets lie in 0..64, got {list(self.offsets)}")
        for axis, (low, high) in self.ranges.items():
            if not 0 <= low <= high:
                raise ValueError(f"range of {axis} is [low, high], got [{low}, {high}]")
        return self


class Numeric(Strict):
    """The numeric contract: allowed error ``c * eps * sqrt(K) * terms`` (forge.tasks.numeric)."""

    c: float = Field(gt=0)
    k: Expression
    """Length of the longest reduction behind one output element, ``"1"`` if none."""


class Work(Strict):
    """What one call must do at least, as expressions over the axes."""

    bytes: Expression
    operations: Expression


class Allow(Strict):
    """What a kernel of this task may use beyond plain code."""

    framework: Names = ()
    """Framework calls a ``.py`` kernel may make, for example ``"torch.softmax"``."""
    precision: Names = ("float32",)
    """Precision classes that arithmetic may use."""


class Task(Strict):
    """An op's contract. The order of inputs, outputs and var axes is the interface."""

    name: Name
    op: Name
    description: str
    axes: dict[Name, Axis]
    inputs: dict[Name, TensorSpec]
    outputs: dict[Name, TensorSpec]
    workloads: Annotated[tuple[Workload, ...], Field(strict=False, min_length=1)]
    holdouts: HoldoutRules
    numeric: Numeric
    work: Work
    determinism: Literal["bitwise", "numeric"] = "numeric"
    """Whether two calls on one input must agree in every bit, or within the contract."""
    aliasing: Literal["none"] = "none"
    """Inputs are never written and share no memory with outputs."""
    allow: Allow = Allow()

    @property
    def var_axes(self) -> tuple[str, ...]:
        """The var axes in declared order: the integer arguments of ``launch``."""
        return tuple(name for name, axis in self.axes.items() if isinstance(axis, VarAxis))

    @property
    def stride_axes(self) -> dict[str, str]:
        """The last dimension that each row-stride axis must at least span."""
        specs = (*self.inputs.values(), *self.outputs.values())
        return {spec.row_stride: spec.shape[-1] for spec in specs if spec.row_stride is not None}

    def resolve(self, workload_axes: Mapping[str, int]) -> dict[str, int]:
        """Return the value of every axis, const and expr ones included, in declared order.

        Raises:
            ValueError: A var axis is missing or unknown, or a value is below 1.
        """
        if set(workload_axes) != set(self.var_axes):
            raise ValueError(
                f"a workload gives {list(self.var_axes)}, this one {sorted(workload_axes)}"
            )
        values: dict[str, int] = {}
        for name, axis in self.axes.items():
            if isinstance(axis, ConstAxis):
                values[name] = axis.value
            elif isinstance(axis, VarAxis):
                values[name] = workload_axes[name]
            else:
                values[name] = expressions.evaluate(axis.expression, values)
            if values[name] < 1:
                raise ValueError(f"axis {name} is {values[name]}, at least 1 is needed")
        for stride, last in self.stride_axes.items():
            if values[stride] < values[last]:
                raise ValueError(
                    f"{stride} is {values[stride]}, less than a row of {last} = {values[last]}"
                )
        return values

    def with_strides(self, axes: Mapping[str, int]) -> dict[str, int]:
        """Return the var axes with each row stride, given as what lies beyond a row, in full.

        Raises:
            ValueError: As ``resolve``.
        """
        strides = self.stride_axes
        # A stride that no row can exceed, for nothing but a row's length depends on it.
        whole = self.resolve({**axes, **dict.fromkeys(strides, _HUGE)})
        return {**axes, **{name: whole[last] + axes[name] for name, last in strides.items()}}

    def shape(self, spec: TensorSpec, axes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the sizes of ``spec`` at resolved ``axes``."""
        return tuple(axes[name] for name in spec.shape)

    def elements(self, axes: Mapping[str, int]) -> int:
        """Return the elements of the largest tensor at resolved ``axes``, padding included."""
        largest = 0
        for spec in (*self.inputs.values(), *self.outputs.values()):
            last = spec.row_stride or spec.shape[-1]
            count = axes[last]
            for name in spec.shape[:-1]:
                count *= axes[name]
            largest = max(largest, count)
        return largest

    def reduction(self, axes: Mapping[str, int]) -> int:
        """Return K of the numeric contract at resolved ``axes``."""
        return max(1, expressions.evaluate(self.numeric.k, axes))

    def bytes_moved(self, axes: Mapping[str, int]) -> int:
        """Return the least bytes that one call moves at resolved ``axes``."""
        return expressions.evaluate(self.work.bytes, axes)

    def operations(self, axes: Mapping[str, int]) -> int:
        """Return the least floating operations of one call at resolved ``axes``."""
        return expressions.evaluate(self.work.operations, axes)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_names(self)
        _check_tensors(self)
        _check_expressions(self)
        _check_workloads(self)
        _check_ranges(self)
        return self


class TaskProblem(ValueError):
    """A rule across keys was broken; ``where`` is the path of the key to look at."""

    def __init__(self, where: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.where = where


def _check_names(task: Task) -> None:
    if not task.inputs or not task.outputs or not task.var_axes:
        raise TaskProblem(("axes",), "a task has at least one input, output and var axis")
    seen: set[str] = set()
    for table in ("axes", "inputs", "outputs"):
        for name in getattr(task, table):
            if name in seen or name in _RESERVED or keyword.iskeyword(name):
                raise TaskProblem(
                    (table, name), f"{name!r} is reserved or names two arguments of launch"
                )
            seen.add(name)


def _check_tensors(task: Task) -> None:
    for table in ("inputs", "outputs"):
        for name, spec in getattr(task, table).items():
            for axis in (*spec.shape, spec.below or spec.shape[0]):
                if axis not in task.axes:
                    raise TaskProblem((table, name), f"{axis!r} is not one of {list(task.axes)}")
            if spec.row_stride is not None and spec.row_stride not in task.var_axes:
                raise TaskProblem((table, name, "row_stride"), "row_stride names a var axis")


def _check_expressions(task: Task) -> None:
    known: set[str] = set()
    for name, axis in task.axes.items():
        if isinstance(axis, ExprAxis):
            _check_known(("axes", name, "expression"), axis.expression, known)
        known.add(name)
    _check_known(("numeric", "k"), task.numeric.k, known)
    _check_known(("work", "bytes"), task.work.bytes, known)
    _check_known(("work", "operations"), task.work.operations, known)


def _check_known(where: tuple[str, ...], text: str, known: set[str]) -> None:
    unknown = expressions.names(text) - known
    if unknown:
        raise TaskProblem(where, f"{text!r} names {sorted(unknown)}; declared: {sorted(known)}")


def _check_workloads(task: Task) -> None:
    for index, workload in enumerate(task.workloads):
        where = ("workloads", index)
        if workload.split != "tune":
            raise TaskProblem((*where, "split"), "a task's own workloads are tune workloads")
        if workload.distribution not in task.holdouts.distributions:
            raise TaskProblem(
                (*where, "distribution"),
                f"{workload.distribution!r} is not in holdouts.distributions",
            )
        try:
            task.resolve(workload.axes)
        except ValueError as error:
            raise TaskProblem((*where, "axes"), str(error)) from error


def _check_ranges(task: Task) -> None:
    rules, where = task.holdouts, ("holdouts", "ranges")
    if set(rules.ranges) != set(task.var_axes):
        raise TaskProblem(
            where, f"ranges gives {list(task.var_axes)}, this one {list(rules.ranges)}"
        )
    lowest = {axis: low for axis, (low, _) in rules.ranges.items()}
    try:
        smallest = task.elements(task.resolve(task.with_strides(lowest)))
    except ValueError as error:
        raise TaskProblem(where, f"at the low ends, {error}") from error
    if smallest > rules.max_elements:
        raise TaskProblem(
            where, f"the low ends give {smallest} elements, more than {rules.max_elements}"
        )
