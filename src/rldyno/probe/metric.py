"""What a sampled metric is: how it is read, and which figures of outcome.json are made from its readings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from rldyno.columns import Column
from rldyno.probe.track import Span

if TYPE_CHECKING:
    from rldyno.probe.track import Track
    from rldyno.probe.tree import Machine, TaskUsage, Tree

Value = int | float | None
Answer = tuple[Any, str | None]
"""(value, the reason where it is None)."""
Rate = Literal["sample", "second", "rare"]
"""With every sample, once a second, or every two seconds and less often where a reading is expensive."""

TOO_SHORT = "training was too short for two readings, which are a second apart"


class UnreadableError(Exception):
    """A metric cannot be read on this machine; its text is the reason in outcome.json."""


class Moment(NamedTuple):
    """What a metric that is read once a second or less often can use."""

    time_ns: int
    """Since the worker was spawned."""
    tree: Tree
    tasks: TaskUsage
    machine: Machine
    machine_cpu_percent: float | None
    """Since the previous moment."""


class Readings(Protocol):
    """What was read in a trial. Figures are computed from it."""

    @property
    def span(self) -> Span:
        """The training, without start-up."""

    def track(self, metric: str) -> Track: ...

    def why(self, metric: str) -> str:
        """The reason where the metric has no reading."""
        ...


R = TypeVar("R", bound=Readings)

# eq=False, here and in the metrics: a trial process starts faster without methods that nobody calls.


@dataclass(frozen=True, eq=False)
class Figure(Generic[R]):
    """One value of outcome.json. `column.source` is its section (cpu, machine, …) and its key."""

    column: Column
    compute: Callable[[R, str], Answer]
    """(what was read, name of the metric) → the value, and the reason where there is none."""
    in_table: bool = True
    """Whether it is a column of the result table as well."""

    def answer(self, readings: R, metric: str) -> Answer:
        value, reason = self.compute(readings, metric)
        return (round(value) if self.column.kind is int and value is not None else value), reason


@dataclass(frozen=True, eq=False)
class Metric(Generic[R]):
    """A column of samples.csv, and the figures made from it."""

    name: str
    kind: type[int] | type[float]
    meaning: str
    figures: tuple[Figure[R], ...] = ()
    rate: Rate = "second"
    read: Callable[[Moment], Value] | None = None
    """None: the reading of the process tree, of the GPUs or of the energy counters fills the column."""
    missing: str = TOO_SHORT
    """The reason in outcome.json where there is no reading and `read` gave no reason."""


def settled(span: Span) -> Span:
    """Readings that describe the second before them belong to the training from its second second on."""
    return span if span.end_ns is None else Span(span.start_ns + 1_000_000_000, span.end_ns)


def mean(readings: Readings, metric: str) -> Answer:
    """Over the training, of readings that each describe the second before them."""
    return readings.track(metric).mean(settled(readings.span)), readings.why(metric)


def peak(readings: Readings, metric: str) -> Answer:
    """Over the training, of readings that each describe the second before them."""
    return readings.track(metric).highest(settled(readings.span)), readings.why(metric)


def peak_of_trial(readings: Readings, metric: str) -> Answer:
    return readings.track(metric).highest(), readings.why(metric)


def mean_reading(readings: Readings, metric: str) -> Answer:
    """Over the training, of readings that describe a moment."""
    return readings.track(metric).mean(readings.span), readings.why(metric)


def lowest_reading(readings: Readings, metric: str) -> Answer:
    """Over the training, of readings that describe a moment."""
    return readings.track(metric).lowest(readings.span), readings.why(metric)


def rise(readings: Readings, metric: str) -> Answer:
    """How much a counter rose in the training."""
    track, span = readings.track(metric), readings.span
    first, last = track.lowest(span), track.highest(span)
    return (None if first is None or last is None else last - first), readings.why(metric)
