"""Numbers as people read them: three significant digits, the interval to the same decimal place.

By hand, because no library rounds the bounds of an interval to the decimals of its estimate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rldyno.stats.estimates import RANGE, Estimate


def decimals(value: float, digits: int = 3) -> int:
    """Decimal places that show `digits` significant digits of a value."""
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def number(value: float, places: int | None = None) -> str:
    if math.isinf(value):
        return "∞"
    return f"{value:,.{decimals(value) if places is None else places}f}"


def bounds(estimate: Estimate, scale: float = 1.0) -> tuple[str, str] | None:
    """Both ends of the interval; None for a single run."""
    if estimate.low is None or estimate.high is None:
        return None
    places = decimals((estimate.point if math.isfinite(estimate.point) else estimate.low) * scale)
    return number(estimate.low * scale, places), number(estimate.high * scale, places)


def interval(estimate: Estimate, scale: float = 1.0) -> str | None:
    """`[5.02, 7.51]`, for sentences; `(range 5.02–7.51)` where that is all that so few runs give."""
    ends = bounds(estimate, scale)
    if ends is None:
        return None
    return f"(range {ends[0]}–{ends[1]})" if estimate.kind == RANGE else f"[{ends[0]}, {ends[1]}]"


def span(estimate: Estimate, scale: float = 1.0, dash: str = "–") -> str | None:
    """`5.02–7.51`, for tables; `range 5.02–7.51`."""
    ends = bounds(estimate, scale)
    prefix = "range " if estimate.kind == RANGE else ""
    return f"{prefix}{ends[0]}{dash}{ends[1]}" if ends else None


def factor(value: float) -> str:
    """`3.2×`; near one a digit more, `1.05×`: five percent are not nothing."""
    places = min(2, max(decimals(value, 2), decimals(value - 1, 1)))
    return f"{value:,.{decimals(value, 2) if value < 0.1 else places}f}×"


def count(value: float) -> str:
    """`224,000`: three digits of a large count, all of a small one."""
    if math.isinf(value):
        return "∞"
    return f"{float(f'{value:.3g}'):,.0f}"


def counted(many: int, noun: str) -> str:
    """`1 pack`, `2 packs`."""
    return f"{many} {noun}" if many == 1 else f"{many} {noun}s"


def first_and_more(names: Sequence[str]) -> str:
    """`a`, or `a and 3 more`."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
