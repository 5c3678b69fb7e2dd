from pathlib import Path

import pytest

from forge.config import load_config, replace_variables
from forge.errors import UsageError


def write(folder, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "forge.toml").write_text(text)


def test_defaults(tmp_path):
    config = load_config({}, tmp_path, {})
    assert config.home == tmp_path / ".forge"
    assert config.settings.minutes == 8
    assert set(config.origins.values()) == {"default"}
    assert config.workspace.ledger_db == tmp_path / ".forge" / "ledger.duckdb"


def test_flags_beat_the_file_and_the_file_beats_the_defaults(tmp_path):
    write(tmp_path / ".forge", 'minutes = 3\nseed = 7\ntasks = ["softmax"]\n')
    config = load_config({"minutes": 2.0, "student": None}, tmp_path, {})
    assert (config.settings.minutes, config.settings.seed) == (2.0, 7)
    assert config.settings.tasks == ("softmax",)
    assert config.origins["minutes"] == "flag"
    assert config.origins["seed"] == str(tmp_path / ".forge" / "forge.toml")
    assert config.origins["student"] == "default"


def test_the_environment_names_home_and_file(tmp_path):
    write(tmp_path / "elsewhere", "seed = 5\n")
    environ = {"FORGE_HOME": "mine", "FORGE_CONFIG": "elsewhere/forge.toml"}
    config = load_config({}, tmp_path, environ)
    assert config.home == tmp_path / "mine"
    assert config.settings.seed == 5
    assert config.origins["home"] == "FORGE_HOME"


def test_a_flag_beats_the_environment(tmp_path):
    config = load_config({"home": "typed"}, tmp_path, {"FORGE_HOME": "mine"})
    assert config.home == tmp_path / "typed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("minutes = \n", "not valid TOML.*line 1"),
        ("minute = 3\n", "unknown key 'minute'; known: .*minutes"),
        ("minutes = -3\n", r"minutes = -3 \(.*forge.toml\) is not acceptable: .*greater than 0"),
        ('minutes = "3"\n', r"minutes = '3' .*valid number"),
        ("tasks = [3]\n", r"tasks\b.*string"),
    ],
)
def test_a_bad_file_is_one_sentence_with_the_place(tmp_path, text, message):
    write(tmp_path / ".forge", text)
    with pytest.raises(UsageError, match=message) as caught:
        load_config({}, tmp_path, {})
    assert "\n" not in str(caught.value)


def test_a_named_file_must_exist(tmp_path):
    with pytest.raises(UsageError, match=r"FORGE_CONFIG names .*gone.toml"):
        load_config({}, tmp_path, {"FORGE_CONFIG": "gone.toml"})


def test_rows_name_every_setting_once(tmp_path):
    rows = load_config({}, tmp_path, {}).rows()
    names = [row["setting"] for row in rows]
    assert names[0] == "home"
    assert len(names) == len(set(names))
    assert all(row["origin"] for row in rows)


def test_inherited_variables_are_scrubbed_whatever_their_case():
    environ = {"PREFECT_API_URL": "x", "prefect_profile": "cloud", "PATH": "/bin"}
    replace_variables("PREFECT_", {"PREFECT_HOME": "/h"}, environ)
    assert environ == {"PATH": "/bin", "PREFECT_HOME": "/h"}


def test_paths_lie_in_the_workspace(tmp_path):
    paths = load_config({}, Path(tmp_path), {}).workspace
    names = ("baselines_git", "evidence_dir", "cache_dir", "tasks_dir", "prefect_home", "lock")
    for name in names:
        assert getattr(paths, name).parent == paths.home
