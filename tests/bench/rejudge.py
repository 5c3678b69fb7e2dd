"""Judge every sealed kernel again, by hand, against the generation before it.

    python tests/bench/rejudge.py HOME      (the workspace of a night, usually .forge)

A fresh `forge judge --against` must not reject what a night sealed. Prints a line a slot.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FORGE = [sys.executable, "-c", "from flows.cli.app import main; main()"]


def run(home, *arguments):
    done = subprocess.run(
        [*FORGE, *arguments],
        env={**os.environ, "FORGE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("home", type=Path)
    home = parser.parse_args().home.resolve()
    store = home / "baselines.git"
    rejected = 0
    status = run(home, "status", "--json")
    for slot in status if isinstance(status, list) else status["slots"]:
        task, target = slot["task"], slot["target"]
        history = run(home, "history", f"{task}/{target}", "--json")
        newest = history[-1]
        if newest["generation"] == 0:
            continue
        path = f"{newest['commit']}:{task}/{target}/kernel.cpp"
        text = subprocess.run(
            ["git", "-C", str(store), "show", path], capture_output=True, text=True, check=True
        ).stdout
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kernel.cpp"
            file.write_text(text)
            before = str(newest["generation"] - 1)
            answer = run(home, "judge", "--task", task, "--against", before, str(file), "--json")
        rejected += answer["verdict"] == "rejected"
        speedup = answer["speedup"] or {"point": float("nan"), "lower": float("nan")}
        sys.stdout.write(
            f"{task:15} g{newest['generation']} over g{before}: {answer['verdict']:12} "
            f"{speedup['point']:.2f}x (lower {speedup['lower']:.2f}) {answer['reason'] or ''}\n"
        )
        sys.stdout.flush()
    sys.stdout.write(f"{rejected} rejected\n")
    sys.exit(1 if rejected else 0)


if __name__ == "__main__":
    main()
