"""Values that change with the environment step."""

from __future__ import annotations

from typing import Callable


def linear(start: float, end: float, over: int) -> Callable[[int], float]:
    """Of a step: start → end over `over` steps, then end."""
    change = end - start
    return lambda step: start + change * (step / over) if step < over else start + change
