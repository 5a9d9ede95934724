"""The registry of columns: every figure of the result table, described once.

The table, answers, claims, advice, charts and the export's README select from it by name. A new figure is one
`Column` in `trial_columns.py`, `use_columns.py`, `team_columns.py` or `condition_columns.py`, or in
`rldyno.probe.metrics` for a sampled metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from rldyno.columns import Column
from rldyno.probe import metrics
from rldyno.results.condition_columns import CONDITIONS, DEVICE, NOISE, VERDICTS
from rldyno.results.team_columns import TEAM
from rldyno.results.trial_columns import AGAINST_LIMITS, ENDING, LEARNING, SETTINGS, TRAINING
from rldyno.results.use_columns import USE

MACHINE_SHARE = "% of the machine · s"
INTEGRALS = (
    Column(
        "return_integral",
        float,
        "sum of the returns of all episodes",
        title="Integral of return",
        unit="return · episodes",
    ),
    Column(
        "cpu_integral",
        float,
        "CPU percent of the whole machine, integrated over the seconds of the run",
        title="Integral of CPU use",
        unit=MACHINE_SHARE,
    ),
    Column(
        "memory_integral",
        float,
        "memory percent of the whole machine, integrated over the seconds of the run",
        title="Integral of memory use",
        unit=MACHINE_SHARE,
    ),
    Column(
        "cpu_per_step",
        float,
        "cpu_integral / environment steps",
        title="CPU use per step",
        unit=f"{MACHINE_SHARE} / step",
    ),
    Column(
        "memory_per_step",
        float,
        "memory_integral / environment steps",
        title="Memory use per step",
        unit=f"{MACHINE_SHARE} / step",
    ),
)
"""Of whole runs, as liu2022 draws them. They need a trial's series and so have a table of their own."""

COMPARED = (
    Column(
        "expected_threshold_s",
        float,
        "what the steps to the threshold, as many as all contestants of the comparison need, cost this run; "
        "start-up included",
        title="Expected time to threshold",
        unit="s",
        better="lower",
        aliases=("expected",),
    ),
    Column(
        "area_by_steps",
        float,
        "area under the learning curve over the steps of the longest run of the comparison, divided by them",
        title="Area under the learning curve, by steps",
        better="higher",
    ),
    Column(
        "area_by_time",
        float,
        "area under the learning curve over the seconds of the longest run of the comparison, start-up "
        "included, divided by them",
        title="Area under the learning curve, by time",
        better="higher",
    ),
)
"""Of runs within their comparison: they depend on the other contestants, so no table of trials has them."""

_columns: dict[str, Column] = {
    column.name: column
    for group in (
        SETTINGS,
        ENDING,
        TRAINING,
        AGAINST_LIMITS,
        USE,
        TEAM,
        LEARNING,
        CONDITIONS,
        metrics.columns(),
        NOISE,
        DEVICE,
        VERDICTS,
    )
    for column in group
}
_others = {column.name: column for column in (*INTEGRALS, *COMPARED)}

COLUMNS: Mapping[str, Column] = MappingProxyType(_columns)
"""Name → column of the table of trials, in its order."""


def column(name: str) -> Column:
    """A column of trials, integrals or comparisons, by its own name; KeyError if there is none."""
    return _columns[name] if name in _columns else _others[name]


def by_any_name(columns: Iterable[Column]) -> dict[str, Column]:
    """Names that people may write → column. An alias comes before a column's own name."""
    chosen = list(columns)
    names = {item.name: item for item in chosen}
    return names | {alias: item for item in chosen for alias in item.aliases}


def figures() -> list[Column]:
    """What one run measures: columns of numbers that are no settings."""
    settings = {item.name for item in SETTINGS}
    return [item for item in _columns.values() if item.numeric and item.name not in settings]


def goals() -> list[Column]:
    """Figures of which one direction is better."""
    return [item for item in figures() if item.better is not None]


@contextmanager
def register(*extra: Column) -> Iterator[None]:
    """More columns for the time of a `with` block: how a plug-in or a test adds a figure."""
    known = [item.name for item in extra if item.name in _columns]
    if known:
        raise ValueError(f"columns registered already: {', '.join(known)}")
    _columns.update({item.name: item for item in extra})
    try:
        yield
    finally:
        for item in extra:
            del _columns[item.name]
