import pytest

from flows import schedule
from flows.standing import Standing
from forge.types import Slot


def standing(task="softmax", **fields):
    return Standing(slot=Slot(task=task, target="t"), task=None, **fields)


def test_the_first_pass_shares_what_is_left_equally():
    assert schedule.first_share_s(460, 14) == pytest.approx(460 / 14)


def test_the_slot_furthest_from_its_roof_is_next():
    near, far = standing("near", roof_share=0.9), standing("far", roof_share=0.2)
    assert schedule.most_promising([near, far]) is far


def test_rounds_in_vain_make_room_for_others():
    tired, fresh = (
        standing("tired", roof_share=0.2, fruitless=3),
        standing("fresh", roof_share=0.7),
    )
    assert schedule.most_promising([tired, fresh]) is fresh


def test_a_slot_above_its_roof_still_counts_a_little():
    assert schedule.gain(standing(roof_share=1.3)) > 0


@pytest.mark.parametrize("end", [{"trouble": "broken"}, {"is_exhausted": True}])
def test_nothing_is_next_when_nothing_can_be_tried(end):
    assert schedule.most_promising([standing(**end)]) is None


def test_no_slots_no_turn():
    assert schedule.most_promising([]) is None
