"""Real processes that own a ledger: ``python -m tests.integration.ledger_child WHAT FOLDER``.

Each says on stdout what it has done, one line a thing, and most go on until they are killed.
"""

import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from forge.errors import ForgeError
from forge.lifecycle import CandidateState as S
from ledger.owner import OwnerServer
from ledger.reader import open_reader
from ledger.store import Ledger
from tests.integration.ledger_things import (
    COMMIT_0,
    NIGHT,
    SLOT,
    candidate,
    evidence,
    open_ledger,
    sealed,
)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def insert(folder: Path) -> None:
    """Record and move candidates for ever, saying each one that is acknowledged."""
    with open_ledger(folder) as ledger:
        number = 0
        while True:
            one = candidate(f"{os.getpid()}-{number}")
            ledger.record_candidate(one, NIGHT)
            digest = ledger.put_evidence(one.id, evidence(rounds=number))
            ledger.advance(one.id, S.PROPOSED, S.WAITING)
            say(f"{one.id} {digest}")
            number += 1


def promote(folder: Path) -> None:
    """Promote for ever, saying each intent and each seal that is acknowledged."""
    with open_ledger(folder) as ledger:
        ledger.seed_recorded(SLOT, COMMIT_0, "d" * 64)
        generation = len(ledger.query("history", slot=str(SLOT)))
        while True:
            say(f"{sealed(ledger, f'{os.getpid()}-{generation}', generation)}")
            generation += 1


def own(folder: Path) -> None:
    """Own a ledger with two generations and answer readers until killed."""
    with open_ledger(folder) as ledger, OwnerServer(ledger):
        fill(ledger)
        say("ready")
        sys.stdin.read()


def hold(folder: Path) -> None:
    """Own a ledger and answer nobody."""
    with open_ledger(folder):
        say("ready")
        sys.stdin.read()


def write(folder: Path) -> None:
    """Write until the disk is full, and say what the error was."""
    ledger = open_ledger(folder)
    number = 0
    try:
        while True:
            ledger.record_environment(f"env-{number}", {"text": "x" * 20_000})
            say(f"env-{number}")
            number += 1
    except ForgeError as error:
        say(f"{type(error).__name__}: {error}")


def write_limited(folder: Path) -> None:
    """Write until no file may grow any more, and say what the error was."""
    open_ledger(folder).close()
    largest = 2**20 + 2**19
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    write(folder)


def read_only(folder: Path) -> None:
    """Read a ledger, then try to own it, and say what came of both."""
    say(f"read {len(open_reader(folder / 'ledger.duckdb').query('events'))}")
    try:
        open_ledger(folder)
    except ForgeError as error:
        say(f"{type(error).__name__}: {error}")


def fork(folder: Path) -> None:
    """Use an open ledger in a forked child, and say what came of it."""
    ledger = open_ledger(folder)
    if os.fork() == 0:
        try:
            ledger.record_fault(NIGHT, "written by a child")
            say("written")
        except ForgeError as error:
            say(f"{type(error).__name__}: {error}")
        os._exit(0)
    os.wait()


def fill(ledger: Ledger) -> None:
    """Give a ledger a night, two generations and a candidate."""
    ledger.open_night(NIGHT, {"minutes": 8})
    ledger.seed_recorded(SLOT, COMMIT_0, "d" * 64)
    first = sealed(ledger, "first", 1)
    second = sealed(ledger, "second", 2, first)
    ledger.record_candidate(candidate("third", parent=second), NIGHT)
    ledger.record_rival(SLOT, second, "eager", {"speedup": 0.4, "roof_share": 0.7})
    ledger.record_rival(SLOT, second, "torch.compile", {"speedup": 0.8, "roof_share": 0.7})


if __name__ == "__main__":
    known: dict[str, Callable[[Path], None]] = {
        "insert": insert,
        "promote": promote,
        "own": own,
        "hold": hold,
        "write": write,
        "write-limited": write_limited,
        "read-only": read_only,
        "fork": fork,
    }
    known[sys.argv[1]](Path(sys.argv[2]))
