"""What a claim can be about: any figure of the result table, and two that only claims compute."""

from __future__ import annotations

from typing import Any

from rldyno.columns import Column
from rldyno.results.columns import by_any_name, figures

GROWTH = Column(
    "memory_growth",
    float,
    "mean resident set in the last quarter of training / in its second quarter",
    title="Memory late in training over memory early in it",
    unit="×",
    better="lower",
)
"""Read from a run's samples: it has no column in the result table."""
ACT_RATE = Column(
    "acts_per_s",
    float,
    "calls of `act` per second of a network timed alone",
    title="Inference calls per second",
    unit="1/s",
    better="higher",
    aliases=("act_rate",),
    needs="needs networks timed alone: rldyno nets -o DIR",
)


def metrics() -> dict[str, Column]:
    """Name in a claim → figure."""
    return by_any_name([*figures(), GROWTH, ACT_RATE])


def metric(name: str) -> Column:
    return metrics()[name]


def execution_of(mode: str) -> str:
    return "eager" if mode == "eager" else "lazy"


def row_columns(row: dict[str, Any]) -> dict[str, Any]:
    """What a mode does follows from its name."""
    return {"execution": execution_of(row["mode"])}
