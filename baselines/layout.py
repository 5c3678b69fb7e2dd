"""Where things are in the store: the branch, a folder per slot, a tag per generation.

Names reach git only through this module, which refuses whatever could be read as an option,
leave its folder, or mean two things on two file systems.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from forge.errors import UsageError
from forge.types import Slot

if TYPE_CHECKING:
    from collections.abc import Iterable

BRANCH_NAME = "main"
BRANCH = f"refs/heads/{BRANCH_NAME}"
TAGS = "refs/tags/"
README = "README.md"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
# No dot first: that keeps out "..", ".git" and files that tools hide.
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}")
_TAG = re.compile(rf"{TAGS}([^/]+)/([^/]+)/g(0|[1-9][0-9]{{0,8}})")
_DEEPEST = 6


def is_name(text: str) -> bool:
    """Say whether ``text`` can name a task or a target."""
    return _NAME.fullmatch(text) is not None


def check_slot(slot: Slot) -> None:
    """Raise ``UsageError`` unless the slot's names can be a folder and a ref."""
    for word, name in (("task", slot.task), ("target", slot.target)):
        if not is_name(name):
            raise UsageError(
                f"{name!r} cannot name a {word}: use lower case letters, digits, '-' and '_', "
                "a letter or digit first, 100 at most."
            )


def folder(slot: Slot) -> str:
    """Return the slot's folder, relative to the root of the tree."""
    check_slot(slot)
    return f"{slot.task}/{slot.target}"


def tag(slot: Slot, generation: int) -> str:
    """Return the full ref name of the tag of ``generation``."""
    return f"{TAGS}{folder(slot)}/g{generation}"


def parse_tag(ref: str) -> tuple[Slot, int] | None:
    """Return the slot and generation that a full ref name stands for, or ``None``."""
    found = _TAG.fullmatch(ref)
    if found is None or not (is_name(found[1]) and is_name(found[2])):
        return None
    return Slot(task=found[1], target=found[2]), int(found[3])


def check_paths(paths: Iterable[str]) -> None:
    """Raise ``UsageError`` unless all ``paths`` can be files of one folder on any file system."""
    taken: dict[str, str] = {}
    for path in sorted(paths):
        parts = path.split("/")
        if len(parts) > _DEEPEST or not all(_PART.fullmatch(part) for part in parts):
            raise UsageError(f"A kernel cannot have a file {path!r}; name it like 'part/file.h'.")
        for depth in range(1, len(parts) + 1):
            name = "/".join(parts[:depth])
            whole = name if depth == len(parts) else name + "/"
            if taken.setdefault(name.casefold(), whole) != whole:
                raise UsageError(
                    f"A kernel cannot have both {taken[name.casefold()]!r} and {whole!r}."
                )
