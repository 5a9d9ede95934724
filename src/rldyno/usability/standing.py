"""Advice by usability: where each framework stands on each topic, and who is best on how many.

One figure stands for a topic. Topics are counted, never added up or weighted. Times of one machine differ by
chance: those within a tenth of the best are ties, as are equal counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rldyno.text.tables import Table
from rldyno.usability.cells import NOT_MEASURED, Records, figure, whole
from rldyno.usability.compatibility import RUNS
from rldyno.usability.record import Part, UsabilityRecord
from rldyno.usability.rounds import BUSY

TIES_WITHIN = 1.1
"""Factor from the best, of figures that are measured and not counted."""


@dataclass(frozen=True)
class Topic:
    name: str
    part: str
    figure: str
    """What stands for it, with its unit."""
    better: Literal["lower", "higher"]
    value: Callable[[Part], float | None]
    """From the part of a record; None where it has none."""
    scale: float | None = None
    """Shown value = value × scale; None for a count."""


def _best_rate(part: Part) -> float | None:
    return max(
        (way["items_per_s"] for way in part["loaders"].values() if way.get("items_per_s")), default=None
    )


def _first_reduction(part: Part) -> float | None:
    ways = part["collectives"].values()
    return min((way["first_reduction_s"] for way in ways if way.get("first_reduction_s")), default=None)


def _latency(part: Part) -> float | None:
    served = [path["networks"]["mlp"]["median_s"] for path in part["paths"].values() if path["works"]]
    return min(served, default=None)


def _sides_named(part: Part) -> int:
    return sum(found.get("names") or 0 for found in part.values() if isinstance(found, Mapping))


def _both_ways(part: Part) -> float:
    network = part["networks"]["cnn"]
    return float(network["save_s"] + network["load_s"])


def _works(part: Part) -> int:
    return sum(path["works"] for path in part["paths"].values())


def _still_run(part: Part) -> int | None:
    tried = part.get("releases", ())
    return sum(release["state"] == RUNS for release in tried) if tried else None


TOPICS = (
    Topic("installing", "install", "size, MB", "lower", lambda part: part.get("size_bytes"), 1e-6),
    Topic("starting", "start", "import, s", "lower", lambda part: part.get("import_s"), 1),
    Topic("writing", "code", "lines of the backend", "lower", lambda part: part.get("lines")),
    Topic("debugging", "mistakes", "sides named, of 6", "higher", _sides_named),
    Topic("loading data", "data", "items/s, the fastest way", "higher", _best_rate, 1),
    Topic(
        *("visualisation", "visualisation", "one scalar, µs of CPU", "lower"),
        value=lambda part: part.get("scalar_cpu_s"),
        scale=1e6,
    ),
    Topic(
        *("parallel execution", "parallel", "two workers' first reduction, s", "lower"),
        value=_first_reduction,
        scale=1,
    ),
    Topic("serialisation", "save", "CNN saved and loaded, ms", "lower", _both_ways, 1e3),
    Topic("exporting", "export", "ways that work", "higher", _works),
    Topic("deployment", "deployment", "MLP answers, µs, the fastest way", "lower", _latency, 1e6),
    Topic("compatibility", "compatibility", "earlier series that run, of those tried", "higher", _still_run),
    Topic(
        *("community", "community", "releases in 24 months", "higher"), value=lambda part: part.get("recent")
    ),
)

WALL_TIMES = ("starting", "loading data", "parallel execution", "serialisation", "deployment")
"""Topics whose figure depends on what else ran on the machine."""


@dataclass(frozen=True)
class TopicStanding:
    """One topic, with the frameworks of which it is known."""

    topic: Topic
    values: Mapping[str, float]

    @property
    def compared(self) -> bool:
        return len(self.values) > 1

    @property
    def best(self) -> tuple[str, ...]:
        """One framework, or those that tie; none where there is nothing to compare, or all tie."""
        found = tuple(name for name in self.values if self.rank(name) == 1)
        return found if self.compared and len(found) < len(self.values) else ()

    def rank(self, name: str) -> int:
        """1 for the best; as many more as are better than this one by more than a tie."""
        return 1 + sum(self._better(other, self.values[name]) for other in self.values.values())

    def _better(self, one: float, other: float) -> bool:
        small, large = (one, other) if self.topic.better == "lower" else (other, one)
        return small < large if self.topic.scale is None else small * TIES_WITHIN < large

    def shown(self, name: str) -> str:
        if name not in self.values:
            return NOT_MEASURED
        value = self.values[name]
        return whole(int(value)) if self.topic.scale is None else figure(value, self.topic.scale)


@dataclass(frozen=True)
class Standing:
    frameworks: tuple[str, ...]
    topics: tuple[TopicStanding, ...]
    busy: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topic → frameworks whose time was measured while the machine was busy."""

    @property
    def wins(self) -> dict[str, int]:
        """Framework → topics on which it is best or ties with the best, most first."""
        counts = {name: sum(name in topic.best for topic in self.topics) for name in self.frameworks}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def leaders(self) -> tuple[str, ...]:
        most = max(self.wins.values(), default=0)
        return tuple(name for name, count in self.wins.items() if count == most) if most else ()

    @property
    def compared(self) -> int:
        return sum(topic.compared for topic in self.topics)

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Topic → frameworks of which it is not known."""
        gaps = {
            topic.topic.name: tuple(name for name in self.frameworks if name not in topic.values)
            for topic in self.topics
        }
        return {name: lacking for name, lacking in gaps.items() if lacking}


def standing(records: Records) -> Standing:
    topics = tuple(TopicStanding(topic, _values(topic, records)) for topic in TOPICS)
    disturbed = {
        one.topic.name: tuple(
            name for name in one.values if records[name].part(one.topic.part).get("load_before", 0.0) > BUSY
        )
        for one in topics
        if one.topic.name in WALL_TIMES
    }
    return Standing(tuple(records), topics, {name: names for name, names in disturbed.items() if names})


def _values(topic: Topic, records: Records) -> dict[str, float]:
    found = {name: _value(topic, record) for name, record in records.items()}
    return {name: value for name, value in found.items() if value is not None}


def _value(topic: Topic, record: UsabilityRecord) -> float | None:
    part = record.part(topic.part)
    return topic.value(part) if part else None


def standing_table(found: Standing) -> Table:
    """`0.52 (2)`: the value, and the rank."""

    def cell(topic: TopicStanding, name: str) -> str:
        ranked = topic.compared and name in topic.values
        return f"{topic.shown(name)} ({topic.rank(name)})" if ranked else topic.shown(name)

    rows = tuple(
        (
            topic.topic.name,
            f"{topic.topic.figure}, {topic.topic.better} is better",
            *(cell(topic, name) for name in found.frameworks),
        )
        for topic in found.topics
        if topic.values
    )
    columns = ("Topic", "Figure", *found.frameworks)
    return Table("usability-standing", "Usability, topic by topic: value (rank)", columns, rows)


def sentences(found: Standing) -> Iterable[str]:
    """Who is best on how many topics, and what is missing."""
    if not found.leaders:
        yield "No framework is better than another on any topic."
    else:
        counts = ", ".join(f"{name} {count}" for name, count in found.wins.items())
        topics = "topic" if found.compared == 1 else "topics"
        yield f"Best or tied with the best, of {found.compared} {topics} that can be compared: {counts}."
        verb = "leads" if len(found.leaders) == 1 else "lead"
        yield f"{' and '.join(found.leaders)} {verb}. Topics count alike; yours may not: read the table."
    for busy, names in _by_frameworks(found.busy):
        yield (
            f"Doubt: the machine was busy when {', '.join(names)} of {', '.join(busy)} was measured. "
            "Measure again on a quiet machine, with --fresh."
        )
    for lacking, names in _by_frameworks(found.missing):
        who = "any framework" if len(lacking) == len(found.frameworks) else ", ".join(lacking)
        yield f"Not known of {who}: {', '.join(names)}."


def _by_frameworks(topics: Mapping[str, tuple[str, ...]]) -> Iterable[tuple[tuple[str, ...], list[str]]]:
    """Frameworks → the topics that have just them."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, frameworks in topics.items():
        alike.setdefault(frameworks, []).append(name)
    return alike.items()
