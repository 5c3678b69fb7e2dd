"""The table of commands, and how what goes wrong in one becomes a sentence and an exit code.

Exit codes: 0 done or accepted, 1 fault (ours), 2 usage, 3 rejected or "no", 4 inconclusive, 130
interrupted at once. Commands import what they need when they run: ``forge status`` must not
wait for torch or Prefect.
"""

from __future__ import annotations

import errno
import sys
from typing import NoReturn

import typer

from flows.cli import audit, config, doctor, judge, night, reading, tasks
from flows.cli.output import config_of, say
from forge.errors import ForgeError, UsageError

FAULT, USAGE = 1, 2

# What a person can do something about: no room, no permission, a read-only or missing place.
_PLACE_ERRORS = {
    errno.ENOSPC: "the disk is full; free some room and start again",
    errno.EDQUOT: "the disk quota is used up; free some room and start again",
    errno.EACCES: "permission denied; choose a FORGE_HOME that you may write",
    errno.EPERM: "not permitted; choose a FORGE_HOME that you may write",
    errno.EROFS: "the file system is read-only; choose a FORGE_HOME that you may write",
    errno.EEXIST: "a file is where a folder was expected; choose another FORGE_HOME",
    errno.ENOTDIR: "a folder was expected; choose another FORGE_HOME",
}
# DuckDB wraps the system's error in one of its own, and git prints it.
_FULL_DISK = "No space left on device"


def _home() -> str:
    """Return the workspace that this process works in, for a sentence about its disk."""
    try:
        return str(config_of().home)
    except (ForgeError, OSError):
        return "the workspace"


def make_app() -> typer.Typer:
    """Return the whole command line."""
    # Plain help: the boxes of rich cost 0.1 s of every start.
    app = typer.Typer(
        help="Make kernels faster every night, and read what was sealed and why.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.command("night")(night.night)
    app.command("status")(reading.status)
    app.command("history")(reading.history)
    app.command("show")(reading.show)
    app.command("judge")(judge.judge)
    app.command("audit")(audit.audit)
    app.command("doctor")(doctor.doctor)
    app.add_typer(tasks.app, name="tasks")
    app.add_typer(config.app, name="config")
    return app


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    try:
        make_app()()
    except ForgeError as error:
        say(f"forge: {error}")
        sys.exit(USAGE if isinstance(error, UsageError) else FAULT)
    except OSError as error:
        if error.errno not in _PLACE_ERRORS:
            raise
        say(f"forge: {error.filename or 'writing'}: {_PLACE_ERRORS[error.errno]}.")
        sys.exit(USAGE)
    # The top of the program: whatever ran out of room, the person is told so in one sentence.
    except Exception as error:
        if _FULL_DISK not in str(error):
            raise
        say(f"forge: {_home()}: {_PLACE_ERRORS[errno.ENOSPC]}.")
        sys.exit(USAGE)
    sys.exit(0)
