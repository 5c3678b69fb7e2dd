"""The real ``forge`` command with a fake judge and student: ``python -m`` with its arguments.

``FORGE_FAKE_MENU`` is the student's menu as JSON; with ``FORGE_FAKE_SIGNAL`` the process sends
itself that signal when the judge begins that phase, ``"confirm=SIGINT"``; named twice with a
comma it is sent twice.
"""

import json
import os
import signal

from flows import wiring
from flows.cli.app import main
from tests.fakes import FakeJudge, FakeStudent


def make_judge(paths, environment, presence):
    phase, _, name = os.environ.get("FORGE_FAKE_SIGNAL", "").partition("=")
    sent = []

    def on_phase(now, _source):
        if now == phase and not sent:
            sent.append(now)
            for one in name.split(","):
                os.kill(os.getpid(), getattr(signal, one))

    return FakeJudge(environment.id, on_phase)


if __name__ == "__main__":
    menu = json.loads(os.environ.get("FORGE_FAKE_MENU", "[]"))
    wiring.JUDGES["cpu"] = make_judge
    wiring.STUDENTS["fake"] = lambda: FakeStudent(menu)
    main()
