"""A night that is stopped while its judge dies ends as a stopped one, and loses nothing."""

from flows import conduct
from forge.errors import HarnessFault
from tests.fakes import FakeJudge
from tests.integration.night_making import Told, opened_night

GONE = "A process of the judge is gone: [Errno 32] Broken pipe."


class Dying(FakeJudge):
    """Its processes are stopped with the night, in the middle of one phase."""

    def __init__(self, phase):
        super().__init__("fake-env")
        self.phase = phase
        self.stop = None

    def measure_roof(self):
        if self.phase == "roof":
            self._die()
        return super().measure_roof()

    def calibrate(self, task, baseline, *, rounds=7):
        if self.phase == "calibrate":
            self._die()
        return super().calibrate(task, baseline, rounds=rounds)

    def _die(self):
        self.stop.request()
        raise HarnessFault(GONE)


def _stopped(tmp_path, phase):
    judge, told = Dying(phase), Told()
    with opened_night(tmp_path, [{"ns": 700}], judge, told, student="fake") as (night, workspace):
        judge.stop = night.parts.stop
        report = conduct.conduct(night)
        row = workspace.ledger.query("night", night_id=night.parts.night)
    return report, row, told.lines


def test_a_judge_that_is_stopped_with_the_roof_ends_the_night_cleanly(tmp_path):
    report, row, lines = _stopped(tmp_path, "roof")
    assert row["status"] == "stopped"
    assert [slot.generation_after for slot in report.slots] == [0]
    assert not any("Broken pipe" in line for line in lines)


def test_a_judge_that_is_stopped_with_the_calibration_ends_the_night_cleanly(tmp_path):
    _, row, lines = _stopped(tmp_path, "calibrate")
    assert row["status"] == "stopped"
    assert not any("Broken pipe" in line for line in lines)
