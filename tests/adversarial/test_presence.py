"""Whether a night starts on a host that lacks a layer: with a person there, and with nobody."""

import json

import pytest

from forge.config import load_config
from forge.errors import UsageError
from forge.judge.layers import LAYERS, refusal, warning
from tests.adversarial.test_walls import UNSHARE, WITHOUT_NAMESPACES, as_plain_user, folder

__all__ = ["folder"]

FORGE = "from flows.cli.app import main; main()"
ADMIT = """
import json, sys
from pathlib import Path
from flows.wiring import Presence, judge_for
from forge.config import Workspace
from forge.host import probe_environment
attended, may_lack = json.loads(sys.argv[1])
said = []
presence = Presence(attended=attended, may_lack=tuple(may_lack), say=said.append)
with judge_for(Workspace(home=Path.cwd() / "home"), probe_environment(), presence):
    print(json.dumps(said))
"""


def test_an_unattended_night_refuses_a_host_that_lacks_a_layer(folder):
    home = folder / "home"
    more = {"FORGE_HOME": str(home), "HOME": str(folder)}
    done = as_plain_user(folder, "-c", FORGE, "night", without=[UNSHARE], **more)
    assert done.returncode == 2, done.stderr
    assert done.stderr == f"forge: {refusal(WITHOUT_NAMESPACES, ())}\n"
    assert not home.exists()


def test_a_night_on_a_schedule_refuses_it_too(folder):
    more = {"FORGE_HOME": str(folder / "home"), "HOME": str(folder)}
    program = "from flows.night import night; night.fn(minutes=2)"
    done = as_plain_user(folder, "-c", program, without=[UNSHARE], **more)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(refusal(WITHOUT_NAMESPACES, ()))


@pytest.mark.parametrize(
    ("attended", "may_lack", "said"),
    [(True, [], [warning(WITHOUT_NAMESPACES)]), (False, WITHOUT_NAMESPACES, None)],
)
def test_what_a_person_allows_is_said_and_not_refused(folder, attended, may_lack, said):
    arguments = json.dumps([attended, may_lack])
    done = as_plain_user(folder, "-c", ADMIT, arguments, without=[UNSHARE])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == (said or [warning(WITHOUT_NAMESPACES)])


def test_a_refusal_names_what_is_lacking_and_not_allowed():
    assert refusal(["ipc", "user"], ["user", "ipc", "files"]) is None
    assert "the sandbox layer ipc," in refusal(["ipc", "user"], ["user"])
    assert "may_lack" in refusal(["ipc"], [])


def test_no_layer_may_be_lacking_unless_named(tmp_path):
    assert load_config({}, tmp_path, {}).settings.may_lack == ()
    (tmp_path / ".forge").mkdir()
    file = tmp_path / ".forge" / "forge.toml"
    file.write_text(f"may_lack = {json.dumps(list(LAYERS))}\n")
    assert load_config({}, tmp_path, {}).settings.may_lack == tuple(LAYERS)
    file.write_text('may_lack = ["wall"]\n')
    with pytest.raises(UsageError, match="may_lack"):
        load_config({}, tmp_path, {})
