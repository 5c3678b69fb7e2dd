"""What the ledger costs: ``python -m tests.bench.ledger_bench [CANDIDATES]``; prints milliseconds.

With a number, that many candidates and a thousandth as many generations are generated first.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from forge.host import wall_clock
from forge.lifecycle import CandidateState as S
from forge.types import CandidateId
from ledger.owner import OwnerServer
from ledger.reader import FileReader, OwnerReader
from ledger.store import Ledger
from tests.integration.ledger_things import (
    COMMIT_0,
    NIGHT,
    SLOT,
    accepted,
    candidate,
    evidence,
    promotion,
)

REPEATS = 60


def line(name: str, run: Callable[[int], object], repeats: int = REPEATS) -> None:
    """Time ``run`` and print its median, and what this process's cores were busy with it.

    On a machine that does other work, the second is the nearer to the truth.
    """
    taken: list[float] = []
    busy = time.process_time()
    for number in range(repeats):
        begun = time.perf_counter()
        run(number)
        taken.append((time.perf_counter() - begun) * 1e3)
    busy = (time.process_time() - busy) * 1e3 / repeats
    sys.stdout.write(f"{name:44} {median(taken):9.2f} ms   of it busy: {busy:9.2f} ms\n")


def generate(ledger: Ledger, count: int) -> None:
    """Fill the tables by SQL: ``count`` rejected candidates and ``count / 1000`` generations."""
    with ledger.writing() as tx:
        tx.run(
            "insert into candidates select md5(i::varchar), i, now()::timestamp, 'softmax', ?, "
            "sha256(i::varchar), ?, 'sweep', 'two passes', '{}', 'night-' || i // 300, "
            "'rejected', 'not-faster', '1.00x' from range(?) t(i)",
            SLOT.target,
            COMMIT_0,
            count,
        )
        tx.run(
            "insert into evidence select sha256('e' || i), md5(i::varchar), i, now()::timestamp, "
            "'screen', 'v1', 'env', 'harness', 12, 0.05, 0.004, 0.5, 0.1, 0.2, 1000 "
            "from range(?) t(i)",
            count,
        )
        tx.run(
            "insert into promotions select 'p' || i, i, 'softmax', ?, i + 1, md5(i::varchar), "
            "md5('c' || i), 'night', 'sweep', sha256('e' || i), 1.5, 1.4, 1.6, '', null, "
            "repeat('x', 4000), 'sealed', md5('c' || i + 1), now()::timestamp from range(?) t(i)",
            SLOT.target,
            count // 1000,
        )


def writes(ledger: Ledger) -> None:
    """Time what a night does for each candidate and each promotion."""
    ones = [candidate(f"bench-{number}") for number in range(REPEATS)]
    line("record a candidate", lambda n: ledger.record_candidate(ones[n], NIGHT))
    line("move it", lambda n: ledger.advance(ones[n].id, S.PROPOSED, S.WAITING))
    seen = [evidence(rounds=400 + n) for n in range(REPEATS)]
    line("keep evidence of 400 rounds", lambda n: ledger.put_evidence(ones[n].id, seen[n]))
    line("record a fault (smallest write)", lambda n: ledger.record_fault(NIGHT, f"{n}"))
    line("enter confirm", lambda n: ledger.enter_confirm(SLOT, CandidateId(f"k{n}")))
    ledger.set_envelope(NIGHT, "wall_s", 1e6)
    held: list[str] = []
    line("reserve", lambda _: held.append(ledger.reserve(NIGHT, "night", "wall_s", 1)))
    line("settle", lambda n: ledger.settle(held[n], 0.5))
    line("known_digest", lambda n: ledger.known_digest(SLOT, ones[n].source.digest))

    ready = [
        promotion(accepted(ledger, candidate(f"p{n}")), 10**6 + n, f"i{n}") for n in range(20)
    ]

    def promote(number: int) -> None:
        one = ready[number]
        ledger.intend(one)
        ledger.mark_committed(one.id, f"{number:040x}")
        ledger.mark_sealed(one.id, f"{number:040x}")

    line("intend, mark committed, mark sealed", promote, len(ready))


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.duckdb"
        begun = time.perf_counter()
        ledger = Ledger(path, Path(folder) / "evidence", wall_clock)
        sys.stdout.write(f"{'make a ledger':44} {(time.perf_counter() - begun) * 1e3:9.2f} ms\n")
        with ledger:
            ledger.open_night(NIGHT, {})
            ledger.seed_recorded(SLOT, COMMIT_0, "d" * 64)
            if len(sys.argv) > 1:
                generate(ledger, int(sys.argv[1]))
            writes(ledger)
            with OwnerServer(ledger):
                reader = OwnerReader(path)
                line("status through the socket", lambda _: reader.query("status"))
                line(
                    "history through the socket", lambda _: reader.query("history", slot=str(SLOT))
                )
            line("verify the chain", lambda _: ledger.verify_chain(), 5)
        files = FileReader(path)
        line("status from the file", lambda _: files.query("status"), 10)
        size = path.stat().st_size / 2**20
        sys.stdout.write(f"{'size of the file':44} {size:9.2f} MiB\n")


if __name__ == "__main__":
    main()
