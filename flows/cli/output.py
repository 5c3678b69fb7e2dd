"""Where output goes: results to stdout, prose and progress to stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forge.config import Config, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def say(text: str) -> None:
    """Write a line of prose to stderr."""
    typer.echo(text, err=True)


def emit(text: str) -> None:
    """Write a result to stdout."""
    typer.echo(text)


def emit_json(value: object) -> None:
    """Write a result to stdout as JSON."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def config_of(**flags: Any) -> Config:  # noqa: ANN401 - whatever type the flag has
    """Return the settings of this process, ``flags`` that are not ``None`` first."""
    return load_config(flags, Path.cwd())


def table(rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> str:
    """Return ``rows`` as text in aligned columns, with a heading."""
    lines = [list(columns), *([_cell(row.get(name)) for name in columns] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value) or "-"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value)
