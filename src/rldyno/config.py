"""The user's own settings: one optional TOML file, checked key by key."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, field_validator

from rldyno.errors import Problem
from rldyno.toml import models

CONFIG_VARIABLE = "RLDYNO_CONFIG"
CACHE_VARIABLE = "RLDYNO_CACHE_DIR"


class Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    toolchains: dict[str, Path] = {}
    """Framework → a Python interpreter to use instead of a built toolchain."""
    pip_args: tuple[str, ...] = ()
    """Added to every `pip install` of a toolchain."""
    toolchain_dirs: tuple[Path, ...] = ()
    """Directories with toolchain files of the user's own."""
    variant: Literal["cpu", "cuda"] | None = None
    """Overrides the variant the machine would choose."""

    @field_validator("toolchains")
    @classmethod
    def _absolute(cls, paths: dict[str, Path]) -> dict[str, Path]:
        return {name: interpreter_path(str(path)) for name, path in paths.items()}

    @field_validator("toolchain_dirs")
    @classmethod
    def _absolute_dirs(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(path.expanduser().absolute() for path in paths)


def interpreter_path(text: str) -> Path:
    """A bare name such as `python3` as the shell finds it on PATH; anything else is a path.

    Links are kept: the link of a virtual environment's python is what makes it that environment's.
    """
    path = Path(text).expanduser()
    if path.name == text and not path.exists():
        found = shutil.which(text)
        if found is None:
            raise ValueError(f"no program called `{text}` is on PATH")
        path = Path(found)
    return path.absolute()


def config_path() -> Path:
    given = os.environ.get(CONFIG_VARIABLE)
    if given:
        return Path(given)
    import platformdirs

    return platformdirs.user_config_path("rldyno") / "config.toml"


def cache_dir() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return platformdirs.user_cache_path("rldyno")


def load_config() -> Config:
    """The user's settings; the defaults without a file. A file named by RLDYNO_CONFIG must exist."""
    path = config_path()
    if not path.exists():
        if os.environ.get(CONFIG_VARIABLE):
            raise Problem(
                f"{CONFIG_VARIABLE} names {path}, which does not exist",
                fix=f"create it, or unset {CONFIG_VARIABLE}",
            )
        return Config()
    return models.load(Config, path, "the config file")
