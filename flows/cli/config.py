"""``forge config``: what the settings are and where each came from."""

from __future__ import annotations

import typer

from flows.cli.output import Json, config_of, emit, emit_json, table

app = typer.Typer(help="Read the settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Read the settings."""


@app.command("show")
def show(*, as_json: Json = False) -> None:
    """Print every setting with its value and where it came from."""
    rows = config_of().rows()
    if as_json:
        emit_json(rows)
    else:
        emit(table(rows, ("setting", "value", "origin")))
