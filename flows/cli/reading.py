"""``forge status``, ``history`` and ``show``: what stands, how it came about, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import Json, config_of, emit, emit_json, say, table
from forge.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forge.config import Workspace
    from forge.judge.evidence import Evidence

SlotText = Annotated[
    str | None,
    typer.Argument(metavar="[SLOT]", help="A slot as task/target, or a task; all if none."),
]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="A candidate, a promotion, a commit, a piece of evidence, a night, a slot, or a "
        "generation as task/target@gN or by its tag.",
    ),
]
Nights = Annotated[
    bool, typer.Option("--nights", help="List the nights instead of the slots, newest last.")
]


def status(*, nights: Nights = False, as_json: Json = False) -> None:
    """Show every slot: its generation, its speedup over generation 0, its rival, its roof."""
    from forge.report.shapes import SlotRow
    from forge.report.slots import status_text

    paths = config_of().workspace
    rows = _query(paths, "nights" if nights else "status")
    _say_if_new(paths)
    if nights:
        emit_json(rows) if as_json else _emit_nights(rows)
        return
    shown = [SlotRow.standing(row) for row in rows]
    if as_json:
        emit_json([row.model_dump(mode="json") for row in shown])
    else:
        emit(status_text(shown))


def history(slot: SlotText = None, *, as_json: Json = False) -> None:
    """Show the lineage of a slot, oldest generation first."""
    from flows.cli.naming import slot_named
    from forge.report.shapes import HISTORY
    from forge.report.slots import history_text

    paths = config_of().workspace
    rows = _query(paths, "status")
    known = [f"{row['task']}/{row['target']}" for row in rows]
    slots = known if slot is None else [slot_named(slot, paths, rows)]
    _say_if_new(paths)
    lineages = {
        name: HISTORY.validate_python(tuple(_query(paths, "history", slot=name))) for name in slots
    }
    if not as_json:
        emit("\n\n".join(history_text(name, rows) for name, rows in lineages.items()))
        return
    found = {name: HISTORY.dump_python(rows, mode="json") for name, rows in lineages.items()}
    emit_json(found if slot is None else found[slots[0]])


def show(id_: Id, *, as_json: Json = False) -> None:
    """Show one candidate, generation or night with its evidence."""
    from forge.report.show import show_text

    paths = config_of().workspace
    if not paths.ledger_db.exists():
        raise UsageError(f"No night has run in {paths.home} yet; forge night runs one.")
    found = _found(paths, id_)
    if found["what"] == "night":
        found["proposals"] = _query(paths, "candidates", night_id=found["night"])
    if as_json:
        emit_json(found)
        return
    emit(show_text(found, _evidence_of(paths, found)))
    if found.get("proposals"):
        emit("\n" + table(found["proposals"], ("candidate", "task", "state", "check", "title")))


def _found(paths: Workspace, id_: str) -> dict[str, Any]:
    """Return what ``id_`` names, or say in which workspace it was looked for."""
    from flows.cli.naming import explain_missing, id_named

    rows = _query(paths, "status")
    try:
        return _query(paths, "show", id=id_named(id_, paths, rows))
    except UsageError as error:
        raise explain_missing(id_, paths, rows, error) from error


def _query(paths: Workspace, name: str, **params: str) -> Any:  # noqa: ANN401 - as its name says
    from ledger.reader import open_reader

    if not paths.ledger_db.exists():
        return []
    return open_reader(paths.ledger_db).query(name, **params)


def _say_if_new(paths: Workspace) -> None:
    if not paths.ledger_db.exists():
        say(f"No night has run in {paths.home} yet; forge night runs one.")


def _emit_nights(rows: list[dict[str, Any]]) -> None:
    if rows:
        emit(table(rows, ("night", "status", "started", "ended", "proposed", "sealed")))
        say("forge show NIGHT lists the candidates of one.")


def _evidence_of(paths: Workspace, found: Mapping[str, Any]) -> dict[str, Evidence]:
    """Return the evidence that a shown record names, as far as it is still kept."""
    from ledger.blobs import BlobStore

    blobs, kept = BlobStore(paths.evidence_dir), dict[str, "Evidence"]()
    candidate = found if found["what"] == "candidate" else found.get("candidate")
    for phase in candidate["phases"] if candidate else ():
        try:
            kept[phase["evidence"]] = blobs.read(phase["evidence"])
        except HarnessFault as fault:
            say(f"Evidence {phase['evidence']} is not shown: {fault}")
    return kept
