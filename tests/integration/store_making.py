"""Slots, kernels and promotions for the tests of the git store."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path

from baselines.store import BaselineStore
from forge.promotion import Promotion, WorkloadLine
from forge.types import Candidate, CandidateId, KernelSource, Slot, Speedup

TARGET = "sapphirerapids-avx512-1t"
SOFTMAX = Slot(task="softmax", target=TARGET)
ROPE = Slot(task="rope", target=TARGET)
NIGHT = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)
REFERENCE = KernelSource(files={"reference.py": "def run(x):\n    return x.softmax(-1)\n"})
TASK_DIGEST = "ab" * 32


def kernel(name: str) -> KernelSource:
    return KernelSource(
        files={
            "kernel.cpp": f'// {name}\nextern "C" void launch(const float* x, float* out) {{}}\n'
        }
    )


def promotion(
    name: str,
    parent: str,
    generation: int = 1,
    slot: Slot = SOFTMAX,
    *,
    source: KernelSource | None = None,
    **changes: object,
) -> Promotion:
    """Return a promotion whose ids all derive from ``name``."""
    candidate = Candidate(
        id=CandidateId(name),
        slot=slot,
        source=source or kernel(name),
        parent=parent,
        student="sweep",
        title="two passes, 16 lanes, unrolled by 4",
        origin={"family": "softmax", "knobs": "{}"},
    )
    fields: dict[str, object] = {
        "id": f"promotion-{name}",
        "candidate": candidate,
        "generation": generation,
        "parent": parent,
        "speedup": Speedup(point=1.8412, lower=1.7903, upper=1.8944),
        "over_parent": Speedup(point=1.1203, lower=1.0811, upper=1.1602),
        "evidence": "e1" * 32,
        "confirm_evidence": "e0" * 32,
        "night": "2026-03-02-1",
        "environment": "0123456789ab",
        "alpha": 0.05 / 6,
        "workloads": (
            WorkloadLine(axes="rows=4096 cols=1024", ratio=1.0954, lower=1.0712, upper=1.1301),
            WorkloadLine(axes="rows=1 cols=50257", ratio=1.2, lower=1.1, upper=1.31),
        ),
        "rival": "torch.compile",
        "rival_speedup": 1.307,
        "chain_head": "c4" * 32,
    }
    return Promotion(**(fields | changes))


def open_store(folder: Path) -> BaselineStore:
    return BaselineStore(folder / "baselines.git", clock=lambda: NIGHT)


def seeded(folder: Path, slot: Slot = SOFTMAX):
    """Return a store with generation 0 of ``slot``, and that generation."""
    store = open_store(folder)
    return store, store.seed(slot, REFERENCE, TASK_DIGEST)


def git(store: BaselineStore, *args: str) -> str:
    """Run git on the store as a person would."""
    done = subprocess.run(
        ["git", f"--git-dir={store.path}", *args], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def edit_by_hand(store: BaselineStore, folder: Path, path: str, text: str) -> str:
    """Commit ``text`` at ``path`` in a clone, push it, and return the commit."""
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", str(store.path), str(clone)], check=True)
    (clone / path).parent.mkdir(parents=True, exist_ok=True)
    (clone / path).write_text(text)
    me = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    for args in (["add", "-A"], [*me, "commit", "-qm", "Tune it a little"], ["push", "-q"]):
        subprocess.run(["git", *args], cwd=clone, check=True)
    return git(store, "rev-parse", "main")
