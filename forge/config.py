"""Settings and paths: the one module that reads or writes this process's environment.

Settings come from four places, the first that names one wins: flags, the environment
(``FORGE_HOME`` and ``FORGE_CONFIG``, nothing else), ``forge.toml``, the defaults below.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from forge.errors import UsageError
from forge.judge.layers import LayerName

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

HOME_VARIABLE = "FORGE_HOME"
FILE_VARIABLE = "FORGE_CONFIG"
DEFAULT_HOME = ".forge"


class Settings(BaseModel):
    """What ``forge.toml`` may say, with its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    minutes: float = Field(default=8.0, gt=0, le=24 * 60)
    """Length of a night."""
    tasks: tuple[str, ...] = Field(default=(), strict=False)
    """Tasks that a night works on; none named means all of them."""
    target: str = Field(default="cpu", min_length=1)
    """Target that kernels are made for, an id or an alias."""
    student: str = Field(default="sweep", min_length=1)
    """Who proposes candidates."""
    seed: int = Field(default=0, ge=0)
    """Seed of the student's sampler; never that of the judge's draws."""
    proposals: int = Field(default=3, ge=1, le=100)
    """Candidates that a student is asked for in one round."""
    drain_s: float = Field(default=20.0, ge=0)
    """Seconds at the end of a night that are kept for finishing what was started."""
    may_lack: tuple[LayerName, ...] = Field(default=(), strict=False)
    """Sandbox layers that an unattended night does without on this host; none unless named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Where a running service keeps what it owns. Paths only: nothing here opens them.

    Attributes:
        home: The workspace's folder, absolute.
    """

    home: Path

    @property
    def baselines_git(self) -> Path:
        """The git store of sealed baselines."""
        return self.home / "baselines.git"

    @property
    def ledger_db(self) -> Path:
        """The ledger's DuckDB file."""
        return self.home / "ledger.duckdb"

    @property
    def evidence_dir(self) -> Path:
        """Content-addressed blobs of raw samples."""
        return self.home / "evidence"

    @property
    def cache_dir(self) -> Path:
        """What can be made again: built kernels."""
        return self.home / "cache"

    @property
    def tasks_dir(self) -> Path:
        """The user's own tasks."""
        return self.home / "tasks"

    @property
    def prefect_home(self) -> Path:
        """A local night's own ``PREFECT_HOME``."""
        return self.home / "prefect"

    @property
    def lock(self) -> Path:
        """Held by whoever measures on this machine for this workspace."""
        return self.home / "night.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, merged once and passed down.

    Attributes:
        home: The workspace's folder, absolute.
        settings: The merged settings.
        origins: Where each value came from, by setting, ``"home"`` included: ``"flag"``,
            ``"default"``, the name of a variable or the path of a file.
    """

    home: Path
    settings: Settings
    origins: Mapping[str, str]

    @property
    def workspace(self) -> Workspace:
        """The workspace's paths."""
        return Workspace(home=self.home)

    def rows(self) -> list[dict[str, object]]:
        """Return every setting with its value and origin, for ``forge config show``."""
        values = {"home": str(self.home), **self.settings.model_dump(mode="json")}
        return [
            {"setting": name, "value": value, "origin": self.origins[name]}
            for name, value in values.items()
        ]


def load_config(
    flags: Mapping[str, Any], cwd: Path, environ: Mapping[str, str] | None = None
) -> Config:
    """Merge flags, environment, ``forge.toml`` and defaults.

    Args:
        flags: What was typed, by setting; ``None`` means not typed.
        cwd: Folder that relative paths start from.
        environ: The environment; this process's if not given.

    Raises:
        UsageError: A value or a key is not acceptable, or a file that was named is not there.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one module
    typed = {name: value for name, value in flags.items() if value is not None}
    home, home_origin = _home(typed.pop("home", None), cwd, environ)
    file, is_named = home / "forge.toml", False
    if environ.get(FILE_VARIABLE):
        file, is_named = cwd / environ[FILE_VARIABLE], True
    written = _read_file(file, is_named=is_named)
    origins = dict.fromkeys(Settings.model_fields, "default")
    origins |= dict.fromkeys(written, str(file)) | dict.fromkeys(typed, "flag")
    settings = _validated({**written, **typed}, origins)
    return Config(home=home, settings=settings, origins={"home": home_origin, **origins})


def replace_variables(
    prefix: str, values: Mapping[str, str], environ: MutableMapping[str, str] | None = None
) -> None:
    """Remove every variable that starts with ``prefix`` from the environment, then set ``values``.

    The comparison ignores case, as the readers of such variables do.
    """
    environ = os.environ if environ is None else environ  # noqa: TID251 - the one module
    for name in [name for name in environ if name.upper().startswith(prefix)]:
        del environ[name]
    environ.update(values)


def child_variables(values: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of this process's environment with ``values`` set, for a child process."""
    return {**os.environ, **values}  # noqa: TID251 - the one module


def _home(typed: str | Path | None, cwd: Path, environ: Mapping[str, str]) -> tuple[Path, str]:
    if typed is not None:
        return (cwd / Path(typed)).absolute(), "flag"
    if environ.get(HOME_VARIABLE):
        return (cwd / Path(environ[HOME_VARIABLE]).expanduser()).absolute(), HOME_VARIABLE
    return (cwd / DEFAULT_HOME).absolute(), "default"


def _read_file(file: Path, *, is_named: bool) -> dict[str, Any]:
    """Return what ``forge.toml`` says; nothing if there is none and nobody named it."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        if is_named:
            raise UsageError(f"{FILE_VARIABLE} names {file}, and there is no such file.") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}.") from error
    try:
        written = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}.") from error
    unknown = sorted(set(written) - set(Settings.model_fields))
    if unknown:
        known = ", ".join(sorted(Settings.model_fields))
        raise UsageError(f"{file} has an unknown key {unknown[0]!r}; known: {known}.")
    return written


def _validated(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        said = first["msg"][0].lower() + first["msg"][1:]
        raise UsageError(
            f"{name} = {first['input']!r} ({origins[name]}) is not acceptable: {said}."
        ) from error
