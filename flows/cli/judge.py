"""``forge judge``: judge one kernel file by hand; never seals, spends no alpha."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.output import Json, config_of, default_of, emit, phases
from forge.errors import UsageError
from forge.types import KernelSource

EXIT_CODES = {"accepted": 0, "rejected": 3, "inconclusive": 4}

File = Annotated[Path, typer.Argument(metavar="FILE", help="A kernel, .cpp or .py.")]
Task = Annotated[str, typer.Option("--task", metavar="T", help="The task it is a kernel for.")]
Target = Annotated[
    str | None, typer.Option(help=f"The target to judge it on. {default_of('target')}")
]
Against = Annotated[
    int | None,
    typer.Option(metavar="GEN", help="Generation to judge it against. [default: the newest]"),
]


def judge(
    file: File,
    *,
    task: Task,
    target: Target = None,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Judge one kernel file against the baseline, or the reference where there is none.

    It takes about 20 seconds, and a minute and a half at most. Exits with 0 when it is accepted,
    3 when it is rejected, 4 when nothing can be said.
    """
    from flows.by_hand import judge_by_hand
    from flows.cli.naming import require_task
    from forge.report.judgement import judge_text

    config = config_of(target=target)
    require_task(task, config.workspace)
    source = read_kernel(file)
    with phases() as tell:
        report = judge_by_hand(config, task, source, against, tell)
    if as_json:
        emit(report.model_dump_json(indent=2))
    else:
        emit(judge_text(report))
    raise typer.Exit(EXIT_CODES[report.verdict])


def read_kernel(file: Path) -> KernelSource:
    """Return the kernel in ``file``.

    Raises:
        UsageError: It is no such file, or of a kind that cannot be judged.
    """
    kinds = {".cpp": "kernel.cpp", ".py": "kernel.py"}
    entry = kinds.get(file.suffix)
    if entry is None:
        raise UsageError(
            f"{file} is not a kernel that can be judged here; give a .cpp or .py file."
        )
    try:
        return KernelSource(files={entry: file.read_text(encoding="utf-8")})
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text (byte {error.start}).") from error
