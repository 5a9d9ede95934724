"""A study: one question as a TOML file. Every mistake is reported with its file, line and key."""

from __future__ import annotations

import copy
import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from rldyno.records.trial_records import MOST_PROCESSORS
from rldyno.study import hyper as study_hyper
from rldyno.study.atari import AtariTable, check_atari
from rldyno.study.division import check_division
from rldyno.study.environments import check_environment
from rldyno.study.placement import Placement, Places, place
from rldyno.study.quick import QUICK
from rldyno.study.scripts import ScriptTable, check_has_table, check_scripts, with_peers, with_scripts
from rldyno.study.seeds import Adaptive, adaptive_part, all_seeds, whole
from rldyno.study.width import fits, too_wide
from rldyno.toml.lines import Location, key_name
from rldyno.toml.models import add_mistakes
from rldyno.toml.source import Source, read, spelled
from rldyno.toml.suggestions import suggest
from rldyno.toolchains.contestants import Catalogue, check_contestant
from rldyno_rig.algorithms import ALGORITHMS

MAX_TRIALS = 10_000
"""As many as the report is measured with (`make bench-report`)."""
FIX = "correct the study; docs/studies.md explains every key"


def _wrapped(value: Any) -> Any:
    if isinstance(value, list | tuple) and len(value) > MAX_TRIALS:
        raise ValueError(f"{len(value):,} values; the limit is {MAX_TRIALS:,}")
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if not values:
        raise ValueError("no value: give at least one")
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            context = {"value": spelled(value), "index": index}
            raise PydanticCustomError("duplicate", "{value} is given twice", context)
        seen.add(value)
    return values


def _contestant(name: str, info: ValidationInfo) -> str:
    check_has_table(name, info.context or {})
    return check_contestant(name, info.context or {})


def _algorithm(name: str) -> str:
    if name not in ALGORITHMS:
        raise ValueError(f"unknown algorithm '{name}'" + suggest(name, ALGORITHMS))
    return name


