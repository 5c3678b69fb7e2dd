"""What can be wrong with a store that git itself finds sound."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from baselines import layout
from baselines.git import Git, GitError
from baselines.lineage import changed_folders, source_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import git

    from baselines.lineage import StoreCommit
    from forge.types import Slot


def lineage_problems(entries: Sequence[StoreCommit]) -> list[str]:
    """Return what is wrong with the order of the commits and with what they say of it."""
    found: list[str] = []
    last: dict[Slot, StoreCommit] = {}
    for entry in entries:
        if len(entry.parents) > 1:
            found.append(f"Commit {entry} is a merge; the history must be a line.")
        if entry.slot is None:
            if entry.parents:
                found.append(f"Commit {entry} is not ours: the store was edited by hand.")
            continue
        found += _succession_problems(entry, last.get(entry.slot))
        last[entry.slot] = entry
    ids = Counter(entry.promotion_id for entry in entries if entry.promotion_id is not None)
    found += [f"Promotion {id_} was sealed {n} times." for id_, n in ids.items() if n > 1]
    return found


def has_commit(store: Path, commit: str) -> bool:
    """Say whether the store still has ``commit``, whether or not its branch leads to it."""
    try:
        Git(store).run("cat-file", "-e", f"{commit}^{{commit}}")
    except GitError:
        return False
    return True


def tag_problems(entries: Sequence[StoreCommit], tags: Mapping[str, str]) -> list[str]:
    """Return every tag that is missing, names another commit, or names no generation."""
    wanted = {
        layout.tag(entry.slot, entry.generation): entry.commit
        for entry in entries
        if entry.slot is not None and entry.generation is not None
    }
    ours = [ref for ref in tags if layout.parse_tag(ref)]
    if ours and not entries:
        gone = f"The branch {layout.BRANCH_NAME} is gone"
        return [f"{gone}, and {len(ours)} tags still name what was sealed: keep them."]
    found: list[str] = []
    for ref, commit in wanted.items():
        if ref not in tags:
            found.append(f"The tag {ref} is missing; it must name {commit}.")
        elif tags[ref] != commit:
            found.append(f"The tag {ref} names {tags[ref]}; it must name {commit}.")
    return found + [
        f"The tag {ref} names {tags[ref]}, which seals no such generation on {layout.BRANCH_NAME}."
        for ref in sorted(set(ours) - wanted.keys())
    ]


def folder_problems(repo: git.Repo, entries: Sequence[StoreCommit]) -> list[str]:
    """Return every commit that changed another folder than its own, or not as it says."""
    found: list[str] = []
    for entry in entries:
        parent = entry.parents[0] if entry.parents else None
        changed = changed_folders(repo, parent, entry.commit)
        if entry.slot is None:
            allowed: set[str] = set() if entry.parents else {layout.README}
        else:
            allowed = {layout.folder(entry.slot)}
            found += _source_problems(repo, entry, entry.slot)
        found += [f"Commit {entry} changed {path} by hand." for path in sorted(changed - allowed)]
    return found


def _succession_problems(entry: StoreCommit, before: StoreCommit | None) -> Iterable[str]:
    wanted = 0 if before is None else (before.generation or 0) + 1
    if entry.generation != wanted:
        yield (
            f"Commit {entry} says generation {entry.generation} of {entry.slot}; "
            f"the next one was {wanted}."
        )
    parent = None if before is None else before.commit
    if entry.trailers.get("Parent") != parent:
        yield (
            f"Commit {entry} says its parent is {entry.trailers.get('Parent')}; "
            f"the generation before is {parent}."
        )


def _source_problems(repo: git.Repo, entry: StoreCommit, slot: Slot) -> Iterable[str]:
    try:
        digest = source_at(repo, entry.commit, slot).digest
    except ValueError as error:
        yield f"Commit {entry} holds no kernel: {error}."
        return
    if digest != entry.trailers["Source-Digest"]:
        yield (
            f"Commit {entry} holds a kernel of digest {digest}; "
            f"its message says {entry.trailers['Source-Digest']}."
        )
