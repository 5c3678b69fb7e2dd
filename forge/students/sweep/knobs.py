"""Knobs: what may vary in a family of kernels, read from the family's TOML."""

from __future__ import annotations

import itertools
import tomllib
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, Self

import jinja2
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from forge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jinja2.environment import TemplateExpression

KnobValue = StrictInt | StrictStr | StrictBool
Theme = Literal[
    "passes",
    "vector-width",
    "unroll",
    "streaming-stores",
    "polynomial-degree",
    "blocking",
    "threads",
    "fast-path",
]

_EXPRESSIONS = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701
# Widest first; a machine of an instruction set runs every width from its own downwards.
_LANES_BY_ISA = (("avx512", (16, 8)), ("avx2", (8,)))
_LANES_ANYWHERE = (4,)


class KnobSpec(BaseModel):
    """One thing that may vary.

    Attributes:
        name: The variable's name in the template.
        theme: What kind of change it is; a curriculum orders knobs by it.
        values: Legal values; the first is the best guess and the default.
        meaning: One sentence for a reader of the family.
        applies: Expression over the other knobs; where it is false the knob changes nothing
            and is held at ``otherwise``. Empty: it always applies.
        otherwise: What it is where it does not apply; absent: the default.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    theme: Theme
    values: Annotated[tuple[KnobValue, ...], Field(min_length=1, strict=False)]
    meaning: Annotated[str, Field(min_length=1)]
    applies: str = ""
    otherwise: KnobValue | None = None

    @property
    def default(self) -> KnobValue:
        """The first value."""
        return self.values[0]

    @model_validator(mode="after")
    def _has_distinct_values(self) -> Self:
        if len({(type(value), value) for value in self.values}) != len(self.values):
            raise ValueError(f"Knob {self.name} names a value twice: {list(self.values)}.")
        if self.otherwise is not None and self.otherwise not in self.values:
            raise ValueError(f"Knob {self.name} has no value {self.otherwise!r}.")
        return self


class Family(BaseModel):
    """A family of kernels of one op: a template and the knobs it takes.

    Attributes:
        op: The op it computes; also the name of its template.
        title: Template of a short phrase over the knobs, for lists and commit titles.
        knobs: The knobs, most promising first.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    op: Annotated[str, Field(min_length=1)]
    title: Annotated[str, Field(min_length=1)]
    knobs: Annotated[tuple[KnobSpec, ...], Field(min_length=1, strict=False)]

    @model_validator(mode="after")
    def _has_distinct_names(self) -> Self:
        names = [knob.name for knob in self.knobs]
        if len(set(names)) != len(names):
            raise ValueError(f"Family {self.op} names a knob twice: {names}.")
        return self

    @property
    def defaults(self) -> dict[str, KnobValue]:
        """Every knob at its default."""
        return {knob.name: knob.default for knob in self.knobs}

    def canonical(self, knobs: Mapping[str, KnobValue]) -> dict[str, KnobValue]:
        """Return ``knobs`` in declared order with those that do not apply held still.

        Two configurations that mean the same kernel have the same canonical form.

        Args:
            knobs: A value for every knob of the family.
        """
        chosen = {knob.name: knobs[knob.name] for knob in self.knobs}
        for knob in self.knobs:
            if knob.applies and not _compiled(knob.applies)(**chosen):
                chosen[knob.name] = knob.default if knob.otherwise is None else knob.otherwise
        return chosen

    def configurations(self) -> Iterator[dict[str, KnobValue]]:
        """Yield every canonical configuration once, the defaults first."""
        seen: set[tuple[KnobValue, ...]] = set()
        for values in itertools.product(*(knob.values for knob in self.knobs)):
            names = (knob.name for knob in self.knobs)
            canonical = self.canonical(dict(zip(names, values, strict=True)))
            identity = tuple(canonical.values())
            if identity not in seen:
                seen.add(identity)
                yield canonical

    def on(self, target: str, threads: int) -> Family:
        """Return the family as it may vary on one machine.

        ``lanes`` keeps the widths that the target's instruction set has; a knob of the theme
        ``threads`` keeps its serial first value on one thread and tries the others first on more.

        Args:
            target: Full id of the target, for example ``"sapphirerapids-avx512-1t"``.
            threads: Threads that a kernel may use; at least 1.
        """
        return self.model_copy(
            update={"knobs": tuple(_on(knob, target, threads) for knob in self.knobs)}
        )


def lanes_of(target: str) -> tuple[int, ...]:
    """Return the float32 lanes worth trying on ``target``, widest first."""
    fields = target.split("-")
    return next((lanes for isa, lanes in _LANES_BY_ISA if isa in fields), _LANES_ANYWHERE)


def load_family(path: Path) -> Family:
    """Read a family's TOML.

    Args:
        path: ``families/<op>.toml``.

    Raises:
        UsageError: It is not TOML, or not a family.
    """
    try:
        return Family.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValueError) as error:
        raise UsageError(f"{path} is not a family of kernels: {error}") from error


@cache
def _compiled(expression: str) -> TemplateExpression:
    return _EXPRESSIONS.compile_expression(expression, undefined_to_none=False)


def _on(knob: KnobSpec, target: str, threads: int) -> KnobSpec:
    values = knob.values
    if knob.name == "lanes":
        values = tuple(lanes for lanes in lanes_of(target) if lanes in knob.values) or values[-1:]
    elif knob.theme == "threads":
        values = values[:1] if threads == 1 else (*values[1:], values[0])
    return knob.model_copy(update={"values": values})
