"""What results lack to decide a check, in words that say what to run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rldyno.claims.evidence import Conditions, Evidence
from rldyno.claims.form import HYPER, Check, Condition
from rldyno.claims.metrics import metric, of_series
from rldyno_rig.contestant import Contestant

COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}
PLURALS = {
    "system": "operating systems",
    "machine": "machines",
    "game": "games",
    "cores": "numbers of cores",
    "workers": "numbers of workers",
    "device": "kinds of device",
    "framework": "frameworks",
    "algorithm": "algorithms",
    "environment": "environments",
    "execution": "kinds of execution",
}


def lacking(check: Check, evidence: Evidence) -> list[str]:
    """Empty when the check can be made; what it finds may still be too little to decide it."""
    found: list[str] = [f"needs {check.needs}"] if check.needs else []
    for side in (check.a, check.b):
        found += without_rows(check.where | side, evidence)
    if not found:
        rows = [row for side in (check.a, check.b) for row in evidence.admitted(check.where, side)]
        found += few_levels(check.levels, rows, "has")
    if not found and not measured(check, evidence):
        found.append(unmeasured(check.metric))
    return list(dict.fromkeys(found))


def disturbed(check: Check, evidence: Evidence) -> tuple[str, ...]:
    """Why runs that the check asks for may not decide it, where without them something is missing."""
    if evidence.whole is None or not lacking(check, evidence):
        return ()
    rows = [row for side in (check.a, check.b) for row in evidence.whole.admitted(check.where, side)]
    words = dict.fromkeys(row["objection"] for row in rows if row.get("objection"))
    return tuple(f"needs runs on a quiet machine: {reason}" for reason in words)


def unmeasured(name: str) -> str:
    """Why no run has the metric."""
    figure = metric(name)
    return figure.needs or f"{figure.words} was not measured"


def measured(check: Check, evidence: Evidence) -> bool:
    """Whether any run has the metric; what only samples hold is seen when they are read."""
    figure = metric(check.metric)
    if of_series(figure):
        return True
    column = "threshold_reached" if figure.censored_at else figure.name
    return any(row.get(column) is not None for row in evidence.admitted(check.where))


def without_rows(selector: Conditions, evidence: Evidence) -> Iterator[str]:
    if evidence.admitted(selector):
        return
    alone = [
        (key, condition) for key, condition in selector.items() if not evidence.admitted({key: condition})
    ]
    for key, condition in alone:
        yield lacking_words(key, condition, evidence)
    if not alone:
        wanted = ", ".join(
            f"{key.removeprefix(HYPER)} {condition.words}" for key, condition in selector.items()
        )
        yield f"needs trials with {wanted} together"


def lacking_words(key: str, condition: Condition, evidence: Evidence) -> str:
    if key == "device" and "cuda" in condition.values:
        return "needs trials on the GPU" if evidence.has_gpu else "needs a GPU"
    if key in ("contestant", "framework"):
        unproven = sorted({name for name, _ in evidence.uncertified if condition.admits(side_of(name, key))})
        if unproven:
            return f"needs a certificate: `rldyno verify {' '.join(unproven)}`"
    words = {
        "max_episode_steps": "episodes limited to",
        "network": "a network of kind",
        "reason": "runs that end by their budget of",
        "suite": "environments of",
    }
    return f"needs {words.get(key, key.removeprefix(HYPER))} {condition.words}"


def few_levels(levels: Mapping[str, int], rows: Sequence[Mapping[str, Any]], have: str) -> Iterator[str]:
    """Each column that has too few values in these rows; else that not every value has those of the next."""
    short = False
    for column, wanted in levels.items():
        found = {row.get(column) for row in rows} - {None}
        if len(found) < wanted:
            short = True
            yield f"needs {_levels_words(column, wanted)} ({have} {len(found)})"
    if not short and not crossed(list(levels.items()), rows):
        yield "needs " + ", each with ".join(_levels_words(*level) for level in levels.items())


def crossed(levels: Sequence[tuple[str, int]], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether enough values of the first column each have enough values of the next one, and so on."""
    if not levels:
        return True
    (column, wanted), *others = levels
    values = {row.get(column) for row in rows} - {None}
    enough = [value for value in values if crossed(others, [row for row in rows if row.get(column) == value])]
    return len(enough) >= wanted


def _levels_words(column: str, wanted: int) -> str:
    return f"{COUNTS.get(wanted, wanted)} {PLURALS.get(column, f'values of {column.removeprefix(HYPER)}')}"


def few_seeds(wanted: int, have: int) -> str:
    return f"needs ≥ {wanted} seeds (has {have})"


def side_of(contestant: str, key: str) -> str:
    return contestant if key == "contestant" else Contestant.parse(contestant).framework
