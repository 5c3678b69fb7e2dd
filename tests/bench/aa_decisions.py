"""How often does the decision seal a kernel against itself, and how soon does it find a win?

Raw A/A pairs (``*-aa-raw-*.json``: one kernel as both arms) are resampled into candidates: a
round takes one pair of every case, the cases being the workloads, and the pairs of a case come
in contiguous blocks from random places, so that the drift and the bursts of the machine stay in.
Every case is protected, two more are holdouts, and the noise is measured on fresh blocks for
each candidate, as a calibration would. The real decision module is asked after every round, or,
several times as fast, where bisection says, since a verdict once reached stays (which
tests/unit/test_decision_properties.py holds it to).

Run: ``python tests/bench/aa_decisions.py FOLDER [--round-by-round] [--alone]``
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from forge.judge.decision_v1 import alpha_for, decide, noise_of
from forge.judge.evidence import Evidence, Policy, Round, Sample, WorkloadSpec
from forge.verdict import Inconclusive, Verdict

BLOCK = 12
HOLDOUTS = 2
GAINS = (1.02, 1.05, 1.50, 0.97)

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row of the table."""

    label: str
    gain: float
    candidates: int
    is_one_slot: bool


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One raw file."""

    name: str
    bar: float
    cases: dict[str, Pairs]


def main() -> None:
    options = read_options()
    files = sorted(options.folder.glob("*-aa-raw-*.json"))
    if not files:
        raise SystemExit(f"No *-aa-raw-*.json in {options.folder}.")
    many, few = options.candidates, max(1, options.candidates // 5)
    settings = [
        Setting(label="A/A, k = 1..n", gain=1.0, candidates=many, is_one_slot=True),
        Setting(label="A/A, k = 1 each", gain=1.0, candidates=many, is_one_slot=False),
        *(
            Setting(label=f"{gain:.2f}x, k = 1", gain=gain, candidates=few, is_one_slot=False)
            for gain in GAINS
        ),
    ]
    write(
        f"| machine | workloads | candidate | n | sealed | rejected | inconclusive |"
        f" rounds used (median, 90 %) of {options.rounds} |"
    )
    write("|---|---|---|--:|--:|--:|--:|--:|")
    started = time.perf_counter()
    for path in files:
        machine = read_machine(path)
        for setting in settings:
            write(row_of(machine, "all", list(machine.cases), setting, options))
        if options.alone:
            for case in machine.cases:
                for setting in settings[:2]:
                    write(row_of(machine, case, [case], setting, options))
    write(f"\n{time.perf_counter() - started:.0f} s, seed {options.seed}", to=sys.stderr)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the *-aa-raw-*.json files are")
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=60, help="after which a candidate is left")
    parser.add_argument("--calibration", type=int, default=7, help="A/A rounds for the noise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round-by-round", action="store_true", help="ask after every round")
    parser.add_argument("--alone", action="store_true", help="each case as a slot of its own too")
    return parser.parse_args()


def read_machine(path: Path) -> Machine:
    body = json.loads(path.read_text())
    return Machine(
        name=path.name.partition("-aa-raw")[0] + ("-2t" if "-2t-" in path.name else ""),
        bar=1.01 if path.name.startswith("cpu") else 1.005,
        cases={case: [(a, b) for _, a, b in pairs] for case, pairs in body["cases"].items()},
    )


def row_of(
    machine: Machine, title: str, cases: list[str], setting: Setting, options: argparse.Namespace
) -> str:
    source = random.Random(f"{options.seed} {machine.name} {title} {setting.label}")
    verdicts, used = Counter[str](), list[int]()
    for number in range(1, setting.candidates + 1):
        k = number if setting.is_one_slot else 1
        policy = Policy(bar=machine.bar, alpha=alpha_for(k), max_rounds=options.rounds)
        verdict, rounds = judge(machine, cases, setting.gain, policy, (source, options))
        verdicts[type(verdict).__name__] += 1
        used.append(rounds)
    tenths = statistics.quantiles(used, n=10) if len(used) > 1 else [used[0]] * 9
    counts = " | ".join(str(verdicts[name]) for name in ("Accepted", "Rejected", "Inconclusive"))
    return (
        f"| {machine.name} | {title} | {setting.label} | {setting.candidates} | {counts} |"
        f" {tenths[4]:.0f}, {tenths[8]:.0f} |"
    )


def judge(
    machine: Machine,
    cases: list[str],
    gain: float,
    policy: Policy,
    chance: tuple[random.Random, argparse.Namespace],
) -> tuple[Verdict, int]:
    """Return the verdict on one resampled candidate and the round at which it was reached."""
    source, options = chance
    hidden = [source.choice(cases) for _ in range(HOLDOUTS)]
    names = {f"tune-{i}": case for i, case in enumerate(cases)}
    workloads = tuple(
        [spec_of(name, "tune") for name in names]
        + [spec_of(f"holdout-{i}", "holdout") for i in range(HOLDOUTS)]
    )
    calibration = rounds_of(machine, names, 1.0, options.calibration, source)
    names |= {f"holdout-{i}": case for i, case in enumerate(hidden)}
    rounds = rounds_of(machine, names, gain, options.rounds, source)
    evidence = Evidence(
        phase="confirm",
        task="aa",
        target=machine.name,
        candidate_digest="a",
        baseline_digest="a",
        environment="raw",
        harness="raw",
        policy=policy,
        noise=noise_of(calibration, workloads),
        workloads=workloads,
    )
    ask = every_round if options.round_by_round else bisected
    return ask(evidence, rounds)


def every_round(evidence: Evidence, rounds: tuple[Round, ...]) -> tuple[Verdict, int]:
    verdict: Verdict = Inconclusive(reason="")
    for count in range(1, len(rounds) + 1):
        verdict = decide(evidence.model_copy(update={"rounds": rounds[:count]}))
        if not isinstance(verdict, Inconclusive):
            return verdict, count
    return verdict, len(rounds)


def bisected(evidence: Evidence, rounds: tuple[Round, ...]) -> tuple[Verdict, int]:
    low, high = 0, len(rounds)
    verdict = decide(evidence.model_copy(update={"rounds": rounds}))
    if isinstance(verdict, Inconclusive):
        return verdict, high
    while high - low > 1:
        middle = (low + high) // 2
        sooner = decide(evidence.model_copy(update={"rounds": rounds[:middle]}))
        if isinstance(sooner, Inconclusive):
            low = middle
        else:
            verdict, high = sooner, middle
    return verdict, high


def rounds_of(
    machine: Machine, names: dict[str, str], gain: float, count: int, source: random.Random
) -> tuple[Round, ...]:
    """Return rounds whose pairs are contiguous blocks of each case's raw pairs."""
    columns = {name: blocks(machine.cases[case], count, source) for name, case in names.items()}
    return tuple(
        Round(
            seed_digest="",
            samples=tuple(
                Sample(
                    workload=name,
                    order=("baseline", "candidate"),
                    burst_ns={
                        "baseline": 1000 * pairs[index][0],
                        "candidate": round(1000 * pairs[index][1] / gain),
                    },
                )
                for name, pairs in columns.items()
            ),
        )
        for index in range(count)
    )


def blocks(pairs: Pairs, count: int, source: random.Random) -> Pairs:
    """Return ``count`` pairs in contiguous blocks; either arm may be the one called candidate.

    The raw arms are one kernel, so which of them is the candidate is decided by a coin a block.
    """
    out: Pairs = []
    while len(out) < count:
        start = source.randrange(len(pairs) - BLOCK + 1)
        block = pairs[start : start + BLOCK]
        out += [(b, a) for a, b in block] if source.random() < 1 / 2 else block
    return out[:count]


def spec_of(name: str, split: str) -> WorkloadSpec:
    return WorkloadSpec.model_validate(
        {
            "id": name,
            "axes": {"n": 1},
            "split": split,
            "weight": 1.0 if split == "tune" else 0.0,
            "protected": split == "tune",
            "distribution": "normal",
            "calls": 1,
        }
    )


def write(line: str, to: object = sys.stdout) -> None:
    stream = sys.stderr if to is sys.stderr else sys.stdout
    stream.write(line + "\n")
    stream.flush()


if __name__ == "__main__":
    main()