Item = TypeVar("Item")
Axis = Annotated[tuple[Item, ...], BeforeValidator(_wrapped), AfterValidator(_distinct)]
# Records and tables hold whole numbers of 64 bits; no trial comes near these bounds.
Count = Annotated[int, BeforeValidator(whole), Field(ge=1, le=10**12)]
Processors = Annotated[int, BeforeValidator(whole), Field(ge=1, le=MOST_PROCESSORS)]
Seed = Annotated[int, BeforeValidator(whole), Field(ge=0, lt=2**63)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class StopRule(_Frozen):
    """Stop once the mean return of the last `episodes` episodes reaches `return`."""

    return_: float = Field(alias="return", ge=-1e15, le=1e15)
    episodes: Count = 100
    ends: bool = True
    """False: training goes on, and the threshold is only noted."""


class BudgetTable(_Frozen):
    """A trial ends at whichever comes first."""

    steps: Count | None = None
    episodes: Count | None = None
    wall_s: Annotated[float, Field(gt=0, le=1e9)] | None = None
    stop: StopRule | None = None


class StudyFile(_Frozen):
    """The keys of a study file, `hyper` excepted."""

    title: str = ""
    question: str = ""
    contestants: Axis[Annotated[str, AfterValidator(_contestant)]]
    algorithms: Axis[Annotated[str, AfterValidator(_algorithm)]]
    environments: Axis[Annotated[str, AfterValidator(check_environment)]]
    max_episode_steps: Axis[Count | None] = (None,)
    devices: Axis[Literal["cpu", "cuda"]] = ("cpu",)
    cores: Axis[Processors] = (1,)
    workers: Axis[Processors] = (1,)
    collective: Axis[Literal["native", "horovod", "host"]] | None = None
    """None: `native` where a contestant has it, else `host`."""
    scaling: Axis[Literal["weak", "strong"]] = ("weak",)
    share_gpu: bool = False
    """Workers of one trial may use the same GPU."""
    max_cpus: Processors | None = None
    """Of one trial: crossings of cores and workers that need more are left out."""
    seeds: Annotated[Axis[Seed], BeforeValidator(all_seeds)]
    """All that may be needed."""
    adaptive: Annotated[Adaptive | None, BeforeValidator(adaptive_part)] = Field(
        None, validation_alias="seeds"
    )
    dtype: Literal["float32", "float64", "tf32"] = "float32"
    division: Literal["closed", "open"] = "closed"
    caches: Literal["cold", "warm"] = "cold"
    order_seed: Seed = 0
    tensorboard: bool = False
    """Write TensorBoard event files while trials run."""
    atari: AtariTable = AtariTable()
    """How games such as ALE/Pong-v5 are played."""
    script: dict[str, ScriptTable] = {}
    """How contestants such as `script:train.py` are started."""
    script_sha256: dict[str, str] = {}
    """Their hashes; added when the study is read from its file."""
    budget: BudgetTable


class Override(_Frozen):
    """The values a study gives a hyper-parameter of one algorithm on one environment."""

    algorithm: str
    environment: str
    name: str
    values: tuple[Any, ...]


class Study(StudyFile):
    """A study that can run: all names resolved, nothing contradictory."""

    overrides: tuple[Override, ...]
    placements: tuple[Placement, ...]
    left_out: tuple[str, ...]
    """Crossings that cannot run, each with its reason: `numpy:eager on cuda: it runs on cpu only`."""

    def fits(self, cores: int, workers: int) -> bool:
        """Whether a trial may have so many of them."""
        return fits(cores, workers, self.max_cpus)

    def axes(self, algorithm: str, environment: str) -> study_hyper.Axes:
        """What the study sets for one task, in the order of the fields."""
        return {
            override.name: override.values
            for override in self.overrides
            if (override.algorithm, override.environment) == (algorithm, environment)
        }

    @property
    def content(self) -> dict[str, Any]:
        """What determines the trials: without titles and without what follows from the toolchains."""
        excluded = {"title", "question", "tensorboard", "placements", "left_out"}
        # Older versions did not have these keys: studies without them must keep their hash.
        newer = (
            "adaptive",
            "caches",
            "collective",
            "scaling",
            "share_gpu",
            "max_cpus",
            "atari",
            "script",
            "script_sha256",
        )
        excluded |= {name for name in newer if getattr(self, name) == StudyFile.model_fields[name].default}
        content: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude=excluded)
        if self.script:
            # The interpreter is a place on this machine, as those of toolchains.
            content["script"] = {
                name: {key: value for key, value in table.content.items() if key != "interpreter"}
                for name, table in self.script.items()
            }
        stop = content["budget"]["stop"]
        if stop and stop["ends"]:
            del stop["ends"]
        return content

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.content, sort_keys=True).encode()).hexdigest()


def load_study(path: Path | str, catalogue: Catalogue | None = None) -> Study:
    """Read and check a study file; one Problem lists all its mistakes."""
    return check_study(read(Path(path)), catalogue)


def check_study(source: Source, catalogue: Catalogue | None = None) -> Study:
    """Check the table of a study; one Problem lists all its mistakes."""
    if catalogue is None:
        from rldyno.toolchains.catalogue import catalogue as shipped

        catalogue = shipped()
    table = with_peers(source.table)
    hyper_table = table.pop("hyper", {})
    table.pop(QUICK, None)
    catalogue = with_scripts(catalogue, table)
    file = _validate(source, table, catalogue)
    if file is None:
        study_hyper.read(source, hyper_table, (), ())
        raise source.problem(FIX)
    _check_budget(source, file.budget)
    check_atari(source, file.environments)
    check_scripts(source, file)
    if file.division == "open":
        source.mistake(
            ("division",),
            'the open division is no part of studies: measure it with `rldyno open`; use "closed"',
        )
    if file.dtype == "tf32" and "cpu" in file.devices:
        source.mistake(("dtype",), 'tf32 is a precision of GPUs: give `devices = ["cuda"]`, or float32')
    places = Places(file.devices, file.workers, file.collective, file.scaling)
    placements, left_out = place(source, file.contestants, places, catalogue)
    left_out += too_wide(source, file.cores, file.workers, file.max_cpus)
    tasks = study_hyper.read(source, hyper_table, file.algorithms, file.environments)
    _check_size(source, file, tasks, len(placements))
    if not source.mistakes:
        check_division(source, tasks, file.workers, file.scaling)
    if source.mistakes:
        raise source.problem(FIX)
    overrides = [
        Override(algorithm=algorithm, environment=environment, name=name, values=values)
        for (algorithm, environment), axes in tasks.items()
        for name, values in axes.items()
    ]
    return Study.model_construct(
        **{name: getattr(file, name) for name in StudyFile.model_fields},
        overrides=tuple(overrides),
        placements=tuple(placements),
        left_out=tuple(left_out),
    )


