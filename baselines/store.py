"""The store of sealed kernels. The tip of its one branch alone says what each baseline is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from baselines import inspection, layout, message
from baselines.git import Git, Writer, writing
from baselines.lineage import Lineage, StoreCommit, folder_tree, reading, source_at
from forge.errors import HarnessFault, StaleState, UsageError
from forge.host import wall_clock
from forge.types import Baseline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from git import Repo

    from forge.promotion import Promotion
    from forge.types import Clock, KernelSource, Slot

_log = logging.getLogger(__name__)
# Only a person pushing into the store can move the branch while we hold its lock.
_TRIES = 5


def nowhere(point: str) -> None:
    """Do nothing at ``point``; the default of every ``at`` argument.

    ``at`` is called with the name of each point of a promotion between two durable writes, so
    that tests can kill a process exactly there.
    """
    del point


class BaselineStore:
    """A bare git repository of sealed kernels; made by the first write.

    Any number of threads and processes may read and write it at once.

    Args:
        path: Folder of the repository; it need not exist.
        clock: Gives commits their date.
    """

    def __init__(self, path: Path, clock: Clock = wall_clock) -> None:
        self._path = path.absolute()
        self._clock = clock
        self._git = Git(self._path)
        self._lineage = Lineage(self._path)

    @property
    def path(self) -> Path:
        """Folder of the repository."""
        return self._path

    def head(self, slot: Slot) -> Baseline | None:
        """Return the slot's baseline, or ``None`` before its seed.

        Raises:
            UsageError: The slot's folder was edited by hand, or the store cannot be read.
        """
        layout.check_slot(slot)
        return self._head(slot, self._lineage.read())

    def commits(self, slot: Slot) -> list[StoreCommit]:
        """Return what sealed each generation of the slot, oldest first."""
        return [entry for entry in self._lineage.read() if entry.slot == slot]

    def history(self, slot: Slot) -> list[Baseline]:
        """Return every generation of the slot, oldest first."""
        entries = self.commits(slot)
        if not entries:
            return []
        with reading(self._path) as repo:
            return [_load(repo, entry) for entry in entries]

    def at_generation(self, slot: Slot, generation: int) -> Baseline:
        """Return one generation of the slot; ``UsageError`` if there is no such one."""
        entries = self.commits(slot)
        for entry in entries:
            if entry.generation == generation:
                with reading(self._path) as repo:
                    return _load(repo, entry)
        known = f"generations 0 to {len(entries) - 1}" if entries else "no generation yet"
        raise UsageError(f"{slot} has no generation {generation}; it has {known}.")

    def slots(self) -> list[Slot]:
        """Return every slot that has a baseline, sorted."""
        return sorted({entry.slot for entry in self._lineage.read() if entry.slot is not None})

    def find(self, promotion_id: str) -> str | None:
        """Return the commit that sealed the promotion, or ``None``."""
        entry = self._sealed(promotion_id)
        return None if entry is None else entry.commit

    def seed(self, slot: Slot, source: KernelSource, task_digest: str) -> Baseline:
        """Make ``source`` generation 0 of ``slot``, unless it is already.

        Returns:
            Generation 0.

        Raises:
            UsageError: The slot's generation 0 is another source: the task changed.
        """
        layout.check_paths(source.files)
        tag = layout.tag(slot, 0)
        text = message.seed_message(slot, source, task_digest)
        with writing(self._path) as git:
            for _ in range(_TRIES):
                entries = self._started(git)
                found = next((entry for entry in entries if entry.slot == slot), None)
                if found is not None:
                    return self._seeded(git, found, slot, source)
                commit = self._commit(git, entries[-1].commit, slot, source, text)
                if self._swap(git, commit, entries[-1].commit, tag):
                    _log.info("%s: generation 0 is %s", slot, commit)
                    return self.at_generation(slot, 0)
        raise self._lost_race(str(slot))

    def seal(self, promotion: Promotion, at: Callable[[str], None] = nowhere) -> Baseline:
        """Commit the promoted candidate and make it its slot's baseline, exactly once.

        A promotion that is already in the store is returned as it is. A branch that moved without
        touching the slot's folder is built upon.

        Args:
            promotion: What to seal.
            at: Called with ``"committed"`` when the commit exists and no ref names it, and with
                ``"swapped"`` when the branch does.

        Raises:
            StaleState: The slot's baseline is no longer the promotion's parent.
            UsageError: The slot's folder was edited by hand, or the store cannot be read.
        """
        slot, source = promotion.candidate.slot, promotion.candidate.source
        layout.check_paths(source.files)
        text = message.promotion_message(promotion)
        tag = layout.tag(slot, promotion.generation)
        with writing(self._path) as git:
            for _ in range(_TRIES):
                sealed = self._sealed(promotion.id)
                if sealed is not None:
                    self._restore_tag(git, tag, sealed.commit)
                    return _baseline(sealed, source)
                tip = self._fence(promotion)
                commit = self._commit(git, tip, slot, source, text)
                at("committed")
                if self._swap(git, commit, tip, tag):
                    at("swapped")
                    _log.info("%s: generation %d is %s", slot, promotion.generation, commit)
                    return self.at_generation(slot, promotion.generation)
        raise self._lost_race(promotion.id)

    def recover(self) -> list[str]:
        """Delete what a killed git left in the store; return a sentence for each file.

        Raises:
            UsageError: What is left is damaged.
        """
        if not self._path.exists():
            return []
        with writing(self._path) as git:
            swept = git.sweep()
        self._lineage.read()
        return [f"Deleted {name}, which a killed git left in {self._path}." for name in swept]

    def problems(self, *, full: bool = False) -> list[str]:
        """Return everything wrong with the store as sentences; empty when nothing is.

        Args:
            full: Whether to read every object's contents too, not only how they connect.
        """
        if not self._path.exists():
            return []
        found = self._git.fsck(full=full)
        try:
            entries = self._lineage.read()
            found += inspection.lineage_problems(entries)
            found += inspection.tag_problems(entries, self._git.refs(layout.TAGS))
            with reading(self._path) as repo:
                found += inspection.folder_problems(repo, entries)
        except UsageError as error:
            found.append(str(error))
        return found

    def _head(self, slot: Slot, entries: Sequence[StoreCommit]) -> Baseline | None:
        last = _last(entries, slot)
        if last is None:
            return None
        with reading(self._path) as repo:
            sealed = folder_tree(repo, last.commit, slot)
            if folder_tree(repo, entries[-1].commit, slot) == sealed:
                return _load(repo, last)
            after = entries[entries.index(last) + 1 :]
            editor = next(e for e in after if folder_tree(repo, e.commit, slot) != sealed)
        raise UsageError(
            f"{layout.folder(slot)}/ in {self._path} was edited by hand in commit {editor}, after "
            f"generation {last.generation}: undo it in a clone with "
            f"`git revert {editor.commit[:12]}` and push {layout.BRANCH_NAME}."
        )

    def _started(self, git: Writer) -> Sequence[StoreCommit]:
        """Return the branch's commits, after making the repository and its first commit."""
        if not self._path.exists():
            git.create(layout.BRANCH_NAME)
        entries = self._lineage.read()
        if entries:
            return entries
        tree = git.write_tree([f"100644 blob {git.write_blob(message.readme())}\t{layout.README}"])
        commit = git.write_commit(tree, None, message.start_message(), self._clock())
        git.swap(layout.BRANCH, commit, None)
        return self._lineage.read()

    def _sealed(self, promotion_id: str) -> StoreCommit | None:
        entries = self._lineage.read()
        return next((entry for entry in entries if entry.promotion_id == promotion_id), None)

    def _seeded(
        self, git: Writer, found: StoreCommit, slot: Slot, source: KernelSource
    ) -> Baseline:
        if found.trailers["Source-Digest"] != source.digest:
            raise UsageError(
                f"The reference of {slot.task} is not the one its generation 0 was sealed with "
                f"({found.commit[:12]}), so no speedup would mean anything; restore it, or give "
                "the changed task another name."
            )
        if len(self.commits(slot)) == 1:
            self._restore_tag(git, layout.tag(slot, 0), found.commit)
        return _baseline(found, source)

    def _fence(self, promotion: Promotion) -> str:
        """Return the branch's tip if the promotion may be committed on top of it."""
        slot = promotion.candidate.slot
        entries = self._lineage.read()
        head = self._head(slot, entries)
        if head is None or head.commit != promotion.parent:
            now = "has no baseline" if head is None else f"is at generation {head.generation}"
            raise StaleState(
                f"{slot} {now} ({head.commit[:12] if head else 'no commit'}), and "
                f"{promotion.candidate.id} was measured against {promotion.parent[:12]}; "
                "measure it against the new one."
            )
        if promotion.generation != head.generation + 1:
            raise HarnessFault(
                f"Promotion {promotion.id} says generation {promotion.generation}; the one after "
                f"{promotion.parent[:12]} is {head.generation + 1}."
            )
        return entries[-1].commit

    def _commit(self, git: Writer, tip: str, slot: Slot, source: KernelSource, text: str) -> str:
        tree = _write_files(git, source.files)
        for below, name in ((f"{tip}:{slot.task}", slot.target), (tip, slot.task)):
            entries = self._entries(git, below)
            entries[name] = f"040000 tree {tree}\t{name}"
            tree = git.write_tree(entries.values())
        return git.write_commit(tree, tip, text, self._clock())

    def _entries(self, git: Writer, tree: str) -> dict[str, str]:
        commit, _, folder = tree.partition(":")
        if folder and folder not in git.entries(commit):
            return {}
        return git.entries(tree)

    def _swap(self, git: Writer, commit: str, tip: str, tag: str) -> bool:
        taken = git.tip(tag)
        if taken is not None:
            raise UsageError(
                f"The tag {tag} in {self._path} was made by hand; delete it: "
                f"`git --git-dir={self._path} update-ref -d {tag} {taken}`."
            )
        return git.swap(layout.BRANCH, commit, tip, [tag])

    def _restore_tag(self, git: Writer, tag: str, commit: str) -> None:
        """Make the tag that a kill in the middle of the swap can leave unmade."""
        if git.tip(tag) is None:
            git.swap(tag, commit, None)

    def _lost_race(self, what: str) -> HarnessFault:
        return HarnessFault(
            f"Somebody pushed to {self._path} {_TRIES} times while {what} was being sealed."
        )


