"""``forge config``: what the settings are and where each came from."""

from __future__ import annotations

import typer

from flows.cli.output import Json, config_of, emit, emit_json, say, table

app = typer.Typer(help="Read the settings.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Read the settings."""


# What each setting is, and the option that sets it for one command; forge.toml has them all.
_ABOUT = {
    "home": ("Folder of the workspace.", "FORGE_HOME"),
    "minutes": ("Length of a night in minutes.", "--minutes"),
    "tasks": ("Tasks that a night works on; all of them if none.", "--task"),
    "target": ("Target that kernels are made for, an id or an alias.", "--target"),
    "student": ("Who proposes candidates.", "--student"),
    "seed": ("Seed of the student's sampler.", "--seed"),
    "proposals": ("Candidates that a student is asked for in one round.", "forge.toml"),
    "may_lack": ("Sandbox layers that an unattended night may do without.", "forge.toml"),
    "drain_s": ("Seconds at a night's end for finishing what was started.", "forge.toml"),
}

_UNKNOWN = ("", "forge.toml")


@app.command("show")
def show(*, as_json: Json = False) -> None:
    """Print every setting with its value, where it came from, and how to set it.

    A setting is what the command line says; else forge.toml, which lies in the workspace or is
    the file that FORGE_CONFIG names; else its default.
    """
    config = config_of()
    rows = [
        row | dict(zip(("what", "set_by"), _ABOUT.get(str(row["setting"]), _UNKNOWN), strict=True))
        for row in config.rows()
    ]
    if as_json:
        emit_json(rows)
        return
    emit(table(rows, ("setting", "value", "origin", "set_by", "what")))
    say(
        f"All but home can be written into {config.home / 'forge.toml'}, as in: minutes = 20; "
        "an option of a command wins over it."
    )
