"""Figures held against the best: ratios, and how easily chance alone makes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rldyno.answers.duels import EQUAL, Rule, Scale, duels, seeded
from rldyno.answers.groups import THRESHOLD, Figure, Row, run_values
from rldyno.answers.leads import chances, seeds_missing
from rldyno.answers.runs import Runs
from rldyno.columns import Column
from rldyno.stats.bootstrap import Estimate, Sample, ratio_estimate
from rldyno.stats.censored import median_ratio
from rldyno.stats.equivalence import ALPHA


def with_ratios(
    rows: Sequence[Row],
    runs: Mapping[str, Runs],
    samples: Mapping[str, Sample | None],
    metric: Column,
    rule: Rule | None = None,
) -> list[Row]:
    """Rows with their figures held against the best; `rule` where seeds were added after looks."""
    rows = list(rows)
    candidates = [row for row in rows if row.unranked is None and metric.name in row.figures]
    best = min(candidates, key=lambda row: badness(row, metric), default=None)
    if best is None or not math.isfinite(badness(best, metric)):
        return rows
    worse = {
        row.contestant: replace(
            row.figures[metric.name],
            ratio=times_worse(samples[row.contestant], samples[best.contestant], metric),
        )
        for row in candidates
    }
    if rule is None:
        judged = judged_once(worse, best.contestant, runs, metric)
    else:
        judged = judged_at_any_time(worse, best.contestant, runs, metric, rule, family=len(rows))
    judged[best.contestant] = replace(
        worse[best.contestant], ratio=Estimate(1.0, None, None, best.done), best=True
    )
    return [
        replace(row, figures={**row.figures, metric.name: judged[row.contestant]})
        if row.contestant in judged
        else row
        for row in rows
    ]


def judged_once(
    figures: Mapping[str, Figure], best: str, runs: Mapping[str, Runs], metric: Column
) -> dict[str, Figure]:
    """For a number of seeds that was fixed beforehand."""
    values = {name: run_values(runs[name], metric) for name in figures}
    chance = chances(values)
    judged = {}
    for name, figure in figures.items():
        p = chance.get(frozenset((name, best)))
        open_still = p is not None and p > ALPHA
        more = seeds_missing(values[name], values[best]) if open_still else None
        judged[name] = replace(figure, chance=p, more_seeds=more)
    return judged


def judged_at_any_time(
    figures: Mapping[str, Figure],
    best: str,
    runs: Mapping[str, Runs],
    metric: Column,
    rule: Rule,
    family: int,
) -> dict[str, Figure]:
    """Where seeds were added as long as comparisons were open: chance and interval hold at any number."""
    scale = scale_of(metric, rule.within)
    column = None if scale.censorable else metric.name
    found = duels({name: seeded(runs[name], column) for name in figures}, scale, family)
    judged = {}
    for name, figure in figures.items():
        if name == best:
            continue
        duel = found[frozenset((name, best))].seen_from(best)
        ratio = figure.ratio
        if ratio is not None:
            point = ratio.point if math.isnan(duel.ratio) else duel.ratio
            ratio = Estimate(point, duel.low, duel.high, duel.seeds)
        judged[name] = replace(
            figure,
            ratio=ratio,
            chance=duel.chance,
            more_seeds=duel.more_seeds,
            equal_within=rule.within if duel.state == EQUAL else None,
        )
    return judged


def told_apart(figure: Figure) -> bool:
    """From the best: chance, corrected, is at most 5 %, and the interval of the ratio excludes 1.

    Without a ratio (it never got there) chance alone decides.
    """
    beyond_chance = figure.chance is None or figure.chance <= ALPHA
    if figure.ratio is None:
        return beyond_chance
    return beyond_chance and figure.ratio.low is not None and figure.ratio.low > 1


def scale_of(metric: Column, within: float) -> Scale:
    return Scale(metric.more_is_better, metric is THRESHOLD, within)


def times_worse(mine: Sample | None, best: Sample | None, metric: Column) -> Estimate | None:
    if mine is None or best is None:
        return None
    if metric is THRESHOLD:
        return median_ratio(mine, best)
    over, under = (best, mine) if metric.more_is_better else (mine, best)
    return ratio_estimate(over, under) if over.point > 0 and under.point > 0 else None


def badness(row: Row, metric: Column) -> float:
    figure = row.figures.get(metric.name)
    if figure is None:
        return math.inf
    return -figure.estimate.point if metric.more_is_better else figure.estimate.point
