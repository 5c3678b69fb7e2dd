"""Render a configuration of a family into the text of a kernel. Pure: same knobs, same text."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from forge.errors import UsageError
from forge.students.sweep.knobs import Family, load_family

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forge.students.sweep.knobs import KnobValue

FAMILIES_ROOT = Path(__file__).parent / "families"


@cache
def find_families() -> Mapping[str, Family]:
    """Return the families that ship with the student, by op."""
    found = (load_family(path) for path in sorted(FAMILIES_ROOT.glob("*.toml")))
    return {family.op: family for family in found}


def render(family: Family, knobs: Mapping[str, KnobValue]) -> str:
    """Return the C++ source of one configuration.

    Args:
        family: The family; its template is ``families/<op>.cpp.j2``.
        knobs: A legal value for every knob; those that do not apply are ignored.

    Raises:
        UsageError: A knob is missing, unknown, or has a value the family does not name.
    """
    _check(family, knobs)
    return _templates().get_template(f"{family.op}.cpp.j2").render(**family.canonical(knobs))


def render_title(family: Family, knobs: Mapping[str, KnobValue]) -> str:
    """Return the short phrase that names one configuration.

    Args:
        family: The family.
        knobs: A legal value for every knob.
    """
    _check(family, knobs)
    return _templates().from_string(family.title).render(**family.canonical(knobs))


def _check(family: Family, knobs: Mapping[str, KnobValue]) -> None:
    names = [knob.name for knob in family.knobs]
    if sorted(names) != sorted(knobs):
        raise UsageError(f"Family {family.op} takes the knobs {names}; got {sorted(knobs)}.")
    for knob in family.knobs:
        value = knobs[knob.name]
        if not any(type(value) is type(legal) and value == legal for legal in knob.values):
            raise UsageError(
                f"Knob {knob.name} of family {family.op} is one of {list(knob.values)}; "
                f"got {value!r}."
            )


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FAMILIES_ROOT),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - C++ source, not HTML
    )
