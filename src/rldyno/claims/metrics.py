"""What a claim can be about: any figure of the result table, integrals, and a few that only claims have."""

from __future__ import annotations

from typing import Any

from rldyno.columns import Column
from rldyno.results.columns import INTEGRALS, by_any_name, figures
from rldyno_rig.envs.atari_games import atari_game

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
_NEEDS_BOARD = (
    "needs TensorBoard's cost: rldyno usability torch tensorflow --part visualisation -o DIR/usability.json"
)
LOGGED = Column(
    "logged_slowdown",
    float,
    "time of an update whose loss is written to an event file / of one that writes nothing",
    title="Update that is written to an event file",
    unit="×",
    better="lower",
    needs=_NEEDS_BOARD,
)
WATCHED = Column(
    "watched_slowdown",
    float,
    "time of an update while TensorBoard shows its event file / while nobody watches",
    title="Update that is watched in TensorBoard",
    unit="×",
    better="lower",
    needs=_NEEDS_BOARD,
)


def metrics() -> dict[str, Column]:
    """Name in a claim → figure."""
    return by_any_name([*figures(), *INTEGRALS, GROWTH, ACT_RATE, LOGGED, WATCHED])


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
