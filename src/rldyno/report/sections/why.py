"""Why: what start-up and a step cost each contestant, and in which phase they differ most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rldyno.answers.groups import STARTUP, THROUGHPUT, Group, Row
from rldyno.report.material import OPEN_GROUPS, Material
from rldyno.report.section import Section
from rldyno.text.numbers import number
from rldyno_rig import schema

# Two contestants whose steps differ by less than this share need no reason.
LEAST_SHARE = 0.05


def reasons(material: Material) -> list[tuple[str, str]]:
    """(comparison, sentences), for the first comparisons in which something may be said."""
    differ = (group for group in material.groups if not group.trust.barred and not group.trust.tied)
    answered = list(differ)[:OPEN_GROUPS]
    found = ((group.label, reason(group)) for group in answered)
    return [(label, words) for label, words in found if words]


def reason(group: Group) -> str:
    """Values of the first two ranked; who is better is said elsewhere."""
    costs = [(row, step_costs(group, row)) for row in group.ranked[:2]]
    known = [(row, cost) for row, cost in costs if cost]
    if len(known) < 2:
        return ""
    (first, fast), (second, slow) = known
    names = f"`{first.contestant}`", f"`{second.contestant}`"
    steps = [sum(cost.values()) for _, cost in known]
    said = [f"A step takes {names[0]} {split(fast)} and {names[1]} {split(slow)}."]
    phase = max(fast, key=lambda name: abs(fast[name] - slow[name]))
    if abs(steps[0] - steps[1]) > LEAST_SHARE * min(steps):
        said.append(f"They differ most in {phase}: {number(fast[phase])} and {number(slow[phase])} µs.")
    starts = [row.figures[STARTUP.name].estimate.point for row, _ in known if STARTUP.name in row.figures]
    if len(starts) == len(known):
        said.append(f"Start-up takes {' and '.join(map(number, starts))} s.")
    return " ".join(said)


def split(cost: Mapping[str, float]) -> str:
    """`136 µs (framework 95, shared 41)`."""
    framework, shared = (
        sum(cost[phase] for phase in phases) for phases in (schema.FRAMEWORK_PHASES, schema.SHARED_PHASES)
    )
    return f"{number(framework + shared)} µs (framework {number(framework)}, shared {number(shared)})"


def step_costs(group: Group, row: Row) -> dict[str, float]:
    """Phase → microseconds per step: its mean share of a step, which the speed of the contestant gives."""
    runs, speed = group.runs[row.contestant], row.figures.get(THROUGHPUT.name)
    spent = np.stack([runs[f"phase_{phase}_s"] for phase in schema.PHASES])
    whole = np.isfinite(spent).all(axis=0) & (spent.sum(axis=0) > 0)
    if speed is None or not whole.any():
        return {}
    shares = (spent[:, whole] / spent[:, whole].sum(axis=0)).mean(axis=1)
    return dict(zip(schema.PHASES, (shares * 1e6 / speed.estimate.point).tolist(), strict=True))


def context(material: Material) -> dict[str, Any]:
    return {"reasons": reasons(material)}


SECTION = Section(
    id="why",
    order=25,
    title="Why",
    context=context,
    shown=lambda material: bool(reasons(material)),
    open=True,
)
