import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines import layout
from forge.errors import UsageError
from forge.types import Slot

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,20}", fullmatch=True)


@given(NAMES, NAMES, st.integers(min_value=0, max_value=999_999_999))
def test_a_tag_says_which_generation_it_is(task, target, generation):
    slot = Slot(task=task, target=target)
    assert layout.parse_tag(layout.tag(slot, generation)) == (slot, generation)


@pytest.mark.parametrize(
    "ref",
    [
        "refs/tags/softmax/cpu/g01",
        "refs/tags/softmax/cpu/g",
        "refs/tags/softmax/cpu/g1/x",
        "refs/tags/softmax/g1",
        "refs/heads/softmax/cpu/g1",
        "refs/tags/Softmax/cpu/g1",
        "refs/tags/softmax/cpu/g9999999999",
        "refs/tags/softmax/cpu/g1\n",
        "refs/tags/softmax/cpu/g\u0661",
    ],
)
def test_other_refs_are_no_generation(ref):
    assert layout.parse_tag(ref) is None


@pytest.mark.parametrize(
    "name", ["", "..", "a/b", "-x", "main.lock", "Softmax", "a b", "a" * 101, "a\n", "é"]
)
def test_a_name_that_is_no_folder_and_ref_is_refused(name):
    with pytest.raises(UsageError, match="cannot name a task"):
        layout.check_slot(Slot(task=name, target="cpu"))
    with pytest.raises(UsageError, match="cannot name a target"):
        layout.check_slot(Slot(task="softmax", target=name))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../kernel.h",
        "/etc/passwd",
        ".git/config",
        "part/.git",
        "-rf",
        "a/../b",
        "a//b",
        "x\ny",
        "x\ty",
        "é.h",
        "a/",
        "a/b/c/d/e/f/g",
        "a" * 101,
    ],
)
def test_a_path_that_could_mean_something_else_is_refused(path):
    with pytest.raises(UsageError, match="A kernel cannot have a file"):
        layout.check_paths(["kernel.cpp", path])


@pytest.mark.parametrize("extra", [["part", "part/x.h"], ["Part.h", "part.h"], ["A/x", "a/y"]])
def test_paths_that_collide_on_some_file_system_are_refused(extra):
    with pytest.raises(UsageError, match="A kernel cannot have both"):
        layout.check_paths(["kernel.cpp", *extra])


def test_a_small_tree_of_files_is_fine():
    layout.check_paths(["kernel.cpp", "part/exp.h", "part/deep/x-1.h", "C++.h"])
