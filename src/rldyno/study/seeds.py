"""The seeds of a study: a fixed number, a list, or as many as the ranking needs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from rldyno.errors import Problem
from rldyno.toml.write import with_value

MAX_SEEDS = 10_000


def whole(value: Any) -> Any:
    """1e6 is a float in TOML, but means a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Seeds = Annotated[int, BeforeValidator(whole), Field(ge=2, le=MAX_SEEDS)]


class Adaptive(BaseModel):
    """`seeds = { min = 5, max = 30, until = "resolved" }`: all contestants get `min` seeds. Contestants of
    comparisons that are still open get more, up to `max`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    min: Seeds = 5
    max: Seeds
    until: Literal["resolved", "winner"] = "resolved"
    """`resolved`: every two neighbours in the ranking; `winner`: each contestant against the first."""
    within: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """Contestants whose ratio is shown to be below 1 + this are equal."""

    @field_validator("max")
    @classmethod
    def _not_below_min(cls, most: int, info: ValidationInfo) -> int:
        fewest = info.data.get("min")
        if fewest is not None and most < fewest:
            raise ValueError(f"must be at least min, {fewest}, not {most}")
        return most


def all_seeds(value: Any) -> Any:
    """N seeds are 0 … N − 1; adaptive ones all that may be needed."""
    if isinstance(value, dict):
        most = whole(value.get("max"))
        # Adaptive reports a mistake in the table; it must not be reported twice.
        value = most if isinstance(most, int) and 1 <= most <= MAX_SEEDS else 1
    value = whole(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if not 1 <= value <= MAX_SEEDS:
        raise ValueError(f"must be between 1 and {MAX_SEEDS} seeds, not {value}")
    return list(range(value))


def adaptive_part(value: Any) -> Any:
    return value if isinstance(value, dict) else None


def with_seeds(text: str, table: dict[str, Any], option: str) -> str:
    """The text of a study with the seeds of `--seeds`: `10`, or `5..30` for adaptive ones.

    `until` and `within` of adaptive seeds stay as the study has them.
    """
    found = re.fullmatch(r"(\d+)(?:\.\.(\d+))?", option.strip())
    if not found:
        raise Problem(
            f"--seeds {option}: not a number of seeds",
            fix="write --seeds 10, or --seeds 5..30 to add seeds where comparisons are open",
        )
    fewest, most = int(found[1]), found[2]
    if most is None:
        return with_value(text, "seeds", fewest)
    given = table.get("seeds")
    rule = given if isinstance(given, dict) else {"until": "resolved"}
    return with_value(text, "seeds", {**rule, "min": fewest, "max": int(most)})
