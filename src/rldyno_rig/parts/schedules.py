"""Values that change with the environment step."""

from __future__ import annotations


def linear(start: float, end: float, over: int, step: int) -> float:
    """start → end over `over` steps, then end."""
    return start + (end - start) * min(1.0, step / over)
