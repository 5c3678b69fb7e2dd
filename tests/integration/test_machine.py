"""Probing the machine the tests run on, and one that lacks things."""

import os
import re
from pathlib import Path

import pytest

from forge import doctor
from forge.errors import UsageError
from forge.host import (
    LLC_BYTES_UNKNOWN,
    Environment,
    last_level_cache_bytes,
    probe_environment,
    require_compiler,
)
from forge.judge.layers import LAYERS


@pytest.fixture(scope="module")
def here() -> Environment:
    return probe_environment()


def without_programs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", str(folder))


def test_this_machine_is_the_same_each_time(here: Environment):
    assert probe_environment() == here
    assert here.target == f"{here.model}-{here.isa}-{here.arm_threads}t"
    assert re.fullmatch(r"[a-z0-9-]+", here.target)


def test_one_core_is_kept_from_the_arms(here: Environment):
    assert here.cores == len(os.sched_getaffinity(0))
    assert here.arm_threads == max(1, here.cores - 1)


def test_a_compiler_is_found_and_named(here: Environment):
    assert Path(require_compiler()).name == "g++"
    assert "g++" in here.compiler


def test_a_machine_without_a_compiler_keeps_its_target(
    here: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    without_programs(monkeypatch, tmp_path)
    there = probe_environment()
    assert there.compiler == ""
    assert there.target == here.target
    assert there.id != here.id
    with pytest.raises(UsageError, match=r"no C\+\+ compiler.*install g\+\+"):
        require_compiler()


def test_the_largest_cache_is_the_last(tmp_path: Path):
    for index, size in enumerate(("48K", "64K", "2048K", "32M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n", encoding="utf-8")
    assert last_level_cache_bytes(tmp_path) == 32 * 2**20


def test_a_machine_that_hides_its_caches_is_taken_to_have_a_large_one(tmp_path: Path):
    assert last_level_cache_bytes(tmp_path) == LLC_BYTES_UNKNOWN


def test_every_probe_has_a_name_of_its_own_and_a_sentence(here: Environment, tmp_path: Path):
    probes = doctor.examine(here, tmp_path / "not" / "yet")
    names = [probe.name for probe in probes]
    assert len(set(names)) == len(names)
    layers = [f"sandbox.{name}" for name in (*LAYERS, "limits")]
    assert [name for name in names if name.startswith("sandbox.")] == layers
    for probe in probes:
        assert re.fullmatch(r"[A-Z0-9/].*[^.]\.", probe.sentence), probe


def test_missing_programs_are_named_with_what_to_install(
    here: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    without_programs(monkeypatch, tmp_path)
    lacking = {probe.name: probe.sentence for probe in doctor.examine(here, tmp_path)}
    assert "install g++" in lacking["compiler"]
    assert "install git" in lacking["git"]


def test_little_memory_and_one_core_are_said(here: Environment, tmp_path: Path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 8388608 kB\nMemAvailable:  2097152 kB\n", encoding="utf-8")
    probe = doctor.probe_memory(meminfo)
    assert not probe.ok
    assert "2.0 GiB" in probe.sentence
    alone = here.model_copy(update={"cores": 1, "arm_threads": 1})
    assert not doctor.probe_cores(alone).ok
