"""The user's own settings: one optional TOML file, checked key by key."""

from __future__ import annotations

import datetime as dt
import operator
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from rldyno.errors import Problem
from rldyno.toml import models

CONFIG_VARIABLE = "RLDYNO_CONFIG"
CACHE_VARIABLE = "RLDYNO_CACHE_DIR"


Line = Annotated[str, StringConstraints(pattern=r"^[^\r\n]+$")]
"""A text that cannot begin a line of its own in a batch script."""
_TIME = re.compile(r"(?:([0-9]{1,9})-)?([0-9]{1,9})(?::([0-9]{1,9}))?(?::([0-9]{1,9}))?")
Positive = Annotated[int, Field(ge=1, le=10**9)]
MOST_S = 10**7
"""Four months: of a time to wait."""


class SlurmSettings(BaseModel):
    """How `rldyno run --launcher slurm` asks for nodes. What is empty is left to the cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    partition: Line | None = None
    account: Line | None = None
    qos: Line | None = None
    warn_s: Positive = 60
    """A trial gets a signal so many seconds before its time limit, and ends with its records."""
    time: Line | None = None
    """Limit for one trial, as sbatch takes it: `02:00:00`."""
    constraint: Line | None = None
    """Features that the nodes must have: nodes of one kind make trials comparable."""
    modules: tuple[Line, ...] = ()
    """Loaded with `module load` before a trial."""
    setup: tuple[Line, ...] = ()
    """Shell lines before a trial, after the modules."""
    lines: tuple[Line, ...] = ()
    """More options of sbatch, one each: `--mem=8G`."""
    last_lines: tuple[Line, ...] = ()
    """The same for the last job, which has no GPU: `--partition=cpu` where a partition refuses such jobs."""
    exclusive: bool = False
    """Whether a trial has its nodes for itself."""
    probe_cpu: bool = True
    """Ask for one CPU more than the worker needs, so that the probe never disturbs it."""
    gpu: Line = "gpu"
    """What `--gres` asks for where a trial runs on a GPU: `gpu:a100`."""
    workers_per_node: Positive | None = None
    """Workers of one trial on one node; the others run on further nodes. By default all run on one."""
    throttle: Positive | None = None
    """Trials of one array that run at the same time; --jobs overrides it."""
    array_size: Positive = 1000
    """Trials in one array; the cluster's MaxArraySize is above this."""
    attempts: Positive = 3
    """Jobs that a trial gets when it is lost: cancelled, or its node failed."""
    lost_after_s: Annotated[float, Field(ge=0.0, le=MOST_S)] = 30.0
    """A job that left the queue is lost when no outcome is seen for so long: shared disks show files late."""
    poll_s: Annotated[float, Field(gt=0.0, le=MOST_S)] = 5.0
    """How often the queue is read."""

    @field_validator("time", mode="before")
    @classmethod
    def _without_quotes(cls, value: object) -> object:
        """`time = 02:00:00` is a time of the day to TOML, `time = 90` a number: minutes, to sbatch."""
        is_minutes = isinstance(value, int) and not isinstance(value, bool)
        return str(value) if is_minutes or isinstance(value, dt.time) else value

    @field_validator("time")
    @classmethod
    def _leaves_time(cls, value: str | None, checked: ValidationInfo) -> str | None:
        warn_s, limit_s = checked.data.get("warn_s"), None if value is None else seconds_of(value)
        if warn_s is not None and limit_s is not None and limit_s <= warn_s:
            raise ValueError(f"{value} is over when trials are warned, warn_s = {warn_s} seconds ahead of it")
        return value


def seconds_of(limit: str) -> int | None:
    """Of a time as sbatch takes it, `days-hours:minutes:seconds` or a part of that; None for other words."""
    found = _TIME.fullmatch(limit)
    if found is None:
        return None
    days, *parts = found.groups()
    given = [int(part) for part in parts if part is not None]
    # A lone number is minutes, after days it is hours.
    units = (60, 1) if days is None and len(given) < 3 else (3600, 60, 1)
    counted: int = sum(map(operator.mul, given, units))
    return 86_400 * int(days or 0) + counted


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
    slurm: SlurmSettings = SlurmSettings()
    """For `rldyno run --launcher slurm`."""

    @field_validator("toolchains")
    @classmethod
    def _absolute(cls, paths: dict[str, Path]) -> dict[str, Path]:
        return {name: interpreter_path(str(path)) for name, path in paths.items()}

    @field_validator("toolchain_dirs")
    @classmethod
    def _absolute_dirs(cls, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(path.expanduser().absolute() for path in paths)


def with_changes(settings: SlurmSettings, changes: Iterable[str]) -> SlurmSettings:
    """With what `--slurm KEY=VALUE` says; a key that takes several values may be given several times."""
    values, several = settings.model_dump(), ("modules", "setup", "lines", "last_lines")
    given: dict[str, list[str]] = {}
    for change in changes:
        key, sign, value = change.partition("=")
        if not sign or key not in SlurmSettings.model_fields:
            known = ", ".join(SlurmSettings.model_fields)
            raise Problem(f"--slurm {change}: it takes KEY=VALUE", fix=f"the keys are {known}")
        given.setdefault(key, []).append(value)
    values |= {key: tuple(found) if key in several else found[-1] for key, found in given.items()}
    try:
        return SlurmSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = str(first["loc"][0])
        why = first["msg"].removeprefix("Value error, ")
        value = given[key][-1] if key in given else values[key]
        raise Problem(f"--slurm {key}={value}: {why}", fix="correct the value") from None


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
