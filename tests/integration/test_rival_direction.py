"""A rival's figure has one direction wherever it is read: above 1 the sealed kernel is faster."""

import json

import pytest

from baselines.message import promotion_message
from flows import conduct
from flows.workspace import open_workspace
from forge.config import Workspace
from forge.report.shapes import SlotRow
from forge.report.show import show_text
from forge.report.slots import status_text
from tests.fakes import FakeJudge
from tests.integration.night_making import clock, opened_night

# The fake's torch.compile takes 600 ns and its eager 1000 ns, whatever the kernel takes.
CASES = [(500, "torch.compile", 600 / 500), (700, "torch.compile", 600 / 700)]


@pytest.mark.parametrize(("ns", "rival", "times_as_fast"), CASES)
def test_one_generation_has_one_figure_in_all_four_places(tmp_path, ns, rival, times_as_fast):
    with opened_night(tmp_path, [{"ns": ns}], student="fake") as (night, _):
        report = conduct.conduct(night).model_dump(mode="json")
    with open_workspace(Workspace(home=tmp_path), clock) as workspace:
        ledger = workspace.ledger
        status = SlotRow.standing(ledger.query("status")[0]).model_dump(mode="json")
        shown = ledger.query("show", id=f"{status['task']}/{status['target']}@g1")
        ((promotion, _),) = ledger.sealed_promotions()
    record = json.loads(promotion.to_json())
    places = {"night": report["slots"][0], "status": status, "show": shown, "record": record}
    figures = {name: (row["rival"], row["rival_speedup"]) for name, row in places.items()}
    assert figures == {name: (rival, pytest.approx(times_as_fast)) for name in places}
    assert [(row["name"], row["speedup"]) for row in shown["rivals"]] == [
        ("torch.compile", pytest.approx(600 / ns)),
        ("eager", pytest.approx(1000 / ns)),
    ]
    text = f"{times_as_fast:.2f}x as fast as {rival}"
    assert text in status_text([SlotRow.model_validate(status)])
    assert text in show_text(shown, {})
    said = " ".join(promotion_message(promotion).split())
    assert f"it is {times_as_fast:.2f} times as fast" in said
    assert ("It loses to torch.compile." in said) == (times_as_fast < 1)


def test_a_night_that_closed_with_the_reciprocal_is_read_right(tmp_path):
    with opened_night(tmp_path, [{"ns": 500}], student="fake") as (night, workspace):
        report = conduct.conduct(night).model_dump(mode="json")
        first = report["slots"][0]
        old = {**report, "slots": [{**first, "rival_speedup": 1 / first["rival_speedup"]}]}
        workspace.ledger.open_night("20260101-old", {})
        workspace.ledger.close_night("20260101-old", "done", old)
        for id_ in (report["night"], "20260101-old"):
            shown = workspace.ledger.query("show", id=id_)["summary"]
            (slot,) = shown["slots"]
            assert slot["rival_speedup"] == first["rival_speedup"]
            assert workspace.ledger.query("night", night_id=id_)["summary"] == shown
        assert workspace.ledger.query("show", id="20260101-old")["summary"] == report


def test_where_no_rival_was_timed_there_is_none_anywhere(tmp_path):
    class Silent(FakeJudge):
        def time_rivals(self, task, kernel, names):
            return {}

    with opened_night(tmp_path, [{"ns": 500}], Silent("fake-env"), student="fake") as (night, ws):
        report = conduct.conduct(night).model_dump(mode="json")
        shown = ws.ledger.query("show", id=report["night"])
        assert shown["summary"] == report
        generation = ws.ledger.query("show", id="softmax/fake-avx2-1t@g1")
        (status,) = ws.ledger.query("status")
    for row in (report["slots"][0], generation, status):
        assert (row["rival"], row["rival_speedup"]) == (None, None)
    assert generation["rivals"] == []
    assert "not timed" in show_text(generation, {})
