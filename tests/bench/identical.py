"""An identical computation on both sides must read 1.00: the arms differ in the kernel alone.

    python tests/bench/identical.py [--task softmax]... [--rounds 80] [--out FILE]

For every task and tune workload: the eager reference against itself, and, where torch has an
``out=`` variant, the reference (which allocates its result) against a kernel that calls the same
function into ready memory. Prints the geometric mean of the ratio with its 95 % interval, over as
many rounds as make the interval 0.01 wide to each side, at most ``--rounds``.
"""

import argparse
import json
import math
import secrets
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from forge.host import probe_environment
from forge.judge.arms import Runnable
from forge.judge.bench import Pool
from forge.judge.judge import CpuJudge
from forge.judge.samples_v1 import published_interval
from forge.judge.session import tune_specs
from forge.tasks.load import find_tasks

CATALOG = Path(__file__).parents[2] / "baselines" / "catalog"
LEAST_ROUNDS = 24
SAME = {
    "softmax": "torch.softmax(x, -1, out=out)",
    "log_softmax": "torch.log_softmax(x, -1, out=out)",
    "row_sum": "torch.sum(x, -1, out=out)",
    "cumsum": "torch.cumsum(x, -1, out=out)",
}


def pairs(task):
    """Return what is compared: (name, baseline arm, candidate arm)."""
    reference = Runnable(language="reference", entry=task.reference_source)
    yield "itself", reference, reference
    if task.task.name in SAME:
        axes = ", ".join(task.task.var_axes)
        text = f"import torch\ndef launch(x, out, {axes}):\n    {SAME[task.task.name]}\n"
        yield "out=", reference, Runnable(language="py", entry=text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    tasks = find_tasks([CATALOG])
    rows, worst = [], 0.0
    with (
        tempfile.TemporaryDirectory() as cache,
        CpuJudge(cache=Path(cache), environment=probe_environment()) as judge,
    ):
        bench = judge.bench
        for name in asked.task or sorted(tasks):
            allowed = SAME.get(name, "").partition("(")[0]
            task = with_permission(tasks[name], allowed)
            for spec in tune_specs(task):
                for what, baseline, candidate in pairs(task):
                    logs = []
                    while len(logs) < asked.rounds and not is_enough(logs):
                        pool = Pool.of(spec.id, secrets.token_bytes(32), spec.calls)
                        arms = {"baseline": baseline, "candidate": candidate}
                        turned = bench.sample(task, spec, pool, arms)
                        if turned.sample is None:
                            sys.exit(f"{name} {spec.axes}: {turned.findings}")
                        times = turned.sample.burst_ns
                        logs.append(math.log(times["baseline"] / times["candidate"]))
                    interval = published_interval(clipped(in_twos(logs)))
                    worst = max(worst, abs(interval.point - 1))
                    rows.append((name, spec.axes, what, interval, times["baseline"] / spec.calls))
                    sizes = " ".join(f"{k}={v}" for k, v in spec.axes.items())
                    line = (
                        f"{name:15} {sizes:24} {what:7} {interval.point:.4f} "
                        f"[{interval.lower:.4f}, {interval.upper:.4f}] {rows[-1][4] / 1e3:9.1f} us"
                        f" {len(logs):4} rounds"
                    )
                    sys.stdout.write(line + "\n")
                    sys.stdout.flush()
            bench.forget()
    for what in ("itself", "out="):
        found = [i for _, _, w, i, _ in rows if w == what]
        if found:
            near = sum(abs(i.point - 1) <= 0.01 for i in found)
            held = sum(i.lower <= 1.01 and i.upper >= 0.99 for i in found)
            mean = math.exp(sum(math.log(i.point) for i in found) / len(found))
            sys.stdout.write(
                f"{what:7} {len(found)} cases: mean {mean:.4f}; {near} within 1 %; "
                f"{held} intervals meet 0.99 to 1.01\n"
            )
    sys.stdout.write(f"largest distance from 1: {worst:.2%} over {len(rows)} cases\n")
    if asked.out:
        keys = ("task", "axes", "what", "ratio", "ns_per_call")
        body = [
            dict(zip(keys, (n, a, w, [i.point, i.lower, i.upper], t), strict=True))
            for n, a, w, i, t in rows
        ]
        asked.out.write_text(json.dumps(body, indent=1) + "\n")


def in_twos(logs):
    """Take two rounds together: the same arm goes first in one of them and last in the other."""
    return [(a + b) / 2 for a, b in zip(logs[::2], logs[1::2], strict=True)]


def is_enough(logs):
    if len(logs) < LEAST_ROUNDS or len(logs) % 2:
        return False
    interval = published_interval(clipped(in_twos(logs)))
    return interval.upper - interval.lower <= 0.02


def clipped(logs):
    """Clip at 3 robust standard deviations: a burst that met another process is no bias."""
    ordered = sorted(logs)
    middle = ordered[len(ordered) // 2]
    spread = sorted(abs(x - middle) for x in logs)[len(logs) // 2] * 1.4826 * 3
    return [min(max(x, middle - spread), middle + spread) for x in logs]


def with_permission(task, call):
    allow = task.task.allow.model_copy(update={"framework": (call,) if call else ()})
    return replace(task, task=task.task.model_copy(update={"allow": allow}))


if __name__ == "__main__":
    main()
