"""A store that was deleted, moved or edited is refused, made no worse, and can be restored."""

import re
import shutil
import subprocess

import pytest

from baselines.store import BaselineStore
from flows.audit import audit_workspace
from flows.by_hand import opponent
from flows.workspace import open_workspace
from forge.config import Workspace
from forge.errors import UsageError
from forge.tasks.load import load_task
from tests.integration.calling import forge
from tests.integration.night_making import CATALOG, clock, run_night, slot_of
from tests.integration.promotion_making import accepted, open_ledger, start
from tests.integration.store_making import edit_by_hand, git, promotion, seeded

SLOT = slot_of("softmax")
FOLDER = f"softmax/{SLOT.target}"


@pytest.fixture
def home(tmp_path):
    """A workspace whose one slot is at generation 1."""
    run_night(tmp_path / "home", [{"ns": 700}])
    return tmp_path / "home"


def store_of(home):
    return BaselineStore(home / "baselines.git", clock)


def refused(home):
    """What a night says when it refuses the store; what the audit finds is left as it was."""
    before = audit_workspace(Workspace(home=home), clock).problems
    ran = forge(home, "night", "--task", "softmax")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert audit_workspace(Workspace(home=home), clock).problems == before
    (line,) = ran.stderr.splitlines()
    return line


def restored_as_told(home):
    """Run the command that the audit gives, and return whether everything agrees then."""
    said = "\n".join(audit_workspace(Workspace(home=home), clock).problems)
    assert "delete no tag" in said
    (command,) = re.findall(r"restore it with `(git .*)`", said)
    subprocess.run(command.split(), check=True)
    with open_workspace(Workspace(home=home), clock) as workspace:
        assert workspace.store.head(SLOT).generation == 1
    return audit_workspace(Workspace(home=home), clock).problems == ()


def test_a_deleted_store_is_not_made_again_and_its_copy_brings_it_back(home, tmp_path):
    store = home / "baselines.git"
    subprocess.run(["git", "clone", "-q", str(store), str(tmp_path / "copy")], check=True)
    shutil.rmtree(store)
    line = refused(home)
    assert line.startswith(f"forge: The store {store} is gone, and the ledger has 2 generations")
    assert f"or move {home} away to start over" in line
    assert not store.exists()
    (command,) = re.findall("`(git clone .*?)`", line)
    subprocess.run(command.replace("COPY", str(tmp_path / "copy")).split(), check=True)
    with open_workspace(Workspace(home=home), clock) as workspace:
        assert workspace.store.head(SLOT).generation == 1
    assert audit_workspace(Workspace(home=home), clock).problems == ()


def test_a_deleted_store_supersedes_nothing(tmp_path):
    """The promotion that a killed night left is carried out when the store is back."""
    store, seed = seeded(tmp_path)
    with open_ledger(tmp_path) as ledger:
        start(ledger, seed)
        ledger.intend(accepted(ledger, "c1", seed))
    store.path.rename(tmp_path / "away")
    with (
        pytest.raises(UsageError, match="is gone"),
        open_workspace(Workspace(home=tmp_path), clock),
    ):
        pass
    (tmp_path / "away").rename(store.path)
    with open_workspace(Workspace(home=tmp_path), clock) as workspace:
        assert any("Finished promotion promotion-c1" in line for line in workspace.repairs)


def test_a_branch_that_is_gone_is_restored_as_the_audit_says(home):
    git(store_of(home), "update-ref", "-d", "refs/heads/main")
    line = refused(home)
    assert "no longer holds generation" in line
    assert line.endswith("`forge audit` says how to restore it.")
    problems = audit_workspace(Workspace(home=home), clock).problems
    assert "Store: The branch main is gone, and 2 tags still name what was sealed: keep them." in (
        problems
    )
    assert not any("update-ref -d" in line for line in problems)
    assert restored_as_told(home)


def test_a_branch_that_was_moved_back_is_restored_as_the_audit_says(home):
    seed = store_of(home).at_generation(SLOT, 0).commit
    git(store_of(home), "update-ref", "refs/heads/main", seed)
    assert f"no longer holds generation 1 of {SLOT}" in refused(home)
    assert store_of(home).head(SLOT).generation == 0
    assert restored_as_told(home)


def test_a_branch_that_was_moved_back_is_not_judged_against(home):
    task = load_task(CATALOG / "softmax")
    head = store_of(home).head(SLOT)
    assert opponent(Workspace(home=home), SLOT, task, None) == head.source
    seed = store_of(home).at_generation(SLOT, 0).commit
    git(store_of(home), "update-ref", "refs/heads/main", seed)
    with pytest.raises(UsageError, match=r"lacks generation 1 of softmax.*`forge audit`"):
        opponent(Workspace(home=home), SLOT, task, None)
    shutil.rmtree(home / "baselines.git")
    with pytest.raises(UsageError, match=r"lacks generation 1 of softmax.*`forge audit`"):
        opponent(Workspace(home=home), SLOT, task, 0)


def test_a_kernel_that_was_edited_by_hand_is_refused_until_it_is_reverted(home, tmp_path):
    before = store_of(home).head(SLOT)
    edit = edit_by_hand(store_of(home), tmp_path, f"{FOLDER}/kernel.cpp", "// mine\n")
    line = refused(home)
    assert (
        f"{FOLDER}/ in {home / 'baselines.git'} was edited by hand in commit {edit[:12]}" in line
    )
    assert "`forge audit` says what else was changed" in line
    clone = tmp_path / "clone"
    me = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
    for args in ([*me, "revert", "--no-edit", edit], ["push", "-q"]):
        subprocess.run(["git", *args], cwd=clone, check=True, capture_output=True)
    with open_workspace(Workspace(home=home), clock) as workspace:
        assert workspace.store.head(SLOT) == before


def test_a_kernel_that_was_sealed_by_hand_is_refused(home):
    head = store_of(home).head(SLOT)
    store_of(home).seal(promotion("forged", head.commit, 2, SLOT))
    line = refused(home)
    assert f"seals {SLOT}, and the ledger never sealed it" in line
    assert "`forge audit`" in line


def test_a_note_beside_the_kernels_stops_nobody(home, tmp_path):
    edit_by_hand(store_of(home), tmp_path, "NOTES.md", "Well done.\n")
    with open_workspace(Workspace(home=home), clock) as workspace:
        assert workspace.repairs == ()


def test_a_store_without_its_ledger_is_built_upon(home):
    """What stands in the store is the state; a ledger begins anew."""
    for file in home.glob("ledger.*"):
        file.unlink()
    with open_workspace(Workspace(home=home), clock) as workspace:
        assert workspace.store.head(SLOT).generation == 1
