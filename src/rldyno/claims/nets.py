"""Networks timed alone (`rldyno nets`) as evidence: each round is a run."""

from __future__ import annotations

from collections.abc import Iterator

from rldyno.claims.metrics import execution_of
from rldyno.nets.record import NetsRecord
from rldyno.nets.work import ACT
from rldyno.records.files import Json
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import network_kind

NETS_AXES = ("net", "rows", "data")
"""What tells such runs apart, beside contestant, device, cores and dtype."""


def unproven(record: NetsRecord) -> set[tuple[str, str]]:
    """(contestant, algorithm) that were timed without a valid certificate."""
    return {(contestant, record.benchmark.algorithm) for contestant in record.unproven}


def rounds(record: NetsRecord, place: Json) -> Iterator[Json]:
    """One row per round of a proven contestant, with the columns that claims ask about."""
    benchmark = record.benchmark
    networks = {net.name: network_kind(net.convolutions) for net in benchmark.nets}
    for measured in record.measurements:
        if measured.contestant in record.unproven:
            continue
        contestant, kind = Contestant.parse(measured.contestant), measured.kind
        where = f"{contestant} {kind.net} {kind.measure} {kind.rows} {kind.data}"
        for done in measured.rounds:
            yield {
                "algorithm": benchmark.algorithm,
                "device": benchmark.device,
                "cores": benchmark.cores,
                "dtype": benchmark.dtype,
                "net": kind.net,
                "rows": kind.rows,
                "data": kind.data,
                "trial": f"{where} round {done.round}",
                "contestant": measured.contestant,
                "framework": contestant.framework,
                "mode": contestant.mode,
                "execution": execution_of(contestant.mode),
                "network": networks[kind.net],
                **place,
                "acts_per_s" if kind.measure == ACT else "updates_per_s": 1 / done.seconds,
            }
