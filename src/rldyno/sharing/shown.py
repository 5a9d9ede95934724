"""What a board shows of each pack: marks, machines, comparisons and their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rldyno.answers.groups import FRAMEWORK, MEMORY, STARTUP, THRESHOLD, THROUGHPUT
from rldyno.columns import Column
from rldyno.report.heading import Heading
from rldyno.sharing.pack import SUFFIX

METRICS: tuple[Column, ...] = (THROUGHPUT, THRESHOLD, FRAMEWORK, MEMORY, STARTUP)
REFUSED, FLAWS, UNKNOWN_CODE, ANONYMOUS = "refused", "flaws", "unknown code", "anonymous"
REPEATED = "the same runs"


@dataclass(frozen=True)
class Mark:
    """What a reader must know of a pack."""

    kind: str
    words: str
    lines: tuple[str, ...] = ()

    @property
    def warns(self) -> bool:
        """Whether the pack is not what an untouched rldyno wrote. To remove names is no such thing."""
        return self.kind != ANONYMOUS


@dataclass(frozen=True)
class Machine:
    words: str
    key: str
    """A hash: the same for all packs of one machine."""

    @property
    def label(self) -> str:
        return f"{self.words} #{self.key[:4]}"


@dataclass(frozen=True)
class Figure:
    """A metric of a contestant, as text; `value`, `low` and `high` to sort and draw."""

    text: str
    unit: str
    span: str | None = None
    ratio: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Entry:
    """A contestant of a comparison."""

    contestant: str
    certificate: str
    certificate_words: str
    unranked: str | None
    """Why it is shown without a rank."""
    seeds: int
    version: str
    """Of its framework."""
    figures: Mapping[str, Figure]
    """By metric; what was not measured is not there."""


@dataclass(frozen=True)
class Contest:
    """A comparison: contestants on one task, one machine, one setting, from one pack."""

    algorithm: str
    environment: str
    machine: Machine
    device: str
    how: str
    """The setting: device, cores, workers, precision, caches."""
    pack: int
    sentence: str
    level: str
    """clear, unsure or barred."""
    doubts: tuple[tuple[str, str], ...]
    """In a few words, and in a sentence."""
    first: str | None
    """Who is fastest; None where nobody may be called so."""
    primary: str
    """Title of the metric that decides."""
    value: Figure | None
    runner_up: str | None
    entries: tuple[Entry, ...]

    @property
    def longest(self) -> float:
        """The highest speed of all, for bars of one scale."""
        speeds = (entry.figures.get(THROUGHPUT.name) for entry in self.entries)
        ends = [end for speed in speeds if speed for end in (speed.high, speed.value) if end is not None]
        return max(ends, default=0.0)


@dataclass(frozen=True)
class Ran:
    """With what a contestant's trials of a pack ran."""

    contestant: str
    versions: str
    source: str | None
    """Name of the code; None for unknown code."""
    hashes: str


@dataclass(frozen=True)
class PackView:
    number: int
    file: str
    sha256: str
    marks: tuple[Mark, ...] = ()
    heading: Heading | None = None
    """None of a pack that was refused."""
    machine: Machine | None = None
    about_machine: tuple[str, ...] = ()
    packed: str = ""
    study: str = ""
    ran: tuple[Ran, ...] = ()
    proofs: str = ""

    @property
    def name(self) -> str:
        return self.file.removesuffix(SUFFIX)

    @property
    def title(self) -> str:
        return self.heading.title if self.heading else self.name

    @property
    def warnings(self) -> tuple[Mark, ...]:
        return tuple(mark for mark in self.marks if mark.warns)


@dataclass(frozen=True)
class Board:
    packs: tuple[PackView, ...]
    contests: tuple[Contest, ...] = field(default=())
