"""Whether the store still holds what the ledger sealed, asked before anything is built upon it.

A store that was deleted, moved or edited is never mended here: nothing that a program could guess
is worth more than the backup that its owner may have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from baselines.inspection import has_commit
from forge.errors import UsageError
from forge.report.table import counted
from ledger.reader import open_reader

if TYPE_CHECKING:
    from pathlib import Path

    from baselines.store import BaselineStore
    from forge.config import Workspace
    from forge.types import Baseline, Slot
    from ledger.store import Ledger


def refuse_disagreement(home: Path, ledger: Ledger, store: BaselineStore) -> None:
    """Raise unless the store's branch holds every generation that the ledger knows, unedited.

    Args:
        home: The workspace.
        ledger: Its ledger.
        store: Its store; nothing is made where there is none.

    Raises:
        UsageError: The store is gone, its branch was moved, or a slot was edited by hand.
    """
    recorded = {commit: f"generation 0 of {slot}" for slot, commit, _ in ledger.seeds()}
    sealed = ledger.sealed_promotions()
    recorded |= {
        commit: f"generation {promotion.generation} of {promotion.candidate.slot}"
        for promotion, commit in sealed
    }
    if not recorded:
        return
    if not store.path.exists():
        raise UsageError(
            f"The store {store.path} is gone, and the ledger has "
            f"{counted(len(recorded), 'generation')} of it: bring it back with "
            f"{bring_back(store.path)}, or move {home} away to start over."
        )
    held = {entry.commit: entry for slot in store.slots() for entry in store.commits(slot)}
    for commit, what in recorded.items():
        if commit not in held:
            raise UsageError(
                f"The store {store.path} no longer holds {what}, commit {commit[:12]}: its branch "
                "main was moved or rewritten; `forge audit` says how to restore it."
            )
    known = {promotion.id for promotion, _ in (*sealed, *ledger.unsealed_promotions())}
    for entry in held.values():
        if entry.promotion_id is not None and entry.promotion_id not in known:
            raise UsageError(
                f"Commit {entry} in {store.path} seals {entry.slot}, and the ledger never sealed "
                "it: somebody committed it by hand; `forge audit` says what else was changed."
            )
    for slot in store.slots():
        try:
            store.head(slot)
        except UsageError as error:
            raise UsageError(
                f"{str(error).rstrip('.')}; `forge audit` says what else was changed."
            ) from error


def refuse_lost_generation(paths: Workspace, slot: Slot, head: Baseline | None) -> None:
    """Raise if the ledger knows a generation of ``slot`` that is not the store's, or a later one.

    Args:
        paths: The workspace, which nobody need hold.
        slot: Which slot.
        head: Its newest generation in the store.

    Raises:
        UsageError: It does.
    """
    if not paths.ledger_db.exists():
        return
    for row in open_reader(paths.ledger_db).query("status"):
        if (row["task"], row["target"]) != (slot.task, slot.target):
            continue
        generation = -1 if head is None else head.generation
        is_another = head is not None and head.commit != row["commit"]
        if generation < row["generation"] or (generation == row["generation"] and is_another):
            raise UsageError(
                f"The store {paths.baselines_git} lacks generation {row['generation']} of {slot}, "
                "which the ledger sealed; `forge audit` says how to restore it."
            )


def how_to_restore(ledger: Ledger, store: BaselineStore) -> str:
    """Return how to restore a store that lacks what the ledger sealed, as one sentence."""
    if not store.path.exists():
        return f"The store {store.path} is gone: bring it back with {bring_back(store.path)}."
    newest = ledger.newest_commit()
    if newest is None or not has_commit(store.path, newest):
        return (
            f"The store {store.path} has lost commits: move it away and bring it back with "
            f"{bring_back(store.path)}."
        )
    return (
        "The branch main lacks what was sealed: delete no tag, and restore it with "
        f"`git --git-dir={store.path} update-ref refs/heads/main {newest}`."
    )


def bring_back(store: Path) -> str:
    """Return the command that restores a store from another copy of it."""
    return f"`git clone --mirror COPY {store}`, COPY being a clone or a backup of it"
