"""``forge doctor``: what this machine has and lacks for a night."""

from __future__ import annotations

import typer

from flows.cli.output import Json, config_of, emit, emit_json


def doctor(*, as_json: Json = False) -> None:
    """Look at this machine: compiler, git, cores, memory, disk and the sandbox's layers.

    Exits with 3 when something is missing.
    """
    from forge.doctor import examine
    from forge.host import probe_environment

    environment = probe_environment()
    probes = examine(environment, config_of().home)
    if as_json:
        emit_json(
            {
                "target": environment.target,
                "environment": environment.id,
                "probes": [probe._asdict() for probe in probes],
            }
        )
    else:
        emit(f"This machine is the target {environment.target} (environment {environment.id}).")
        width = max(len(probe.name) for probe in probes)
        for probe in probes:
            emit(f"{'ok  ' if probe.ok else 'LACK'}  {probe.name.ljust(width)}  {probe.sentence}")
    if not all(probe.ok for probe in probes):
        raise typer.Exit(3)
