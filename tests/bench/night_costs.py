"""What a night costs besides measuring: overhead, peak memory, and what dominated.

    python tests/bench/night_costs.py [--minutes 3] [--task softmax]...

Runs a real `forge night` in a fresh workspace, sampling the proportional memory (PSS) of all its
processes, and prints: the share of the night spent outside measuring phases (Prefect, ledger,
git, the student), the peak memory with and without compilers, and the seconds of each envelope.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

COMPILERS = ("cc1plus", "g++", "as", "ld", "collect2")


def tree(root):
    """Return the process ids under ``root``, itself included."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
            except OSError:
                continue
    found, grew = {root}, True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grew = bool(more)
    return found


def pss_mb(pids):
    """Return (all, without compilers) in MB; shared pages count once."""
    total = plain = 0
    for pid in pids:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        kb = next(
            (int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0
        )
        total += kb
        plain += 0 if name in COMPILERS else kb
    return total / 1024, plain / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--task", action="append", default=[])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-c", "from flows.cli.app import main; main()", "night"]
        command += ["--minutes", str(asked.minutes), "--json"]
        for task in asked.task:
            command += ["--task", task]
        environment = {**os.environ, "FORGE_HOME": home}
        started = time.monotonic()
        night = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        peak = peak_plain = 0.0
        while night.poll() is None:
            everything, plain = pss_mb(tree(night.pid))
            peak, peak_plain = max(peak, everything), max(peak_plain, plain)
            time.sleep(0.25)
        took = time.monotonic() - started
        report = json.loads(night.stdout.read())
        with duckdb.connect(str(Path(home) / "ledger.duckdb"), read_only=True) as db:
            rows = db.execute(
                "select envelope, sum(settled) / 1e6 from reservations where unit = 'wall_s' "
                "group by 1 order by 2 desc"
            ).fetchall()
    sealed = report["candidates"]["sealed"]
    overhead = sum(seconds for name, seconds in rows if name.endswith("/overhead"))
    spent = sum(seconds for _, seconds in rows)
    sys.stdout.write(f"{'envelope':40} seconds\n")
    for name, seconds in rows:
        sys.stdout.write(f"{name:40} {seconds:7.1f}\n")
    sys.stdout.write(
        f"sealed {sealed}; command {took:.1f} s, night {spent:.1f} s\n"
        f"outside measuring phases: {overhead:.1f} s, {overhead / spent:.1%} of the night\n"
        f"peak memory (PSS): {peak:.0f} MB, {peak_plain:.0f} MB without compilers\n"
    )


if __name__ == "__main__":
    main()
