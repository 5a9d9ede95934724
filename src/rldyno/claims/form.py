"""The form of a claim, and reading a file of them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from rldyno.claims.metrics import metrics
from rldyno.errors import Problem
from rldyno.results.trial_columns import ATARI
from rldyno.stats.estimates import ENOUGH_RUNS
from rldyno.toml.models import add_mistakes
from rldyno.toml.source import read
from rldyno.toml.suggestions import suggest

Scalar = str | int | float | bool
KEYS = (
    "contestant",
    "framework",
    "mode",
    "execution",
    "algorithm",
    "environment",
    "network",
    "device",
    "cores",
    "workers",
    "collective",
    "scaling",
    "max_episode_steps",
    *(column.name for column in ATARI),
    "dtype",
    "division",
    "caches",
    "system",
    "hardware",
    "machine",
    "suite",
    "game",
    "reason",
    "net",
    "rows",
    "data",
)
HYPER = "hyper."
WORDING = {"too_short": "a claim needs a [[claim.check]]"}
FIX = "correct the file; docs/answers.md explains the form of a claim"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Condition(_Table):
    """What a column may hold: one of `values` (with * for any text), or a range, or anything but `not`."""

    values: tuple[Scalar, ...] = ()
    min: float | None = None
    max: float | None = None
    excluded: tuple[Scalar, ...] = Field(default=(), alias="not")

    def admits(self, value: Any) -> bool:
        if self.values:
            return any(matches(value, wanted) for wanted in self.values)
        if self.excluded:
            return not any(matches(value, unwanted) for unwanted in self.excluded)
        if not isinstance(value, int | float):
            return False
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    @property
    def words(self) -> str:
        if self.values:
            return " or ".join(map(str, self.values))
        if self.excluded:
            return "other than " + " or ".join(map(str, self.excluded))
        ends = [
            f"≥ {self.min:g}" if self.min is not None else "",
            f"≤ {self.max:g}" if self.max is not None else "",
        ]
        return " and ".join(filter(None, ends))


def matches(value: Any, wanted: Scalar) -> bool:
    if isinstance(value, str) and isinstance(wanted, str):
        return fnmatchcase(value, wanted)
    return bool(value == wanted)


def _condition(value: Any) -> Any:
    if isinstance(value, dict):
        excluded = value.get("not")
        return value if excluded is None or isinstance(excluded, list) else {**value, "not": [excluded]}
    return {"values": value if isinstance(value, list) else [value]}


def _flat_keys(table: Any) -> Any:
    """`hyper = { environments = 8 }` and `"hyper.environments" = 8` are the same."""
    if not isinstance(table, dict):
        return table
    hyper = table.get("hyper", {})
    flat = {key: value for key, value in table.items() if key != "hyper"}
    flat |= {f"{HYPER}{name}": value for name, value in hyper.items()} if isinstance(hyper, dict) else {}
    for key in flat:
        if key not in KEYS and not key.startswith(HYPER):
            raise ValueError(f"unknown column '{key}'" + suggest(key, [*KEYS, "hyper"]))
    return flat


def _known_metric(name: Any) -> Any:
    if isinstance(name, str) and name not in metrics():
        raise ValueError(f"unknown metric '{name}'" + suggest(name, metrics()))
    return name


Selector = Annotated[
    dict[str, Annotated[Condition, BeforeValidator(_condition)]], BeforeValidator(_flat_keys)
]
MetricName = Annotated[str, BeforeValidator(_known_metric)]


class Check(_Table):
    """One question to the results. The claim holds where the effect's interval lies within the bounds."""

    kind: Literal["ratio", "value", "share", "trend", "same", "depends", "curve"]
    metric: MetricName = "reached"
    a: Selector = {}
    b: Selector = {}
    where: Selector = {}
    axis: str | None = None
    over: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    equals: float | None = None
    within: Annotated[float, Field(gt=1)] | None = None
    everywhere: bool = False
    """In every setting compared, not only on average over them."""
    represent: Literal["best", "each"] = "best"
    """Which contestants stand for a framework: the best by this metric, or each of them."""
    levels: dict[str, int] = {}
    """Column → different values that must have been compared; of several columns, each with each."""
    from_step: Annotated[int, Field(ge=0)] = 0
    """Of kind `curve`: where runs begin to follow an external curve."""
    seeds: Annotated[int, Field(ge=2)] = ENOUGH_RUNS
    """Runs of a contestant below which nothing is decided."""
    needs: str | None = None
    """What no results directory holds: the check stays undecided."""
    reading: str = ""
    """Another reading of the statement: it is judged and shown, but does not decide the claim."""

    @model_validator(mode="after")
    def _complete(self) -> Check:
        if self.kind == "ratio" and not (self.a and self.b):
            raise ValueError("a ratio needs both `a` and `b`")
        if self.kind in ("trend", "same", "depends") and self.axis is None:
            raise ValueError(f"kind '{self.kind}' needs an `axis`")
        if self.axis is not None and self.axis not in KEYS and not self.axis.startswith(HYPER):
            raise ValueError(f"unknown column '{self.axis}'" + suggest(self.axis, [*KEYS, "hyper"]))
        if self.kind == "depends" and self.over is None:
            raise ValueError("kind 'depends' needs `over`: the column that the best one changes with")
        if (self.equals is not None) != (self.within is not None) and self.kind != "same":
            raise ValueError("`equals` and `within` (a factor) go together")
        if self.kind not in ("depends", "same") and self.bounds == (None, None):
            raise ValueError("give at_least, at_most, or equals with within")
        if self.kind == "same" and self.within is None:
            raise ValueError("kind 'same' needs `within`: the factor that still counts as the same")
        return self

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Where the effect must lie; None is no bound."""
        if self.within is not None:
            centre = 1.0 if self.equals is None else self.equals
            return centre / self.within, centre * self.within
        return self.at_least, self.at_most


class Claim(_Table):
    id: str
    statement: str
    source: str = ""
    """Where it was made."""
    section: str = ""
    """Where in the source."""
    note: str = ""
    """How the statement was read, where it leaves room."""
    contradiction: str = ""
    """What the source says elsewhere, where that does not agree."""
    check: Annotated[tuple[Check, ...], Field(min_length=1)]
    """All must hold, other readings excepted."""

    @model_validator(mode="after")
    def _decidable(self) -> Claim:
        if all(check.reading for check in self.check):
            raise ValueError("a claim needs a check without `reading`, which decides it")
        return self


def load_claims(path: Path) -> tuple[Claim, ...]:
    """The claims of a file; one Problem lists all its mistakes."""
    source = read(path)
    claims: list[Claim] = []
    for key in source.table:
        if key != "claim":
            source.mistake((key,), "unknown key: a file of claims holds [[claim]] tables only")
    entries = source.table.get("claim", [])
    if not isinstance(entries, list) or not entries:
        source.mistake((), "no [[claim]] in it")
        entries = []
    for index, entry in enumerate(entries):
        try:
            claims.append(Claim.model_validate(entry))
        except ValidationError as error:
            rejected = error.errors(include_url=False)
            # A rejected check also leaves too few of them, which says nothing new.
            new = [details for details in rejected if details["type"] != "too_short"] or rejected
            add_mistakes(source, new, Claim, "a claim", inside=("claim", index), wording=WORDING)
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        if claim.id in seen:
            source.mistake(("claim", index, "id"), f"'{claim.id}' is given twice")
        seen.add(claim.id)
    if source.mistakes:
        raise source.problem(FIX)
    return tuple(claims)


def shipped_claims() -> tuple[Claim, ...]:
    """Those of the four papers, in their order."""
    files = sorted(
        (file for file in resources.files(__package__).iterdir() if file.name.endswith(".toml")),
        key=lambda file: ORDER.index(file.name),
    )
    with_paths: Sequence[Path] = [Path(str(file)) for file in files]
    return tuple(claim for path in with_paths for claim in load_claims(path))


def of_sources(claims: Sequence[Claim], sources: Sequence[str]) -> tuple[Claim, ...]:
    known = list(dict.fromkeys(claim.source for claim in claims if claim.source))
    for name in sources:
        if name not in known:
            raise Problem(f"no claim has the source `{name}`{suggest(name, known)}")
    return tuple(claim for claim in claims if claim.source in sources)


ORDER = ("liu2022.toml", "seong2024.toml", "stooke2017.toml", "lizarralde2019.toml")
