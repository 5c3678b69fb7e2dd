"""What judging costs: rejected and confirmed candidates at 2 million elements.

    python tests/bench/judge_cost.py [--task softmax]

Prints, for kernels rejected by numbers and by speed, the wall time of a screen less its timed
calls (the issue asks for a median under 1 s), and the wall time of a confirmation with its
reconfirmation (under 30 s), with the rounds each took.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from flows.sealing import RECONFIRM_ROUNDS
from forge.host import probe_environment
from forge.judge import decision_v1
from forge.judge.judge import CpuJudge
from forge.students.sweep.render import find_families, render
from forge.tasks.load import load_task
from forge.types import KernelSource

CATALOG = Path(__file__).parents[2] / "baselines" / "catalog"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="softmax")
    asked = parser.parse_args()
    task = load_task(CATALOG / asked.task)
    family = find_families()[asked.task]
    best = KernelSource(files={"kernel.cpp": render(family, family.defaults)})
    reference = KernelSource(files={"reference.py": task.reference_source})
    with (
        tempfile.TemporaryDirectory() as cache,
        CpuJudge(cache=Path(cache), environment=probe_environment()) as judge,
    ):
        kernel, eager = judge.build(best), judge.build(reference)
        noise = judge.calibrate(task, eager).noise
        costs = []
        for _ in range(12):
            started = time.monotonic()
            # The eager reference as a candidate against a faster baseline: a slow, right kernel.
            judged = judge.screen(task, eager, kernel, noise=noise)
            timed = judged.evidence.device_s
            costs.append(time.monotonic() - started - timed)
        median = statistics.median(costs)
        sys.stdout.write(f"rejected by speed: {median:.2f} s beyond timed calls (median of 12)\n")
        started = time.monotonic()
        judged = judge.confirm(
            task,
            kernel,
            eager,
            noise=noise,
            alpha=decision_v1.alpha_for(1),
            secret=bytes(32),
            deadline=None,
            on_round=None,
        )
        confirmed = time.monotonic() - started
        started = time.monotonic()
        judge.reconfirm(
            task, kernel, eager, eager, noise=noise, secret=bytes(32), rounds=RECONFIRM_ROUNDS
        )
        again = time.monotonic() - started
        sys.stdout.write(
            f"confirmed in {confirmed:.1f} s ({len(judged.evidence.rounds)} rounds: "
            f"{type(judged.verdict).__name__}), reconfirmed in {again:.1f} s\n"
        )


if __name__ == "__main__":
    main()
