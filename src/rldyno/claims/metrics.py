"""What a claim can be about: any figure of the result table, integrals, and two that only claims compute."""

from __future__ import annotations

from typing import Any

from rldyno.claims.atari import atari_game
from rldyno.columns import Column
from rldyno.results.columns import INTEGRALS, by_any_name, figures

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
    return by_any_name([*figures(), *INTEGRALS, GROWTH, ACT_RATE])


def metric(name: str) -> Column:
    return metrics()[name]


def of_series(figure: Column) -> bool:
    """Whether it is computed from a run's series: the result table does not have it."""
    return figure is GROWTH or figure in INTEGRALS


def execution_of(mode: str) -> str:
    return "eager" if mode == "eager" else "lazy"


def row_columns(row: dict[str, Any]) -> dict[str, Any]:
    """What follows from the names of a mode and an environment."""
    game = atari_game(row["environment"])
    return {"execution": execution_of(row["mode"]), "suite": "atari" if game else "other", "game": game}
