"""Values that change with the environment step."""

from __future__ import annotations

from typing import Optional


def linear(start: float, end: float, over: Optional[int], step: int) -> float:
    """start → end over `over` steps, then end; constant start when there is no length to spread it over."""
    if over is None or start == end:
        return start
    return start + (end - start) * min(1.0, step / over)
