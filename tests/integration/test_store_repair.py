"""What a kill, a person or a disk does to the store, and what the store says of it."""

import resource
import subprocess
import zlib

import pytest

from forge.errors import HarnessFault, UsageError
from forge.types import KernelSource, Slot
from tests.integration.store_making import (
    REFERENCE,
    ROPE,
    SOFTMAX,
    TARGET,
    TASK_DIGEST,
    edit_by_hand,
    git,
    open_store,
    promotion,
    seeded,
)

FOLDER = f"softmax/{TARGET}"


def test_locks_of_a_killed_git_are_swept_and_sealing_goes_on(tmp_path):
    store, seed = seeded(tmp_path)
    left = [
        store.path / "refs/heads/main.lock",
        store.path / "packed-refs.lock",
        store.path / f"refs/tags/{FOLDER}/g1.lock",
        store.path / "objects/tmp_obj_x1",
    ]
    for file in left:
        file.write_text("")
    names = sorted(str(file.relative_to(store.path)) for file in left)
    assert store.recover() == [
        f"Deleted {name}, which a killed git left in {store.path}." for name in names
    ]
    assert store.recover() == []
    assert store.seal(promotion("c1", seed.commit)).generation == 1


def test_a_half_made_repository_is_made_again(tmp_path):
    """A kill in the middle of `git init` leaves a folder of another name."""
    (tmp_path / "baselines.git.new" / "refs").mkdir(parents=True)
    store, _ = seeded(tmp_path)
    assert store.problems(full=True) == []
    assert not (tmp_path / "baselines.git.new").exists()


def test_a_repository_without_its_first_commit_is_finished(tmp_path):
    store, _ = seeded(tmp_path)
    for ref in git(store, "for-each-ref", "--format=%(refname)").splitlines():
        git(store, "update-ref", "-d", ref)
    assert open_store(tmp_path).head(SOFTMAX) is None
    assert open_store(tmp_path).seed(SOFTMAX, REFERENCE, TASK_DIGEST).generation == 0


def test_a_swap_killed_before_its_tag_is_finished_by_the_same_promotion(tmp_path):
    store, seed = seeded(tmp_path)
    sealed = store.seal(promotion("c1", seed.commit))
    git(store, "update-ref", "-d", f"refs/tags/{FOLDER}/g1")
    assert store.problems() == [
        f"The tag refs/tags/{FOLDER}/g1 is missing; it must name {sealed.commit}."
    ]
    assert store.seal(promotion("c1", seed.commit)) == sealed
    assert store.problems() == []


def test_a_seed_killed_before_its_tag_is_finished_by_the_same_seed(tmp_path):
    store, seed = seeded(tmp_path)
    git(store, "update-ref", "-d", f"refs/tags/{FOLDER}/g0")
    assert store.seed(SOFTMAX, REFERENCE, TASK_DIGEST) == seed
    assert store.problems() == []


def test_a_folder_edited_by_hand_is_named_and_not_built_upon(tmp_path):
    store, seed = seeded(tmp_path)
    sealed = store.seal(promotion("c1", seed.commit))
    store.seed(ROPE, REFERENCE, TASK_DIGEST)
    edit = edit_by_hand(store, tmp_path, f"{FOLDER}/kernel.cpp", "// mine\n")
    by_ann = f"{edit[:12]} ('Tune it a little' by ann)"
    with pytest.raises(UsageError) as caught:
        store.head(SOFTMAX)
    assert str(caught.value) == (
        f"{FOLDER}/ in {store.path} was edited by hand in commit {by_ann}, after generation 1: "
        f"undo it in a clone with `git revert {edit[:12]}` and push main."
    )
    with pytest.raises(UsageError, match="edited by hand"):
        store.seal(promotion("c2", sealed.commit, 2))
    assert store.head(ROPE).generation == 0
    assert store.problems() == [
        f"Commit {by_ann} is not ours: the store was edited by hand.",
        f"Commit {by_ann} changed {FOLDER} by hand.",
    ]


def test_an_edit_that_was_reverted_as_told_is_built_upon_again(tmp_path):
    store, seed = seeded(tmp_path)
    sealed = store.seal(promotion("c1", seed.commit))
    text = sealed.source.files["kernel.cpp"]
    edit_by_hand(store, tmp_path, f"{FOLDER}/kernel.cpp", "// mine\n")
    (tmp_path / "clone").rename(tmp_path / "first")
    edit_by_hand(store, tmp_path, f"{FOLDER}/kernel.cpp", text)
    assert store.head(SOFTMAX) == sealed
    assert store.seal(promotion("c2", sealed.commit, 2)).generation == 2


