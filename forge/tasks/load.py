"""Read tasks from their folders. A task's ``reference.py`` is read here, never executed."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from forge.errors import UsageError
from forge.tasks.model import Task, TaskProblem
from forge.types import content_digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\-]+)\s*\]")
_KEY = re.compile(r"^\s*([\w.\-]+)\s*=")

Where = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTask:
    """A task as it lies on disk.

    Attributes:
        task: What ``task.toml`` says.
        folder: Where it was read.
        reference_source: Text of ``reference.py``; only ``forge.tasks.reference`` executes it.
        digest: SHA-256 over both files: a changed task is another task.
    """

    task: Task
    folder: Path
    reference_source: str
    digest: str


def load_task(folder: Path) -> LoadedTask:
    """Read the task in ``folder``.

    Raises:
        UsageError: A file is missing or malformed; the message has the file, line and key.
    """
    path = folder / "task.toml"
    manifest, reference = _read(path), _read(folder / "reference.py")
    task = parse_task(manifest.decode(), path)
    if task.name != folder.name:
        raise UsageError(
            f"{path}, line {_line(manifest.decode(), ('name',))}, key name: the task is called "
            f"{task.name!r} but its folder {folder.name!r}; give both the same name."
        )
    return LoadedTask(
        task=task,
        folder=folder,
        reference_source=reference.decode(),
        digest=content_digest(manifest, reference),
    )


def find_tasks(roots: Sequence[Path]) -> dict[str, LoadedTask]:
    """Read every task under ``roots`` (folders that hold a ``task.toml``), by name, sorted.

    A root that does not exist holds no task.

    Raises:
        UsageError: A task is malformed, or two have one name.
    """
    found: dict[str, LoadedTask] = {}
    for root in roots:
        for manifest in sorted(root.glob("*/task.toml")):
            loaded = load_task(manifest.parent)
            other = found.get(loaded.task.name)
            if other is not None:
                raise UsageError(
                    f"Two tasks are called {loaded.task.name!r}: {other.folder} and "
                    f"{loaded.folder}; rename one folder and its name key."
                )
            found[loaded.task.name] = loaded
    return dict(sorted(found.items()))


def parse_task(text: str, path: Path) -> Task:
    """Return the task that ``text``, read from ``path``, describes.

    Raises:
        UsageError: It is malformed; one sentence with the file, line and key.
    """
    try:
        return Task.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not valid TOML: {error}.") from error
    except ValidationError as error:
        where, message = _first(error)
        key = ".".join(str(part) for part in where) or "the whole file"
        raise UsageError(f"{path}, line {_line(text, where)}, key {key}: {message}.") from error


def _first(error: ValidationError) -> tuple[Where, str]:
    """Return the key and the sentence of the first problem."""
    details = error.errors()[0]
    cause = details.get("ctx", {}).get("error")
    where: Where = cause.where if isinstance(cause, TaskProblem) else details["loc"]
    message = str(cause) if isinstance(cause, ValueError) else details["msg"]
    if details["type"] not in ("missing", "extra_forbidden", "value_error"):
        message += f", got {details['input']!r}"
    return where, message.rstrip(".")


def _line(text: str, where: Where) -> int:
    """Return the line of the deepest part of ``where`` that the text spells out."""
    best, depth = 1, 0
    for number, path in _keys(text):
        shared = 0
        for part, wanted in zip(path, where, strict=False):
            if part != wanted:
                break
            shared += 1
        if shared > depth:
            best, depth = number, shared
    return best


def _keys(text: str) -> list[tuple[int, Where]]:
    """Return the line and full path of every table header and key."""
    keys: list[tuple[int, Where]] = []
    counts: dict[str, int] = {}
    table: Where = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(name.split("."))
            if header[1] == "[[":
                table = (*table, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            keys.append((number, table))
        elif key := _KEY.match(line):
            keys.append((number, (*table, *key[1].split("."))))
    return keys


def _read(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        content.decode()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); a task has task.toml and reference.py."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}).") from error
    return content
