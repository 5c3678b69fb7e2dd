import json
import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from flows.cli.app import make_app
from flows.cli.output import table

COMMANDS = [
    ["night"],
    ["status"],
    ["history"],
    ["show"],
    ["judge"],
    ["audit"],
    ["doctor"],
    ["tasks", "list"],
    ["tasks", "check"],
    ["tasks", "new"],
    ["config", "show"],
]
READING = [c for c in COMMANDS if c != ["tasks", "new"]]


def names(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from names(command, (*path, name))
        else:
            yield [*path, name]


def test_the_table_is_complete():
    assert sorted(names(typer.main.get_command(make_app()))) == sorted(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_has_help(command):
    ran = CliRunner().invoke(make_app(), [*command, "--help"])
    assert ran.exit_code == 0
    assert len(ran.output.splitlines()[2].strip()) > 20


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_each_reading_command_has_json(command):
    assert "--json" in CliRunner().invoke(make_app(), [*command, "--help"]).output


def test_each_option_of_a_night_and_a_judgement_has_its_default_in_the_help():
    for command in (["night"], ["judge"]):
        text = CliRunner().invoke(make_app(), [*command, "--help"]).output
        for option in re.split(r"\n  (?=--)", text.partition("Options:\n  ")[2]):
            if not option.startswith(("--json", "--help")):
                assert "[default: " in option or "[required]" in option, option


def test_an_unknown_option_is_usage():
    assert CliRunner().invoke(make_app(), ["status", "--jason"]).exit_code == 2


def test_a_table_lines_up():
    assert table([{"a": 1.5, "b": None}, {"a": 12.25, "b": "long"}], ("a", "b")) == (
        "a     b\n1.5   -\n12.2  long"
    )


def test_the_command_line_starts_without_the_heavy_imports():
    code = (
        "import json, sys\nimport flows.cli.app as app\napp.make_app()\n"
        "print(json.dumps(sorted(set(sys.modules) & "
        "{'torch', 'prefect', 'optuna', 'duckdb', 'git', 'rich', 'numpy'})))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert json.loads(ran.stdout) == []