def test_a_deleted_folder_is_an_edit_too(tmp_path):
    store, _ = seeded(tmp_path)
    tree = git(store, "ls-tree", "main", "README.md")
    commit = git(
        store, "-c", "user.name=ann", "-c", "user.email=a@b", "commit-tree", "-p", "main",
        "-m", "Tidy", _mktree(store, tree),
    )  # fmt: skip
    git(store, "update-ref", "refs/heads/main", commit)
    with pytest.raises(UsageError, match=r"edited by hand in commit .* \('Tidy' by ann\)"):
        store.head(SOFTMAX)


def test_tags_that_moved_or_mean_nothing_are_reported(tmp_path):
    store, seed = seeded(tmp_path)
    sealed = store.seal(promotion("c1", seed.commit))
    git(store, "update-ref", f"refs/tags/{FOLDER}/g0", sealed.commit)
    git(store, "update-ref", f"refs/tags/{FOLDER}/g7", sealed.commit)
    git(store, "update-ref", "refs/tags/favourite", sealed.commit)
    assert store.problems() == [
        f"The tag refs/tags/{FOLDER}/g0 names {sealed.commit}; it must name {seed.commit}.",
        f"The tag refs/tags/{FOLDER}/g7 names {sealed.commit}, which seals no such generation on "
        "main.",
    ]


def test_a_tag_in_the_way_is_said_to_be(tmp_path):
    store, seed = seeded(tmp_path)
    git(store, "update-ref", f"refs/tags/{FOLDER}/g1", seed.commit)
    with pytest.raises(UsageError, match=r"g1 in .* was made by hand; delete it: `git --git-dir="):
        store.seal(promotion("c1", seed.commit))
    assert store.head(SOFTMAX) == seed


def test_a_rewound_branch_is_seen_for_what_it_is(tmp_path):
    store, seed = seeded(tmp_path)
    sealed = store.seal(promotion("c1", seed.commit))
    assert store.head(SOFTMAX).generation == 1
    git(store, "update-ref", "refs/heads/main", seed.commit)
    assert store.head(SOFTMAX) == seed
    assert store.problems() == [
        f"The tag refs/tags/{FOLDER}/g1 names {sealed.commit}, which seals no such generation on "
        "main."
    ]


@pytest.mark.parametrize("damage", ["not zlib", "other text"])
def test_a_damaged_kernel_is_found_and_never_handed_out(tmp_path, damage):
    store, seed = seeded(tmp_path)
    store.seal(promotion("c1", seed.commit))
    blob = git(store, "rev-parse", f"main:{FOLDER}/kernel.cpp")
    file = store.path / "objects" / blob[:2] / blob[2:]
    file.chmod(0o644)
    file.write_bytes(b"\0" * 40 if damage == "not zlib" else zlib.compress(b"blob 2\0//"))
    assert any(blob in problem for problem in store.problems(full=True)), store.problems(full=True)
    with pytest.raises(UsageError, match="cannot be read"):
        open_store(tmp_path).head(SOFTMAX)


def test_a_missing_commit_is_a_sentence_and_not_a_traceback(tmp_path):
    store, seed = seeded(tmp_path)
    (store.path / "objects" / seed.commit[:2] / seed.commit[2:]).unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        open_store(tmp_path).head(SOFTMAX)
    assert any(seed.commit in problem for problem in open_store(tmp_path).problems())


def test_a_store_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "home").write_text("a file where the workspace should be")
    with pytest.raises(UsageError, match=r"cannot be written \(.*\): choose another FORGE_HOME"):
        open_store(tmp_path / "home").seed(SOFTMAX, REFERENCE, TASK_DIGEST)


def test_a_file_larger_than_the_limit_is_a_fault_that_says_what_git_was_doing(tmp_path):
    """As on a full disk: git fails half-way through an object, and nothing is sealed."""
    store, seed = seeded(tmp_path)
    large = KernelSource(files={"kernel.cpp": "".join(f"// {n * n}\n" for n in range(20_000))})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(HarnessFault, match=r"git hash-object .* ended with status"):
            store.seal(promotion("c1", seed.commit, source=large))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.head(SOFTMAX) == seed
    store.recover()
    assert store.seal(promotion("c1", seed.commit, source=large)).generation == 1
    assert store.problems(full=True) == []


def test_a_path_that_could_mean_something_else_never_reaches_git(tmp_path):
    store, seed = seeded(tmp_path)
    before = sorted(store.path.rglob("*"))
    source = KernelSource(files={"kernel.cpp": "", "../kernel.h": ""})
    with pytest.raises(UsageError, match="A kernel cannot have a file"):
        store.seal(promotion("c1", seed.commit, source=source))
    with pytest.raises(UsageError, match="cannot name a task"):
        store.seed(Slot(task="--help", target=TARGET), REFERENCE, TASK_DIGEST)
    assert sorted(store.path.rglob("*")) == before


def _mktree(store, entry):
    return subprocess.run(
        ["git", f"--git-dir={store.path}", "mktree"],
        input=entry + "\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
