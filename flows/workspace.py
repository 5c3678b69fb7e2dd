"""Opening a workspace: one night at a time, repaired before anything is added to it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from baselines.store import BaselineStore
from flows.agreement import refuse_disagreement
from flows.promotion import repair
from forge.errors import UsageError
from ledger.owner import OwnerServer
from ledger.store import Ledger

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from forge.config import Workspace
    from forge.types import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWorkspace:
    """A workspace that this process owns.

    Attributes:
        paths: Where it is.
        ledger: Its ledger.
        store: Its git store.
        repairs: What was repaired when it was opened, one sentence each.
    """

    paths: Workspace
    ledger: Ledger
    store: BaselineStore
    repairs: tuple[str, ...]


@contextlib.contextmanager
def open_workspace(paths: Workspace, clock: Clock) -> Generator[OpenWorkspace]:
    """Own ``paths`` until the end: repair it, and answer other commands' questions meanwhile.

    Raises:
        UsageError: Another process owns it, it is of a newer version, or its store does not
            hold what its ledger sealed.
    """
    make_workspace(paths)
    with hold_lock(paths.lock), contextlib.ExitStack() as stack:
        ledger = stack.enter_context(Ledger(paths.ledger_db, paths.evidence_dir, clock))
        store = BaselineStore(paths.baselines_git, clock)
        repairs = tuple(_repaired(paths, ledger, store))
        stack.enter_context(OwnerServer(ledger))
        yield OpenWorkspace(paths=paths, ledger=ledger, store=store, repairs=repairs)


def make_workspace(paths: Workspace) -> None:
    """Create the workspace's folders where they are missing."""
    for folder in (paths.home, paths.evidence_dir, paths.cache_dir, paths.tasks_dir):
        folder.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def hold_lock(path: Path) -> Generator[None]:
    """Hold the workspace's lock; the system lets go of it when this process ends, however.

    Raises:
        UsageError: Somebody else holds it; the message names their process.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise UsageError(
                f"A night or a judge is measuring in {path.parent} already (process {holder}); "
                "wait for it to end, or stop it with Ctrl-C."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _repaired(paths: Workspace, ledger: Ledger, store: BaselineStore) -> Iterator[str]:
    """Finish what a killed process left half-way, in the order in which it depends."""
    for name in store.recover():
        yield f"Deleted {name}, which a killed git left in the store."
    # First: a repair that found no store would take every promotion for superseded.
    refuse_disagreement(paths.home, ledger, store)
    yield from repair(ledger, store)
    for night in ledger.open_nights():
        ledger.close_night(night.id, "interrupted", {})
        yield f"Night {night.id} had been cut short; it is closed as interrupted."
    ledger.blobs.remove_partial()
