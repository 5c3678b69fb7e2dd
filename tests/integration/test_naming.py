"""What a person types for a slot, a generation or a record is found, or said not to be there."""

import json
import re

import pytest

from flows.cli.naming import id_named, slot_named
from forge.config import Workspace
from forge.errors import UsageError
from ledger.reader import open_reader
from tests.integration.calling import forge
from tests.integration.night_making import run_night, slot_of

SLOT = slot_of("softmax")


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    """A workspace after one night that sealed one generation of one slot; and its report."""
    home = tmp_path_factory.mktemp("naming") / "home"
    return home, run_night(home, [{"ns": 1300}, {"ns": 700}])


@pytest.fixture
def home(night):
    return night[0]


def shown(home, text):
    ran = forge(home, "show", text, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def refused(home, *arguments):
    ran = forge(home, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    (line,) = ran.stderr.splitlines()
    return line


def test_a_task_alone_is_its_one_slot_here(home):
    ran = forge(home, "history", "softmax", "--json")
    assert ran.returncode == 0, ran.stderr
    assert [row["generation"] for row in json.loads(ran.stdout)] == [0, 1]


@pytest.mark.parametrize(
    ("text", "generation"),
    [
        ("softmax", 1),
        (str(SLOT), 1),
        (f"{SLOT}@g0", 0),
        (f"{SLOT}/g0", 0),
        (f"{SLOT}/g1", 1),
        (f"refs/tags/{SLOT}/g1", 1),
        ("softmax@g0", 0),
    ],
)
def test_every_spelling_of_a_generation_is_shown(home, text, generation):
    found = shown(home, text)
    assert (found["what"], found["generation"]) == ("generation", generation)


def test_evidence_shows_whose_it_is(home):
    sealed = shown(home, "softmax")
    candidate = sealed["candidate"]
    for phase in candidate["phases"]:
        for text in (phase["evidence"], phase["evidence"][:12]):
            assert shown(home, text)["candidate"] == candidate["candidate"]
    (calibrated,) = [
        event["subject"]
        for event in open_reader(home / "ledger.duckdb").query("events", limit=10_000)
        if event["kind"] == "evidence" and event["body"].get("phase") == "calibrate"
    ][:1]
    assert shown(home, calibrated)["what"] == "generation"


def test_what_is_not_here_names_the_workspace_that_was_looked_in(home):
    line = refused(home, "show", "0123456789ab")
    assert "nothing called '0123456789ab'" in line
    assert line.endswith(f"(looked in {home}; FORGE_HOME names another workspace).")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "nosuch"), "There is no task 'nosuch'; known: .*softmax.*looked in"),
        (("show", "sofmax"), "There is no task 'sofmax'; close to it: softmax"),
        (("show", "nosuch/cpu"), "There is no task 'nosuch'"),
        (("show", "nosuch/cpu/g1"), "There is no task 'nosuch'"),
        (("show", "nosuch/cpu@g1"), "There is no task 'nosuch'"),
        (("show", f"{SLOT}@g7"), "has no generation 7 .*looked in"),
        (("show", "rope/cpu"), r"rope/\S+ has no generation yet"),
        (("show", "rope"), "nothing called 'rope'"),
        (("show", "softmax/z80"), "no target 'z80'"),
        (("history", "nosuch/cpu"), "There is no task 'nosuch'"),
        (("history", "nosuch"), "There is no task 'nosuch'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_mistyped_is_one_sentence(home, arguments, sentence):
    assert re.search(sentence, refused(home, *arguments))


def test_a_task_alone_that_has_two_slots_here_must_be_told_apart(tmp_path):
    rows = [
        {"task": "softmax", "target": "a-1t", "generation": 1},
        {"task": "softmax", "target": "b-1t", "generation": 4},
        {"task": "rope", "target": "b-1t", "generation": 2},
    ]
    paths = Workspace(home=tmp_path)
    with pytest.raises(UsageError, match="2 slots here: name one of softmax/a-1t, softmax/b-1t"):
        slot_named("softmax", paths, rows)
    assert slot_named("rope", paths, rows) == "rope/b-1t"
    assert slot_named("softmax/b-1t", paths, rows) == "softmax/b-1t"
    assert id_named("softmax/b-1t", paths, rows) == "softmax/b-1t@g4"
    assert id_named("abcdef012345", paths, rows) == "abcdef012345"


def test_nights_and_their_candidates_can_be_listed(night):
    home, report = night
    (row,) = json.loads(forge(home, "status", "--nights", "--json").stdout)
    assert (row["night"], row["status"]) == (report["night"], "done")
    assert (row["proposed"], row["sealed"]) == (2, 1)
    assert report["night"] in forge(home, "status", "--nights").stdout
    proposals = shown(home, report["night"])["proposals"]
    assert {item["state"] for item in proposals} == {"sealed", "rejected"}
    text = forge(home, "show", report["night"]).stdout
    assert all(item["candidate"] in text and item["title"] in text for item in proposals)


def test_listing_nights_where_none_has_run_makes_nothing(tmp_path):
    ran = forge(tmp_path / "none", "status", "--nights")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "No night has run" in ran.stderr
    assert not (tmp_path / "none").exists()
