"""Networks timed alone (`rldyno nets`) as evidence: each round is a run."""

from __future__ import annotations

from collections.abc import Iterator

from rldyno.claims.metrics import execution_of
from rldyno.nets.work import UPDATE, Net
from rldyno.records.files import Json
from rldyno_rig.hyper import network_kind

NETS_AXES = ("net", "rows", "data")
"""What tells such runs apart, beside contestant, device, cores and dtype."""


def unproven(record: Json) -> set[tuple[str, str]]:
    """(contestant, algorithm) that were timed without a valid certificate."""
    algorithm = str(record["asked"]["algorithm"])
    return {
        (worker["contestant"], algorithm)
        for worker in record["workers"]
        if worker.get("certificate") != "valid"
    }


def rounds(record: Json, system: str) -> Iterator[Json]:
    """One row per round of a proven contestant, with the columns that claims ask about."""
    asked = record["asked"]
    networks = {net.name: network_kind(net.convolutions) for net in map(Net.from_json, asked["nets"])}
    bare = {contestant for contestant, _ in unproven(record)}
    for measured in record["measurements"]:
        contestant = measured["contestant"]
        if contestant in bare:
            continue
        framework, _, mode = contestant.partition(":")
        where = f"{contestant} {measured['net']} {measured['measure']} {measured['rows']} {measured['data']}"
        for done in measured["rounds"]:
            per_second = done["calls"] / (done["wall_ns"] / 1e9)
            yield {
                **{name: asked[name] for name in ("algorithm", "device", "cores", "dtype")},
                **{name: measured[name] for name in NETS_AXES},
                "trial": f"{where} round {done['round']}",
                "contestant": contestant,
                "framework": framework,
                "mode": mode,
                "execution": execution_of(mode),
                "network": networks[measured["net"]],
                "system": system,
                "updates_per_s" if measured["measure"] == UPDATE else "acts_per_s": per_second,
            }
