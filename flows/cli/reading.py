"""``forge status``, ``history`` and ``show``: what stands, how it came about, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli.output import Json, config_of, emit, emit_json, say
from forge.errors import HarnessFault, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forge.config import Workspace
    from forge.judge.evidence import Evidence

SlotText = Annotated[
    str | None, typer.Argument(metavar="[SLOT]", help="A slot as task/target; all if none.")
]
Id = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="A candidate, a promotion, a commit, a night, or task/target@gN."
    ),
]


def status(*, as_json: Json = False) -> None:
    """Show every slot: its generation, its speedup over generation 0, its rival, its roof."""
    from forge.report.shapes import SlotRow
    from forge.report.slots import status_text

    paths = config_of().workspace
    rows = [SlotRow.standing(row) for row in _query(paths, "status")]
    _say_if_new(paths)
    if as_json:
        emit_json([row.model_dump(mode="json") for row in rows])
    else:
        emit(status_text(rows))


def history(slot: SlotText = None, *, as_json: Json = False) -> None:
    """Show the lineage of a slot, oldest generation first."""
    from forge.report.shapes import HISTORY
    from forge.report.slots import history_text

    paths = config_of().workspace
    known = [f"{row['task']}/{row['target']}" for row in _query(paths, "status")]
    slots = known if slot is None else [_slot(slot, known)]
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
    found = _query(paths, "show", id=_full_id(paths, id_))
    if as_json:
        emit_json(found)
    else:
        emit(show_text(found, _evidence_of(paths, found)))


def _slot(text: str, known: list[str]) -> str:
    from forge.host import parse_slot, probe_environment

    targets = {name.partition("/")[2] for name in known}
    return str(parse_slot(text, probe_environment(), targets))


def _full_id(paths: Workspace, id_: str) -> str:
    """Return ``task/target@gN`` with the target's full name; any other id as it is."""
    slot, at, generation = id_.partition("@")
    if not at or "/" not in slot:
        return id_
    known = [f"{row['task']}/{row['target']}" for row in _query(paths, "status")]
    return f"{_slot(slot, known)}@{generation}"


def _query(paths: Workspace, name: str, **params: str) -> Any:  # noqa: ANN401 - as its name says
    from ledger.reader import open_reader

    if not paths.ledger_db.exists():
        return []
    return open_reader(paths.ledger_db).query(name, **params)


def _say_if_new(paths: Workspace) -> None:
    if not paths.ledger_db.exists():
        say(f"No night has run in {paths.home} yet; forge night runs one.")


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