def _last(entries: Sequence[StoreCommit], slot: Slot) -> StoreCommit | None:
    return next((entry for entry in reversed(entries) if entry.slot == slot), None)


def _load(repo: Repo, entry: StoreCommit) -> Baseline:
    if entry.slot is None:
        raise ValueError(f"{entry} seals nothing")
    source = source_at(repo, entry.commit, entry.slot)
    if source.digest != entry.trailers["Source-Digest"]:
        raise ValueError(f"{entry} holds another kernel than it says")
    return _baseline(entry, source)


def _baseline(entry: StoreCommit, source: KernelSource) -> Baseline:
    if entry.slot is None or entry.generation is None:
        raise ValueError(f"{entry} seals nothing")
    return Baseline(
        slot=entry.slot,
        commit=entry.commit,
        generation=entry.generation,
        source=source,
        candidate=entry.candidate,
        parent=entry.trailers.get("Parent"),
    )


def _write_files(git: Writer, files: Mapping[str, str]) -> str:
    """Store the files, some of them in folders, and return their tree."""
    entries: list[str] = []
    folders: dict[str, dict[str, str]] = {}
    for path, text in files.items():
        name, _, rest = path.partition("/")
        if rest:
            folders.setdefault(name, {})[rest] = text
        else:
            entries.append(f"100644 blob {git.write_blob(text)}\t{name}")
    entries += [
        f"040000 tree {_write_files(git, files)}\t{name}" for name, files in folders.items()
    ]
    return git.write_tree(entries)
