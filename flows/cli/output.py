"""Where output goes: results to stdout, prose and progress to stderr."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from forge.config import Config, Settings, load_config
from forge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

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
    """Return the settings of this process, ``flags`` that are not ``None`` first.

    Raises:
        UsageError: One is not acceptable, or a file is where the workspace should be.
    """
    try:
        config = load_config(flags, Path.cwd())
    except UsageError as error:
        if isinstance(error.__cause__, NotADirectoryError):
            _refuse_file(Path(error.__cause__.filename).parent)
        raise
    _refuse_file(config.home)
    return config


def default_of(setting: str) -> str:
    """Return what the help of an option says of its default, for a setting of ``forge.toml``."""
    default = Settings.model_fields[setting].default
    return f"[default: {default:g}]" if isinstance(default, float) else f"[default: {default}]"


@contextlib.contextmanager
def phases() -> Generator[Callable[[str], None]]:
    """Return what shows which phase something is in: one line that changes, or a line for each.

    The line is rewritten where stderr is a terminal, and gone at the end.
    """
    if not sys.stderr.isatty():
        yield lambda text: say(f"{text} ...")
        return
    try:
        yield lambda text: typer.echo(f"\r\033[K{text} ...", err=True, nl=False)
    finally:
        typer.echo("\r\033[K", err=True, nl=False)


def _refuse_file(home: Path) -> None:
    """Raise ``UsageError`` if ``home`` cannot be a folder, for a file is in its place."""
    nearest = next(place for place in (home, *home.parents) if place.exists())
    if not nearest.is_dir():
        raise UsageError(
            f"{nearest} is a file, and the workspace {home} must be a folder: set FORGE_HOME to "
            "another one."
        )


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
