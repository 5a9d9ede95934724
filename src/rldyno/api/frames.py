"""Answers as tables and as sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from rldyno.answers.advice import Advice
    from rldyno.answers.axes import AxisAnswer
    from rldyno.answers.groups import Group
    from rldyno.claims.decide import ClaimVerdict
    from rldyno.stats.estimates import Estimate

COMPARISON = {
    "algorithm": pl.String,
    "environment": pl.String,
    "setting": pl.String,
    "contestant": pl.String,
    "not_ranked": pl.String,
    "runs": pl.Int64,
    "metric": pl.String,
    "unit": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "bounds": pl.String,
    "ratio": pl.Float64,
    "ratio_low": pl.Float64,
    "ratio_high": pl.Float64,
    "best": pl.Boolean,
    "trust": pl.String,
    "objections": pl.String,
}
RATIO = ("ratio", "ratio_low", "ratio_high")
ADVICE = {
    "task": pl.String,
    "goal": pl.String,
    "setting": pl.String,
    "contestant": pl.String,
    "runner_up": pl.String,
    "ratio": pl.Float64,
    "ratio_low": pl.Float64,
    "ratio_high": pl.Float64,
    "confidence": pl.String,
    "no_advice": pl.String,
}
AXES = {
    "place": pl.String,
    "axis": pl.String,
    "base": pl.String,
    "level": pl.String,
    "metric": pl.String,
    "contestant": pl.String,
    "state": pl.String,
    "times_as_fast": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "no_answer": pl.String,
}
CLAIMS = {
    "claim": pl.String,
    "source": pl.String,
    "statement": pl.String,
    "verdict": pl.String,
    "effect": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "missing": pl.String,
}


def comparison_frame(groups: Sequence[Group]) -> pl.DataFrame:
    """One row per contestant and metric. `ratio` says how many times worse than the best contestant it is.

    It is empty where `trust` is "barred": `objections` says why.
    """
    return pl.DataFrame([*_comparison_rows(groups)], schema=COMPARISON)


def _comparison_rows(groups: Sequence[Group]) -> Iterator[dict[str, Any]]:
    for group in groups:
        for row in group.rows:
            for metric in group.metrics:
                figure = row.figures.get(metric.name)
                yield {
                    "algorithm": str(group.axes["algorithm"]),
                    "environment": group.environment,
                    "setting": group.setting,
                    "contestant": row.contestant,
                    "not_ranked": row.unranked,
                    "runs": row.done,
                    "metric": metric.key,
                    "unit": metric.unit,
                    **bounds(figure.estimate if figure else None, ("value", "low", "high"), metric.scale),
                    "bounds": figure.estimate.kind if figure and figure.estimate.low is not None else None,
                    **bounds(figure.ratio if figure else None, RATIO),
                    "best": None if figure is None else figure.best,
                    "trust": group.trusts[metric.name].level,
                    "objections": group.trusts[metric.name].words or None,
                }


def advice_frame(found: Sequence[Advice]) -> pl.DataFrame:
    """One row per setting: what to choose, or why there is no advice."""
    return pl.DataFrame([row for advice in found for row in _advice_rows(advice)], schema=ADVICE)


def _advice_rows(advice: Advice) -> Iterator[dict[str, Any]]:
    task = {"task": advice.task, "goal": advice.goal}
    for pick in advice.picks:
        yield {
            **task,
            "setting": pick.group.setting,
            "contestant": pick.contestant,
            "runner_up": pick.runner_up.contestant,
            **bounds(pick.ratio, RATIO),
            "confidence": pick.confidence,
        }
    for refusal in advice.refusals:
        yield {**task, "setting": refusal.group.setting, "no_advice": refusal.why}


def advice_text(found: Sequence[Advice]) -> str:
    return "\n".join(line for advice in found for line in _advice_lines(advice))


def _advice_lines(advice: Advice) -> Iterator[str]:
    from rldyno.answers.wording import confidence_words, pick_words

    for pick in advice.picks:
        yield f"{pick.group.label}: {pick_words(pick)} {confidence_words(pick)}"
    for refusal in advice.refusals:
        yield f"{refusal.group.label}: no advice. {refusal.why} {refusal.instead}".rstrip()


def axes_frame(found: Sequence[AxisAnswer]) -> pl.DataFrame:
    """One row per setting and contestant, or per setting where nothing may be said."""
    return pl.DataFrame([row for answer in found for row in _axis_rows(answer)], schema=AXES)


def _axis_rows(answer: AxisAnswer) -> Iterator[dict[str, Any]]:
    setting = {
        "place": answer.place,
        "axis": answer.axis,
        "base": str(answer.base),
        "level": str(answer.level),
        "metric": answer.metric.key,
    }
    if answer.trust.barred:
        yield {**setting, "no_answer": answer.trust.words}
    for change in answer.changes:
        size = bounds(change.ratio, ("times_as_fast", "low", "high"))
        yield {**setting, "contestant": change.contestant, "state": change.state, **size}


def claims_frame(found: Sequence[ClaimVerdict]) -> pl.DataFrame:
    """One row per claim. A claim with several checks has several effects: the items hold them."""
    return pl.DataFrame(
        [
            {
                "claim": item.claim.id,
                "source": item.claim.source,
                "statement": item.claim.statement,
                "verdict": item.verdict,
                **bounds(item.checks[0].effect if len(item.checks) == 1 else None, ("effect", "low", "high")),
                "missing": "; ".join(item.missing) or None,
            }
            for item in found
        ],
        schema=CLAIMS,
    )


def claims_text(found: Sequence[ClaimVerdict]) -> str:
    from rldyno.claims.show import summary

    return summary(found)


def bounds(estimate: Estimate | None, names: tuple[str, str, str], scale: float = 1.0) -> dict[str, Any]:
    """An interval as three columns; empty where there is none, or where a run never got there."""
    values = (None,) * 3 if estimate is None else (estimate.point, estimate.low, estimate.high)
    return {
        name: value * scale if value is not None and math.isfinite(value) else None
        for name, value in zip(names, values, strict=True)
    }
