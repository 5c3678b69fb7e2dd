"""Guards for four top-level packages with generic names (docs/architecture.md, "Packages")."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGES = ("flows", "forge", "baselines", "ledger")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_ours_and_not_a_namesake_from_elsewhere(package: str):
    found = importlib.import_module(package).__file__
    assert found is not None
    assert Path(found).resolve().is_relative_to(ROOT)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_other_distribution_ships_a_namesake(package: str):
    assert set(packages_distributions().get(package, [])) <= {"everforge"}


def test_the_wheel_ships_the_four_packages_and_may_not_be_uploaded():
    assert sorted(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(
        PACKAGES
    )
    assert "Private :: Do Not Upload" in PROJECT["project"]["classifiers"]


def test_no_module_of_flows_is_named_like_a_package():
    # Prefect puts flows/ on sys.path when it loads a flow by file: a namesake would win there.
    modules = {path.stem for path in (ROOT / "flows").iterdir() if not path.name.startswith("_")}
    dependencies = {Requirement(line).name for line in PROJECT["project"]["dependencies"]}
    taken = {*PACKAGES, *dependencies, *sys.stdlib_module_names, "git", "jinja2"}
    assert modules.isdisjoint(taken)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_init_file_holds_a_docstring_only(package: str):
    files = set((ROOT / package).rglob("__init__.py"))
    for path in files:
        text = path.read_text(encoding="utf-8").strip()
        assert text.startswith('"""'), path
        assert text.endswith('"""'), path
        assert text.count('"""') == 2, path


def test_a_file_stays_readable():
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    long = {
        str(path.relative_to(ROOT)): lines
        for path in files
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert long == {}


def test_only_the_configuration_reads_the_environment():
    pattern = re.compile(r"os\.(environ|getenv)")
    readers = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert readers <= {"forge/config.py"}


def test_only_the_host_reads_the_wall_clock():
    pattern = re.compile(r"datetime\.(now|utcnow|today)\(|\btime\.time\(")
    readers = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert readers <= {"forge/host.py"}


@pytest.mark.parametrize(
    "line",
    [*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]],
)
def test_what_is_declared_is_what_is_installed(line: str):
    requirement = Requirement(line)
    if requirement.marker is None or requirement.marker.evaluate():
        assert requirement.specifier.contains(version(requirement.name), prereleases=True)


def test_the_constraint_names_what_the_gpu_host_runs():
    lines = (ROOT / "constraints" / "cpu.txt").read_text(encoding="utf-8").split()
    assert lines == ["torch==2.13.0", "triton==3.6.0"]


def test_the_deployment_names_a_flow_by_its_module(tmp_path: Path):
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text(encoding="utf-8"))[
        "deployments"
    ]
    (entrypoint,) = {deployment["entrypoint"] for deployment in deployments}
    load = "import sys; from prefect.flows import load_flow_from_entrypoint as load;"
    ran = subprocess.run(
        [sys.executable, "-c", f"{load} print(load(sys.argv[1]).name)", entrypoint],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.stdout == "night\n", ran.stderr
