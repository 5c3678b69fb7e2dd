"""``forge tasks``: what kernels are made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import Json, config_of, emit, emit_json, say, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forge.tasks.load import LoadedTask

app = typer.Typer(help="List, check and write tasks.", no_args_is_help=True)

Names = Annotated[list[str] | None, typer.Argument(help="Names of tasks; all of them if none.")]
Name = Annotated[str, typer.Argument(help="Name of the task, in lower case.")]


@app.command("list")
def list_tasks(*, as_json: Json = False) -> None:
    """List every task, the catalogue's and the workspace's own."""
    rows = [
        {
            "task": loaded.task.name,
            "op": loaded.task.op,
            "workloads": len(loaded.task.workloads),
            "inputs": list(loaded.task.inputs),
            "outputs": list(loaded.task.outputs),
            "description": loaded.task.description,
            "folder": str(loaded.folder),
        }
        for loaded in _chosen(())
    ]
    if as_json:
        emit_json(rows)
    else:
        emit(table(rows, ("task", "op", "workloads", "inputs", "outputs")))


@app.command("check")
def check(names: Names = None, *, as_json: Json = False) -> None:
    """Check that each task can tell a right kernel from a wrong one.

    Null controls (zeros, the mean, the input passed through, the previous output, a copy in
    lower precision) must fail it, and its reference must pass. Exits with 3 when one does not.
    """
    from forge.tasks.apart import controls_of
    from forge.tasks.sizes import refuse_too_large

    chosen = _chosen(names or ())
    refuse_too_large(chosen)
    results: list[dict[str, Any]] = []
    answers = controls_of(chosen)
    for loaded in chosen:
        say(f"Checking {loaded.task.name} ...")
        results.extend(next(answers))
    bad = [row for row in results if not row["ok"]]
    if as_json:
        emit_json(results)
    else:
        for row in bad:
            emit(f"{row['task']}: control {row['control']!r} {row['reason']}.")
        emit(f"{len(results) - len(bad)} of {len(results)} controls behave as they must.")
    if bad:
        raise typer.Exit(3)


@app.command("new")
def new(name: Name) -> None:
    """Write a commented, working example task into the workspace's tasks folder."""
    from flows.workspace import make_workspace
    from forge.tasks.scaffold import new_task

    paths = config_of().workspace
    make_workspace(paths)
    folder = new_task(paths.tasks_dir, name)
    emit(str(folder))
    say(f"Edit it, then run forge tasks check {name} and forge night --task {name}.")


def _chosen(names: Sequence[str]) -> list[LoadedTask]:
    from flows import wiring

    known = wiring.all_tasks(config_of().workspace)
    return [wiring.lookup("task", name, known) for name in names or known]
