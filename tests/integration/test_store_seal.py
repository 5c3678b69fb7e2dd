"""Sealing, fencing and reading, on real git repositories."""

import multiprocessing
import subprocess
from datetime import timedelta

import pytest

from baselines.store import BaselineStore
from forge.errors import HarnessFault, StaleState, UsageError
from forge.types import KernelSource
from tests.integration.store_making import (
    NIGHT,
    REFERENCE,
    ROPE,
    SOFTMAX,
    TARGET,
    TASK_DIGEST,
    edit_by_hand,
    git,
    kernel,
    open_store,
    promotion,
    seeded,
)


def test_a_store_that_does_not_exist_is_empty_and_stays_unmade(tmp_path):
    store = open_store(tmp_path)
    assert store.head(SOFTMAX) is None
    assert (store.slots(), store.history(SOFTMAX), store.problems()) == ([], [], [])
    assert store.recover() == []
    assert not store.path.exists()


def test_each_seal_is_a_generation_on_one_line(tmp_path):
    store, seed = seeded(tmp_path)
    first = store.seal(promotion("c1", seed.commit))
    second = store.seal(promotion("c2", first.commit, 2))
    assert [b.generation for b in (seed, first, second)] == [0, 1, 2]
    assert store.head(SOFTMAX) == second
    assert store.history(SOFTMAX) == [seed, first, second]
    assert store.at_generation(SOFTMAX, 1) == first
    assert (second.candidate, second.parent) == ("c2", first.commit)
    assert second.source == kernel("c2")
    # README's commit, which has no parent, and three generations with one each.
    assert git(store, "log", "--format=%P", "main").count("\n") == 2
    assert git(store, "rev-parse", f"softmax/{TARGET}/g2") == second.commit
    assert store.problems(full=True) == []


def test_the_folder_holds_the_kernel_and_the_diff_shows_what_changed(tmp_path):
    store, seed = seeded(tmp_path)
    tree = KernelSource(files={"kernel.cpp": "a\r\nb", "part/exp.h": "é\n", "part/deep/x.h": ""})
    sealed = store.seal(promotion("c1", seed.commit, source=tree))
    assert sealed.source == tree
    assert open_store(tmp_path).head(SOFTMAX) == sealed
    names = git(store, "ls-tree", "-r", "--name-only", "main").splitlines()
    assert names == [
        "README.md",
        f"softmax/{TARGET}/kernel.cpp",
        f"softmax/{TARGET}/part/deep/x.h",
        f"softmax/{TARGET}/part/exp.h",
    ]
    assert git(store, "log", "--format=%an <%ae> %cn %at", "-1") == (
        f"everforge <everforge@localhost> everforge {int(NIGHT.timestamp())}"
    )


def test_git_reads_the_trailers_as_we_wrote_them(tmp_path):
    store, seed = seeded(tmp_path)
    sealed = store.seal(promotion("c1", seed.commit))
    for key in ("Promotion-Id", "Task", "Generation", "Parent", "Speedup", "Evidence", "Night"):
        said = git(store, "log", "-1", f"--format=%(trailers:key={key},valueonly)", sealed.commit)
        assert said == store.commits(SOFTMAX)[-1].trailers[key]


def test_a_seed_is_made_once_and_its_reference_cannot_change(tmp_path):
    store, seed = seeded(tmp_path)
    assert store.seed(SOFTMAX, REFERENCE, TASK_DIGEST) == seed
    other = KernelSource(files={"reference.py": "def run(x):\n    return x\n"})
    with pytest.raises(UsageError, match="reference of softmax is not the one"):
        store.seed(SOFTMAX, other, TASK_DIGEST)
    assert len(store.history(SOFTMAX)) == 1


def test_a_promotion_is_sealed_once_however_often_it_is_asked_for(tmp_path):
    store, seed = seeded(tmp_path)
    first = store.seal(promotion("c1", seed.commit))
    store.seal(promotion("c2", first.commit, 2))
    assert store.seal(promotion("c1", seed.commit)) == first
    assert open_store(tmp_path).seal(promotion("c1", seed.commit)) == first
    assert store.find("promotion-c1") == first.commit
    assert store.find("promotion-c3") is None
    assert len(store.history(SOFTMAX)) == 3


def test_a_kernel_measured_against_an_older_baseline_is_stale(tmp_path):
    store, seed = seeded(tmp_path)
    won = store.seal(promotion("a", seed.commit))
    with pytest.raises(StaleState, match=r"is at generation 1 .* measure it against the new one"):
        store.seal(promotion("b", seed.commit))
    assert store.head(SOFTMAX) == won


def test_the_same_folder_again_is_not_the_same_baseline(tmp_path):
    """A slot that went to B and back to A is stale for what was measured against the first A."""
    store, seed = seeded(tmp_path)
    first = store.seal(promotion("a", seed.commit, source=kernel("A")))
    store.seal(promotion("b", first.commit, 2, source=kernel("B")))
    store.seal(promotion("c", store.head(SOFTMAX).commit, 3, source=kernel("A")))
    with pytest.raises(StaleState):
        store.seal(promotion("d", first.commit, 2))


