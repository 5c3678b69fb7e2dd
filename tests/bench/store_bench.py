"""What the git store costs: run by hand, `python -m tests.bench.store_bench [generations]`.

A night seals some tens of kernels and looks up a few hundred heads; git may take a small part of
the 5 % that it shares with Prefect and the ledger.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from baselines.store import BaselineStore
from tests.integration.store_making import (
    NIGHT,
    REFERENCE,
    TARGET,
    TASK_DIGEST,
    Slot,
    kernel,
    promotion,
)

SLOTS = [Slot(task=f"task_{n:02}", target=TARGET) for n in range(14)]


def _ms(work, times=1):
    took = []
    for _ in range(times):
        begun = time.perf_counter()
        work()
        took.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(took)


def main(generations: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baselines.git"
        store = BaselineStore(path, clock=lambda: NIGHT)
        seeds = [_ms(lambda slot=slot: store.seed(slot, REFERENCE, TASK_DIGEST)) for slot in SLOTS]
        seals = []
        for n in range(generations):
            slot = SLOTS[n % len(SLOTS)]
            head = store.head(slot)
            made = promotion(
                f"c{n}", head.commit, head.generation + 1, slot, source=kernel(f"{n}" * 200)
            )
            seals.append(_ms(lambda made=made: store.seal(made)))
        rows = {
            "seed, median": statistics.median(seeds),
            "seal, median of the first 20": statistics.median(seals[:20]),
            "seal, median of the last 20": statistics.median(seals[-20:]),
            "head, branch read before": _ms(lambda: store.head(SLOTS[0]), 9),
            "head, first in a process": _ms(lambda: BaselineStore(path).head(SLOTS[0]), 5),
            "history of a slot": _ms(lambda: store.history(SLOTS[0]), 3),
            "find a promotion": _ms(lambda: store.find("promotion-c0"), 9),
            "recover": _ms(store.recover, 3),
            "problems, connectivity": _ms(store.problems),
            "problems, full": _ms(lambda: store.problems(full=True)),
        }
    sys.stdout.write(f"{len(SLOTS)} slots, {generations} promotions; milliseconds\n")
    for name, ms in rows.items():
        sys.stdout.write(f"{ms:10.1f}  {name}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
