"""``forge status``, ``history`` and ``show``: what stands, how it came about, and why."""

# ruff: noqa: PLC0415 - a command imports what it needs when it runs

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import Json, config_of, emit, emit_json, say, table
from forge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forge.config import Workspace

SlotText = Annotated[
    str | None, typer.Argument(metavar="[SLOT]", help="A slot as task/target; all if none.")
]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="A candidate, a promotion, a commit or a night.")
]


def status(*, as_json: Json = False) -> None:
    """Show every slot: its generation, its speedup over generation 0, its rival, its roof."""
    from flows.summary import standing_rows

    rows = _query(config_of().workspace, "status")
    if as_json:
        emit_json(standing_rows(rows))
        return
    columns = ("task", "target", "generation", "speedup", "lower", "upper", "rival")
    emit(table(rows, (*columns, "rival_speedup", "roof_share")))


def history(slot: SlotText = None, *, as_json: Json = False) -> None:
    """Show the lineage of a slot, oldest generation first."""
    from forge.host import parse_slot, probe_environment

    paths = config_of().workspace
    if slot is None:
        slots = [f"{row['task']}/{row['target']}" for row in _query(paths, "status")]
    else:
        slots = [str(parse_slot(slot, probe_environment(), _targets(paths)))]
    lineages = {name: _query(paths, "history", slot=name) for name in slots}
    if as_json:
        emit_json(lineages[slots[0]] if slot is not None else lineages)
        return
    columns = ("generation", "commit", "candidate", "speedup", "lower", "student", "at")
    for name, rows in lineages.items():
        emit(name)
        short = [{**row, "commit": str(row["commit"])[:12]} for row in rows]
        emit(table(short, columns))


def show(id_: Id, *, as_json: Json = False) -> None:
    """Show one candidate, generation or night with its evidence."""
    paths = config_of().workspace
    if not paths.ledger_db.exists():
        raise UsageError(f"No night has run in {paths.home} yet; forge night runs one.")
    found = _query(paths, "show", id=id_)
    if as_json:
        emit_json(found)
    else:
        emit(record_text(found))


def record_text(record: Mapping[str, Any], indent: str = "") -> str:
    """Return a record for a person: a line for each value, tables for lists, files in full."""
    lines: list[str] = []
    for key, value in record.items():
        match value:
            case {} if value:
                lines += [f"{indent}{key}:", record_text(value, f"{indent}  ")]
            case [{}, *_]:
                rows = table(value, list(value[0]))
                lines += [f"{indent}{key}:", textwrap.indent(rows, f"{indent}  ")]
            case str() if "\n" in value:
                lines += [f"{indent}{key}:", textwrap.indent(value, f"{indent}  | ")]
            case None | "" | [] | {}:
                continue
            case _:
                lines.append(f"{indent}{key}: {value}")
    return "\n".join(lines)


def _query(paths: Workspace, name: str, **params: str) -> Any:  # noqa: ANN401 - as its name says
    from ledger.reader import open_reader

    if not paths.ledger_db.exists():
        say(f"No night has run in {paths.home} yet; forge night runs one.")
        return []
    return open_reader(paths.ledger_db).query(name, **params)


def _targets(paths: Workspace) -> set[str]:
    return {str(row["target"]) for row in _query(paths, "status")}
