"""The user's own settings: one optional TOML file, checked key by key."""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from rldyno.errors import Problem

CONFIG_VARIABLE = "RLDYNO_CONFIG"
CACHE_VARIABLE = "RLDYNO_CACHE_DIR"

Model = TypeVar("Model", bound=BaseModel)


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
        return {name: path.expanduser().absolute() for name, path in paths.items()}

    @field_validator("toolchain_dirs")
    @classmethod
    def _absolute_dirs(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(path.expanduser().absolute() for path in paths)


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
    return validated(Config, path)


def validated(model: type[Model], path: Path) -> Model:
    """The TOML file as an instance of `model`; whatever is wrong with it becomes one Problem."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Problem(f"cannot read {path}: {error.strerror}", fix="check its permissions") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem(f"{path} is not valid TOML: {error}", fix="correct the file") from error
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [_sentence(problem, model) for problem in error.errors()]
        raise Problem(
            f"{path}: {problems[0]}",
            detail="\n".join(problems[1:]) or None,
            fix="correct the file",
        ) from error


def _sentence(error: Any, model: type[BaseModel]) -> str:
    *_, last = where = [str(part) for part in error["loc"]] or [""]
    if error["type"] == "extra_forbidden":
        known = list(model.model_fields) if len(where) == 1 else []
        close = difflib.get_close_matches(last, known, n=1)
        hint = f", did you mean `{close[0]}`?" if close else ""
        return f"unknown key `{'.'.join(where)}`{hint}"
    if error["type"] == "missing":
        return f"`{'.'.join(where)}` is missing"
    message = error["msg"].removeprefix("Value error, ")
    return f"`{'.'.join(where)}`: {message}" if where != [""] else message
