"""The commits of the store as values, read with GitPython.

Only full ref names of this project and names of objects go into GitPython, and its git process
is told what the user's environment might otherwise tell it.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from baselines import layout
from baselines.git import ENVIRONMENT, Git
from baselines.message import STORE_FORMAT, parse_trailers
from forge.errors import UsageError
from forge.types import CandidateId, KernelSource, Slot

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import git
    from git.objects import Commit, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCommit:
    """One commit of the branch.

    Attributes:
        commit: Its name.
        parents: Names of its parents; one, or none for the first.
        tree: Name of its root tree.
        title: First line of its message.
        author: Name of its author.
        at: When it was committed.
        trailers: What its message ends with.
        slot: The slot it seals a generation of; ``None`` when it seals none.
        generation: Which one.
    """

    commit: str
    parents: tuple[str, ...]
    tree: str
    title: str
    author: str
    at: datetime
    trailers: Mapping[str, str]
    slot: Slot | None
    generation: int | None

    @property
    def promotion_id(self) -> str | None:
        """Id of the promotion it seals; ``None`` for a seed."""
        return self.trailers.get("Promotion-Id")

    @property
    def candidate(self) -> CandidateId | None:
        """Id of the candidate it was; ``None`` for a seed."""
        name = self.trailers.get("Candidate")
        return None if name is None else CandidateId(name)

    def __str__(self) -> str:
        return f"{self.commit[:12]} ({self.title!r} by {self.author})"


class Lineage:
    """The branch, commit by commit; each commit is read once.

    Args:
        path: Folder of the repository; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._git = Git(path)
        self._commits: tuple[StoreCommit, ...] = ()

    def read(self) -> Sequence[StoreCommit]:
        """Return the branch's commits as it stands now, oldest first.

        Raises:
            UsageError: The store is damaged, not a store, or of a newer format.
        """
        path = self._git.path
        tip = self._git.tip(layout.BRANCH) if path.exists() else None
        if tip is None:
            return ()
        if not self._commits or self._commits[-1].commit != tip:
            with reading(path) as repo:
                self._commits = _walk(repo, tip, self._commits)
        _check_format(self._commits[0], path)
        return self._commits


@contextmanager
def reading(path: Path) -> Generator[git.Repo]:
    """Open the repository at ``path``; what cannot be read there is a ``UsageError``."""
    try:
        import git  # noqa: PLC0415 (it starts a git, and raises without one)
        from git.exc import GitError, ODBError  # noqa: PLC0415
    except ImportError as error:
        raise UsageError("There is no git on the PATH; install git 2.36 or newer.") from error
    try:
        with git.Repo(path, expand_vars=False) as repo:
            repo.git.update_environment(
                **ENVIRONMENT,
                GIT_DIR=str(path),
                GIT_COMMON_DIR=str(path),
                GIT_OBJECT_DIRECTORY=str(path / "objects"),
                GIT_ALTERNATE_OBJECT_DIRECTORIES="",
                GIT_CONFIG_COUNT="0",
                GIT_CONFIG_PARAMETERS="",
                GIT_TRACE="0",
            )
            yield repo
    except (GitError, ODBError, ValueError, OSError) as error:
        raise UsageError(
            f"The store {path} cannot be read ({type(error).__name__}: {error}); "
            "`forge audit` says what is damaged; restore it from a backup or a clone."
        ) from error


def folder_tree(repo: git.Repo, commit: str, slot: Slot) -> str | None:
    """Return the name of the slot's folder as it was in ``commit``, or ``None``."""
    tree = _folder(repo.commit(commit).tree, slot)
    return None if tree is None else tree.hexsha


def source_at(repo: git.Repo, commit: str, slot: Slot) -> KernelSource:
    """Return the kernel in the slot's folder in ``commit``; ``ValueError`` if it is not one."""
    tree = _folder(repo.commit(commit).tree, slot)
    if tree is None:
        raise ValueError(f"{commit} has no folder {layout.folder(slot)}")
    return KernelSource(files=dict(_files(tree, "")))


def changed_folders(repo: git.Repo, old: str | None, new: str) -> set[str]:
    """Return what differs between two commits: ``<task>/<target>`` folders, and other paths."""
    before = {} if old is None else _by_name(repo.commit(old).tree)
    after = _by_name(repo.commit(new).tree)
    changed: set[str] = set()
    for task in _unlike(before, after):
        sides = before.get(task), after.get(task)
        if any(item is not None and item.type != "tree" for item in sides):
            changed.add(task)
            continue
        inside = [{} if item is None else _by_name(item) for item in sides]
        changed |= {f"{task}/{target}" for target in _unlike(*inside)}
    return changed


def _walk(repo: git.Repo, tip: str, known: Sequence[StoreCommit]) -> tuple[StoreCommit, ...]:
    position = {entry.commit: index for index, entry in enumerate(known)}
    fresh: list[StoreCommit] = []
    at: str | None = tip
    while at is not None and at not in position:
        entry = _parse(repo.commit(at))
        fresh.append(entry)
        at = entry.parents[0] if entry.parents else None
    kept = () if at is None else known[: position[at] + 1]
    return (*kept, *reversed(fresh))


def _parse(commit: Commit) -> StoreCommit:
    message = commit.message if isinstance(commit.message, str) else ""
    trailers = parse_trailers(message)
    slot, generation = _what_it_seals(trailers) or (None, None)
    return StoreCommit(
        commit=commit.hexsha,
        parents=tuple(parent.hexsha for parent in commit.parents),
        tree=commit.tree.hexsha,
        title=message.partition("\n")[0],
        author=str(commit.author.name),
        at=commit.committed_datetime,
        trailers=trailers,
        slot=slot,
        generation=generation,
    )


def _what_it_seals(trailers: Mapping[str, str]) -> tuple[Slot, int] | None:
    if not trailers.keys() >= {"Task", "Target", "Generation", "Source-Digest"}:
        return None
    return layout.parse_tag(
        f"{layout.TAGS}{trailers['Task']}/{trailers['Target']}/g{trailers['Generation']}"
    )


def _check_format(first: StoreCommit, path: Path) -> None:
    found = first.trailers.get("Store-Format")
    if found is None:
        raise UsageError(
            f"{path} is a git repository but not a store of this project: its first commit, "
            f"{first}, is not ours; set another FORGE_HOME."
        )
    if found != STORE_FORMAT:
        raise UsageError(
            f"The store {path} has format {found}, and this version reads format "
            f"{STORE_FORMAT}; update this project."
        )


def _folder(root: Tree, slot: Slot) -> Tree | None:
    at = root
    for name in (slot.task, slot.target):
        found = [tree for tree in at.trees if tree.name == name]
        if not found:
            return None
        at = found[0]
    return at


def _files(tree: Tree, prefix: str) -> Generator[tuple[str, str]]:
    for item in tree:
        path = f"{prefix}{item.name}"
        if item.type == "tree":
            yield from _files(item, path + "/")
        elif item.type == "blob":
            yield path, cast("bytes", item.data_stream.read()).decode()
        else:
            raise ValueError(f"{path} is a {item.type}, not a file")


def _by_name(tree: Tree) -> dict[str, Any]:
    return {item.name: item for item in tree}


def _unlike(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    return {
        name
        for name in before.keys() | after.keys()
        if getattr(before.get(name), "hexsha", None) != getattr(after.get(name), "hexsha", None)
    }
