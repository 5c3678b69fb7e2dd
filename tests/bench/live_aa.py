"""Live A/A candidates: a kernel judged against itself, by the whole judge. None may be sealed.

    python tests/bench/live_aa.py [--candidates 40] [--task softmax]... [--confirm-s 8]

Each candidate is the task's default kernel with a comment of its own, confirmed as the first
candidate of a slot's year (the largest error it can ever have) against the same kernel.
"""

import argparse
import secrets
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from forge.host import probe_environment
from forge.judge import decision_v1
from forge.judge.judge import CpuJudge
from forge.students.sweep.render import find_families, render
from forge.tasks.load import load_task
from forge.types import KernelSource
from forge.verdict import Rejected

CATALOG = Path(__file__).parents[2] / "baselines" / "catalog"
TASKS = ("row_sum", "rmsnorm", "softmax", "rope")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--task", action="append", help=f"default: {' '.join(TASKS)}")
    parser.add_argument("--confirm-s", type=float, default=8)
    asked = parser.parse_args()
    names = asked.task or TASKS
    families = find_families()
    outcomes, rounds = Counter(), []
    with (
        tempfile.TemporaryDirectory() as cache,
        CpuJudge(cache=Path(cache), environment=probe_environment()) as judge,
    ):
        each = -(-asked.candidates // len(names))
        for name in names:
            task = load_task(CATALOG / name)
            text = render(families[name], families[name].defaults)
            baseline = judge.build(KernelSource(files={"kernel.cpp": text}))
            noise = judge.calibrate(task, baseline).noise
            for number in range(each):
                same = KernelSource(files={"kernel.cpp": f"{text}// {number}\n"})
                judged = judge.confirm(
                    task,
                    judge.build(same),
                    baseline,
                    noise=noise,
                    alpha=decision_v1.alpha_for(1),
                    secret=secrets.token_bytes(32),
                    deadline=time.monotonic() + asked.confirm_s,
                    on_round=None,
                )
                verdict = judged.verdict
                kind = verdict.check if isinstance(verdict, Rejected) else type(verdict).__name__
                outcomes[kind] += 1
                rounds.append(len(judged.evidence.rounds))
                sys.stdout.write(f"{name} {number}: {kind} after {rounds[-1]} rounds\n")
                sys.stdout.flush()
    sealed = outcomes["Accepted"]
    sys.stdout.write(f"{len(rounds)} A/A candidates: {sealed} accepted; {dict(outcomes)}\n")
    sys.exit(1 if sealed else 0)


if __name__ == "__main__":
    main()
