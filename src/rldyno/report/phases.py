"""What an environment step costs in each phase as training goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from rldyno.answers.groups import Group
from rldyno.records import files as records
from rldyno.report.curves import Band, contestants, quartile_band
from rldyno.report.series import Columns, read_columns
from rldyno.results.load import Results
from rldyno.stats.bootstrap import Floats
from rldyno_rig import schema

# A phase that takes less of everybody's training than this has no curve.
LEAST_SHARE = 0.01


def phase_bands(results: Results, group: Group, points: int, damaged: list[str]) -> dict[str, list[Band]]:
    """Phase → microseconds per step, of the contestants that trained for some seconds.

    Progress is noted once a second: two rows and fewer make no curve.
    """
    wanted = ("step", *(f"{phase}_ns" for phase in schema.PHASES))
    home = records.Results(results.directory)
    found: dict[str, list[Band]] = {phase: [] for phase in schema.PHASES}
    done = group.trials.filter(pl.col("status") == "done")
    for contestant, names in contestants(group, done):
        paths = [home.trial(name) / schema.PROGRESS_FILE for name in names]
        runs = [
            run
            for run in read_columns(paths, schema.PROGRESS_COLUMNS, wanted, damaged)
            if np.isfinite(run["step"]).sum() > 2
        ]
        for phase in schema.PHASES if runs else ():
            found[phase].append(cost_band(contestant, runs, phase, points))
    return {phase: bands for phase, bands in found.items() if matters(phase, found)}


def cost_band(contestant: str, runs: Sequence[Columns], phase: str, points: int) -> Band:
    rows = int(np.median([len(run["step"]) for run in runs]))
    # As far as half of the runs went: beyond there is no band.
    edges = np.linspace(0, np.median([run["step"][-1] for run in runs]), min(points, rows) + 1)
    totals = np.stack([reached(edges, run["step"], run[f"{phase}_ns"]) for run in runs])
    costs = np.diff(totals) / np.diff(edges) / 1e3
    return quartile_band(contestant, (edges[:-1] + edges[1:]) / 2, costs)


def reached(edges: Floats, steps: Floats, spent: Floats) -> Floats:
    zero = np.zeros(1)
    return np.asarray(
        np.interp(edges, np.concatenate([zero, steps]), np.concatenate([zero, spent]), right=np.nan)
    )


def matters(phase: str, found: Mapping[str, Sequence[Band]]) -> bool:
    for index, band in enumerate(found[phase]):
        whole = sum(float(bands[index].y.sum()) for bands in found.values())
        if band.y.sum() > LEAST_SHARE * whole:
            return True
    return False