def test_a_tip_moved_by_another_slot_is_built_upon(tmp_path):
    store, seed = seeded(tmp_path)
    store.seed(ROPE, REFERENCE, TASK_DIGEST)
    sealed = store.seal(promotion("c1", seed.commit))
    assert store.head(SOFTMAX) == sealed
    assert store.head(ROPE).generation == 0
    assert store.slots() == [ROPE, SOFTMAX]
    assert store.problems() == []


def test_a_branch_that_moves_between_commit_and_swap_is_built_upon_or_stale(tmp_path):
    store, seed = seeded(tmp_path)

    def push_elsewhere(point):
        if point == "committed" and not (tmp_path / "clone").exists():
            edit_by_hand(store, tmp_path, "notes.txt", "mine\n")

    sealed = store.seal(promotion("c1", seed.commit), push_elsewhere)
    assert store.head(SOFTMAX) == sealed
    assert "notes.txt" in git(store, "ls-tree", "--name-only", "main")
    assert git(store, "rev-parse", f"softmax/{TARGET}/g1") == sealed.commit


def test_a_generation_out_of_order_is_a_fault(tmp_path):
    store, seed = seeded(tmp_path)
    with pytest.raises(HarnessFault, match="says generation 3; the one after"):
        store.seal(promotion("c1", seed.commit, 3))


def test_an_unknown_generation_names_the_known_ones(tmp_path):
    store, _ = seeded(tmp_path)
    with pytest.raises(UsageError, match="no generation 4; it has generations 0 to 0"):
        store.at_generation(SOFTMAX, 4)


def test_what_a_person_configured_or_exported_does_not_reach_the_store(tmp_path, monkeypatch):
    trap = tmp_path / "trap"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "pre-commit", "post-commit"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {trap}\n")
        (hooks / name).chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[core]\n\thooksPath = {hooks}\n[user]\n\tname = ann\n[commit]\n\tgpgSign=1\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    # What git exports to its own hooks, here of a repository of the user's.
    theirs = tmp_path / "theirs"
    subprocess.run(["git", "init", "-q", str(theirs)], check=True)
    before = sorted(theirs.rglob("*"))
    for name in ("GIT_DIR", "GIT_COMMON_DIR"):
        monkeypatch.setenv(name, str(theirs / ".git"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(theirs / ".git" / "objects"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(theirs / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(theirs))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "ann")
    store, seed = seeded(tmp_path)
    (store.path / "hooks").mkdir(exist_ok=True)
    sealed = store.seal(promotion("c1", seed.commit))
    assert store.head(SOFTMAX) == sealed
    assert {entry.author for entry in store.commits(SOFTMAX)} == {"everforge"}
    assert not trap.exists()
    assert sorted(theirs.rglob("*")) == before


def test_a_folder_that_is_not_a_store_is_said_to_be_none(tmp_path):
    (tmp_path / "baselines.git").mkdir()
    with pytest.raises(UsageError, match="is not a git repository"):
        open_store(tmp_path).seed(SOFTMAX, REFERENCE, TASK_DIGEST)


def test_a_store_of_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "baselines.git"
    subprocess.run(["git", "init", "-q", "--bare", "-bmain", str(path)], check=True)
    tree = subprocess.run(
        ["git", f"--git-dir={path}", "mktree"],
        input="",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    me = ["-c", "user.name=a", "-c", "user.email=a@b"]
    commit = subprocess.run(
        ["git", f"--git-dir={path}", *me, "commit-tree", tree],
        input="Start\n\nStore-Format: 9\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    subprocess.run(
        ["git", f"--git-dir={path}", "update-ref", "refs/heads/main", commit], check=True
    )
    with pytest.raises(UsageError, match=r"has format 9, and this version reads format 1"):
        open_store(tmp_path).slots()


def test_commits_are_dated_by_the_given_clock(tmp_path):
    store, seed = seeded(tmp_path)
    later = NIGHT + timedelta(hours=3)
    BaselineStore(store.path, clock=lambda: later).seal(promotion("c1", seed.commit))
    assert [entry.at for entry in store.commits(SOFTMAX)] == [NIGHT, later]


def _race(folder, name, parent, gate, results):
    gate.wait()
    try:
        open_store(folder).seal(promotion(name, parent))
    except StaleState:
        results.put((name, "stale"))
    else:
        results.put((name, "sealed"))


@pytest.mark.parametrize(
    ("names", "outcomes"),
    [(("a", "b", "c"), ["sealed", "stale", "stale"]), (("a", "a", "a"), ["sealed"] * 3)],
    ids=["three candidates", "one promotion three times"],
)
def test_processes_racing_seal_one_generation(tmp_path, names, outcomes):
    store, seed = seeded(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    gate, results = spawn.Barrier(len(names)), spawn.Queue()
    racers = [
        spawn.Process(target=_race, args=(tmp_path, name, seed.commit, gate, results))
        for name in names
    ]
    for racer in racers:
        racer.start()
    got = [results.get(timeout=60) for _ in racers]
    for racer in racers:
        racer.join()
    assert sorted(outcome for _, outcome in got) == outcomes
    assert len(store.history(SOFTMAX)) == 2
    assert store.problems(full=True) == []
