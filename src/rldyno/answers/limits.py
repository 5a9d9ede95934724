"""How far each contestant's update is from the least time that the machine allows for it."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from rldyno.records.status import DONE
from rldyno.results.load import Results
from rldyno.stats.estimates import Estimate, estimate_of


@dataclass(frozen=True)
class Distance:
    """Of one contestant on one point of the study's axes."""

    contestant: str
    axes: dict[str, object]
    """Algorithm, environment, device, cores … and the hyper-parameters that vary."""
    update_us: Estimate
    """Transfer, update and read phases of one update."""
    floor_us: float
    bound: str
    """What sets the floor: arithmetic, memory or transfer."""
    multiple: Estimate
    """update_us / floor_us."""


def distances(results: Results) -> list[Distance]:
    """Of all trials that are done, nearest to the limit first in each comparison; empty without limits."""
    known = results.trials.filter((pl.col("status") == DONE) & pl.col("update_over_floor").is_finite())
    found = []
    for key, runs in known.group_by([*results.axes, "contestant"], maintain_order=True):
        update_us = estimate_of(runs["update_us"].to_numpy())
        floor_us = float(runs["update_floor_us"][0])
        found.append(
            Distance(
                contestant=str(key[-1]),
                axes=dict(zip(results.axes, key[:-1], strict=True)),
                update_us=update_us,
                floor_us=floor_us,
                bound=str(runs["update_floor_bound"][0]),
                multiple=update_us.scaled(1 / floor_us),
            )
        )
    order = list(dict.fromkeys(tuple(one.axes.items()) for one in found))
    return sorted(found, key=lambda one: (order.index(tuple(one.axes.items())), one.multiple.point))
