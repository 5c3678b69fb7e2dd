"""``forge audit``: whether the record can be believed."""

from __future__ import annotations

import typer

from flows.cli.output import Json, config_of, emit, emit_json


def audit(*, as_json: Json = False) -> None:
    """Check the ledger's chain, the evidence, the store, and derive every verdict again.

    Exits with 3 when something does not agree.
    """
    from flows.audit import audit_workspace
    from forge.host import wall_clock

    report = audit_workspace(config_of().workspace, wall_clock)
    if as_json:
        emit_json(report.to_json())
    else:
        emit(report.to_text())
    if report.problems:
        raise typer.Exit(3)
