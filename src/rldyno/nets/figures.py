"""From a record to figures: seconds per call, ratio to the fastest, multiple of the limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rldyno.limits.floor import Floor, floor
from rldyno.nets.record import Kind, NetsRecord, Round
from rldyno.nets.utilisation import SHORTEST_S
from rldyno.nets.work import ACT, PAPER_CALLS, RESIDENT, UPDATE, spec_of
from rldyno.stats.estimates import Estimate, median_estimate


@dataclass(frozen=True)
class NetFigure:
    kind: Kind
    contestant: str
    seconds: Estimate
    """Per call."""
    fastest: bool
    """Of its kind."""
    ratio: Estimate
    """To the fastest."""
    spread: tuple[float, float] | None
    """10th and 90th percentile of single calls, in seconds, median over rounds; None where not measured."""
    gpu_percent: float | None
    floor: Floor | None
    """The least time of one call on this machine; None where its limits were not measured."""

    @property
    def multiple(self) -> float | None:
        return None if self.floor is None else self.seconds.point / self.floor.seconds

    @property
    def paper_seconds(self) -> Estimate:
        """For as many calls as stooke2017 made."""
        calls = PAPER_CALLS[self.kind.measure]
        return self.seconds.scaled(calls)


def figures(record: NetsRecord) -> list[NetFigure]:
    """Every figure that was measured, kinds in the order of measuring, the fastest contestant first."""
    of_kind: dict[Kind, dict[str, Sequence[Round]]] = defaultdict(dict)
    for measured in record.measurements:
        if measured.rounds:
            of_kind[measured.kind][measured.contestant] = measured.rounds
    found: list[NetFigure] = []
    for kind, contestants in of_kind.items():
        floor = floor_of(record, kind)
        of = {name: seconds_by_round(rounds) for name, rounds in contestants.items()}
        estimates = {name: estimate(list(seconds.values())) for name, seconds in of.items()}
        ordered = sorted(of, key=lambda name: estimates[name].point)
        found += [
            NetFigure(
                kind=kind,
                contestant=name,
                seconds=estimates[name],
                fastest=name == ordered[0],
                ratio=ratio(of[name], of[ordered[0]]),
                spread=spread(contestants[name]),
                gpu_percent=mean([one.gpu_percent for one in contestants[name] if long_enough(one)]),
                floor=floor,
            )
            for name in ordered
        ]
    return found


def long_enough(one: Round) -> bool:
    """Whether a GPU's utilisation, a mean over the last second, is about this round alone."""
    return one.wall_ns >= SHORTEST_S * 1e9


def floor_of(record: NetsRecord, kind: Kind) -> Floor | None:
    if record.limits is None:
        return None
    benchmark = record.benchmark
    (net,) = (net for net in benchmark.nets if net.name == kind.net)
    return floor(
        spec_of(benchmark.algorithm, net),
        kind.rows,
        record.limits,
        benchmark.dtype,
        ACT if kind.measure == ACT else UPDATE,
        copied=kind.data != RESIDENT,
    )


def seconds_by_round(rounds: Iterable[Round]) -> dict[int, float]:
    return {one.round: one.seconds for one in rounds}


def ratio(seconds: Mapping[int, float], base: Mapping[int, float]) -> Estimate:
    """Of the rounds that both took part in: the machine's drift between rounds cancels."""
    shared = [number for number in seconds if number in base]
    return estimate([seconds[number] / base[number] for number in shared])


def estimate(values: Sequence[float]) -> Estimate:
    """Median over rounds with its interval: nearly half of the rounds may be disturbed."""
    return median_estimate(np.asarray(values))


def spread(rounds: Sequence[Round]) -> tuple[float, float] | None:
    ends = [(one.p10_ns, one.p90_ns) for one in rounds if one.p10_ns is not None and one.p90_ns is not None]
    if len(ends) < len(rounds):
        return None
    low, high = np.median(ends, axis=0) / 1e9
    return float(low), float(high)


def mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
