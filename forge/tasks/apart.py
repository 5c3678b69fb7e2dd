"""Check tasks in a process of their own: a reference is a person's code, and may end its process.

``python -m forge.tasks.apart FD FOLDER...`` checks the tasks in these folders and writes a line of
JSON for each of them to the descriptor: its controls, or why it has none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge.errors import UsageError
from forge.tasks.load import load_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from forge.tasks.load import LoadedTask

_STDERR = 2


def controls_of(tasks: Sequence[LoadedTask]) -> Iterator[list[dict[str, Any]]]:
    """Yield the controls of each task in turn, as ``forge tasks check --json`` shows them.

    Raises:
        UsageError: A task has none: its reference fails, ends its process, or returns what
            ``task.toml`` does not declare.
    """
    reader, writer = os.pipe()
    command = [sys.executable, "-m", __name__, str(writer)]
    child = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
        [*command, *(str(loaded.folder) for loaded in tasks)],
        pass_fds=[writer],
        stdin=subprocess.DEVNULL,
        # What a reference prints is prose; the results are ours to print.
        stdout=_STDERR,
    )
    os.close(writer)
    try:
        with os.fdopen(reader, encoding="utf-8") as lines:
            for loaded in tasks:
                yield _answer(loaded, lines.readline(), child)
    finally:
        child.kill()
        child.wait()


def _answer(loaded: LoadedTask, line: str, child: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    if not line.endswith("\n"):
        code = child.wait()
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        raise UsageError(
            f"Task {loaded.task.name}: reference.py ended the process it was checked in ({how}); "
            "run and terms must return their outputs."
        )
    said = json.loads(line)
    if "problem" in said:
        raise UsageError(said["problem"])
    return said["controls"]


def main(descriptor: int, folders: Sequence[str]) -> None:
    """Check the tasks in ``folders`` and write the answers to ``descriptor``."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        for folder in folders:
            out.write(json.dumps(_checked(Path(folder))) + "\n")
            out.flush()


def _checked(folder: Path) -> dict[str, Any]:
    """Return the controls of one task, or the problem with its reference."""
    # Only here: whoever asks for a check need not wait for torch.
    from forge.tasks.controls import check_controls  # noqa: PLC0415

    try:
        results = check_controls(load_task(folder))
    except UsageError as error:
        text = str(error)
        return {"problem": text if text.startswith("Task ") else f"Task {folder.name}: {text}"}
    # Whatever a person's reference raises is told to them as one sentence.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        first = (str(error).splitlines() or [""])[0]
        return {
            "problem": f"Task {folder.name}: reference.py fails when it is run: "
            f"{type(error).__name__}: {first.rstrip('.')}."
        }
    return {
        "controls": [
            {
                "task": folder.name,
                "control": result.control,
                "distribution": result.distribution,
                "must": result.must,
                "lowest": result.lowest,
                "highest": result.highest,
                "ok": result.ok,
                "reason": result.reason,
            }
            for result in results
        ]
    }


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