def differences(old: Study, new: Study) -> list[str]:
    """One line for each key that differs, `seeds: 3 → 5`; empty when the hashes agree."""
    before, after = _spelled_out(old), _spelled_out(new)
    return [
        f"{key}: {before.get(key, 'default')} → {after.get(key, 'default')}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]


def _spelled_out(study: Study) -> dict[str, str]:
    content = study.content
    budget, overrides, seeds = content.pop("budget"), content.pop("overrides"), content.pop("seeds")
    adaptive, scripts = content.pop("adaptive", None), content.pop("script", {})
    stop = budget.pop("stop") or {"return": None, "episodes": None}
    counted = seeds == list(range(len(seeds)))
    lines = {key: _spelled(value) for key, value in content.items()}
    lines["seeds"] = str(len(seeds)) if counted else f"[{_spelled(seeds)}]"
    if adaptive:
        lines["seeds"] = "{ " + ", ".join(f"{key} = {value}" for key, value in adaptive.items()) + " }"
    lines |= {f"budget.{key}": _spelled(value) for key, value in budget.items()}
    lines |= {f"budget.stop.{key}": _spelled(value) for key, value in stop.items()}
    for name, table in scripts.items():
        lines |= {key_name(("script", name, key)): _spelled(value) for key, value in table.items()}
    for entry in overrides:
        key = key_name(("hyper", entry["algorithm"], entry["environment"], entry["name"]))
        lines[key] = _spelled(entry["values"])
    return lines


def _spelled(value: Any) -> str:
    if value is None:
        return "none"
    return ", ".join(map(_spelled, value)) if isinstance(value, list) else str(value)


def _validate(source: Source, table: dict[str, Any], catalogue: Catalogue) -> StudyFile | None:
    """The file, or after mistakes its valid part, so that the other checks still run on it.

    None if too little is left.
    """
    try:
        return StudyFile.model_validate(table, context=catalogue)
    except ValidationError as error:
        rejected = error.errors(include_url=False)
    valid = copy.deepcopy(table)
    add_mistakes(source, rejected, StudyFile, "a study", more_keys=("hyper", QUICK))
    for details in sorted(rejected, key=_removal_order, reverse=True):
        _remove(valid, details["loc"])
    try:
        return StudyFile.model_validate(valid, context=catalogue)
    except ValidationError:
        return None


def _removal_order(details: ErrorDetails) -> list[tuple[str, int]]:
    """Items of an array by index: taken in reverse, removing one leaves the others where they are."""
    return [(key, -1) if isinstance(key, str) else ("", key) for key in details["loc"]]


def _remove(table: Any, location: Location) -> None:
    """Drop one entry; an index into a value that was given without brackets drops that value."""
    *parents, last = location
    for key in parents:
        child = table.get(key) if isinstance(table, dict) else table[int(key)]
        if not isinstance(child, dict | list):
            table.pop(key, None)
            return
        table = child
    if isinstance(table, dict):
        table.pop(last, None)
    else:
        del table[int(last)]


def _check_budget(source: Source, budget: BudgetTable) -> None:
    written = source.table.get("budget", {})
    if not any(limit in written for limit in ("steps", "episodes", "wall_s")):
        why = "a stop rule alone may never end a trial" if budget.stop else "a trial would never end"
        source.mistake(("budget",), f"{why}: give steps, episodes or wall_s")
    if budget.stop and budget.episodes and budget.stop.episodes > budget.episodes:
        averaged, played = budget.stop.episodes, budget.episodes
        message = f"{averaged} episodes can never be averaged when budget.episodes is {played}"
        source.mistake(("budget", "stop", "episodes"), message)


def _check_size(
    source: Source, file: StudyFile, tasks: dict[tuple[str, str], study_hyper.Axes], placements: int
) -> None:
    points = sum(math.prod(map(len, axes.values())) for axes in tasks.values())
    trials = points * placements * len(file.max_episode_steps) * len(file.cores) * len(file.seeds)
    if trials > MAX_TRIALS:
        source.mistake((), f"the axes cross to {trials:,} trials; the limit is {MAX_TRIALS:,}")
