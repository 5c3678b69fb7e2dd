"""What a person types for a slot, a generation or a record, and what it stands for."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any

from forge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from forge.config import Workspace

    Rows = Sequence[Mapping[str, Any]]

_WORD = re.compile(r"[a-z][a-z0-9_-]*")
# task/target@g1 as this project writes it, task/target/g1 as the store's tags are called.
_GENERATION = re.compile(r"(?:refs/tags/)?([^@]+)[@/]g(\d+)")

_HEX = re.compile(r"[0-9a-f]+")


def slot_named(text: str, paths: Workspace, rows: Rows) -> str:
    """Return the full name of a slot that is typed as ``task/target`` or as its task alone.

    Args:
        text: What was typed.
        paths: Whose tasks there are.
        rows: The slots that the ledger has.

    Raises:
        UsageError: There is no such task or target, or the task alone names several slots.
    """
    from forge.host import parse_slot, probe_environment

    task, slash, _ = text.partition("/")
    if _WORD.fullmatch(task):
        require_task(task, paths, rows)
    if slash or not _WORD.fullmatch(task):
        targets = {row["target"] for row in rows}
        return str(parse_slot(text, probe_environment(), targets))
    known = [f"{row['task']}/{row['target']}" for row in rows if row["task"] == task]
    if len(known) > 1:
        raise UsageError(f"{task} has {len(known)} slots here: name one of {', '.join(known)}.")
    return known[0] if known else str(parse_slot(f"{task}/cpu", probe_environment()))


def id_named(text: str, paths: Workspace, rows: Rows) -> str:
    """Return what the ledger's ``show`` takes for what was typed.

    A generation may be spelled like its tag, its target by an alias; a slot or a task alone
    means its newest generation. Whatever else is typed is returned as it is.

    Raises:
        UsageError: It is spelled like a slot, and there is no such one.
    """
    generation = _GENERATION.fullmatch(text)
    if generation is not None:
        return f"{slot_named(generation[1], paths, rows)}@g{generation[2]}"
    if "/" not in text and not any(row["task"] == text for row in rows):
        return text
    slot = slot_named(text, paths, rows)
    for row in rows:
        if f"{row['task']}/{row['target']}" == slot:
            return f"{slot}@g{row['generation']}"
    raise UsageError(f"{slot} has no generation yet; forge night seals them.")


def require_task(name: str, paths: Workspace, rows: Rows = ()) -> None:
    """Raise ``UsageError`` unless there is a task ``name``, or the ledger has a slot of it."""
    if any(row["task"] == name for row in rows):
        return
    from flows import wiring

    known = wiring.all_tasks(paths)
    if name not in known:
        raise UsageError(f"There is no task {name!r}; {_likely(name, known)}.")


def explain_missing(text: str, paths: Workspace, rows: Rows, error: UsageError) -> UsageError:
    """Return ``error`` about an id with what helps to find it: the workspace, and like tasks."""
    said = error
    if "nothing called" in str(error) and _WORD.fullmatch(text) and not _HEX.fullmatch(text):
        try:
            require_task(text, paths, rows)
        except UsageError as unknown:
            said = unknown
    return UsageError(
        f"{str(said).rstrip('.')} (looked in {paths.home}; FORGE_HOME names another workspace)."
    )


def _likely(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names)
    return f"close to it: {', '.join(close)}" if close else f"known: {', '.join(names)}"
