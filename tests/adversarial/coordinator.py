"""A coordinator of its own, to be killed or interrupted: ``python coordinator.py SCENE [PART]``."""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from forge.host import probe_environment, require_compiler
from forge.judge.native.library import build_native
from forge.judge.processes import await_ready, start
from tests.judging import HONEST, Courtroom, cpp, small_softmax

FOR_EVER = '#include <cstdint>\nextern "C" void launch() { for (volatile int i = 1; i;) {} }'
PARTS = {"zygote": 1, "feeder": 0, "oracle": 1}


def children_of(pid):
    """The processes below ``pid``, at any depth."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(stat[1])
    below = {pid}
    while more := {p for p, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(below - {pid})


def say(value):
    sys.stdout.write(f"{json.dumps(value)}\n")
    sys.stdout.flush()


def hang_up(part, folder, *, when):
    """Start one process, and close the channel to it ``when`` it starts, is idle or works."""
    library = build_native(folder / "cache", require_compiler(), probe_environment().id)
    process = start(part, [str(library)][: PARTS[part]], 1, sorted(os.sched_getaffinity(0)))
    if when != "starting":
        await_ready(process)
    if when == "working":
        task = small_softmax(folder / "softmax")
        process.send(
            "prepare",
            folder=str(task.folder),
            axes={"rows": 512, "cols": 4096},
            distribution="normal",
            seeds=[1, 2, 3],
            pool="p",
            threads=1,
        )
    process.channel.close()
    sys.exit(process.child.wait(60))


def be_killed(folder):
    """Say who is below, an arm that never ends among them, and wait to be killed."""
    with Courtroom(folder) as court:
        before = children_of(os.getpid())
        built = court.judge.build(cpp(FOR_EVER))
        screen = court.judge.screen
        arguments = (court.task, built, court.baseline)
        threading.Thread(target=screen, args=arguments, kwargs={"noise": {}}, daemon=True).start()
        deadline = time.monotonic() + 15
        while (now := children_of(os.getpid())) == before and time.monotonic() < deadline:
            os.sched_yield()
        say({"arms": len(now) - len(before), "below": now})
        sys.stdin.read()


def be_interrupted(folder):
    """Judge a kernel after the signal of a Ctrl-C has come to the whole process group."""
    with Courtroom(folder) as court:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        say("ready")
        sys.stdin.readline()
        say(getattr(court.screen(cpp(HONEST)), "check", None))


def main():
    scene, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="forge-test-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if scene == "kill":
            be_killed(folder)
        elif scene == "interrupt":
            be_interrupted(folder)
        else:
            hang_up(rest[0], folder, when=scene)


if __name__ == "__main__":
    main()
