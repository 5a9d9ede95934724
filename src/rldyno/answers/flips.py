"""Where the choice changes along an axis of the study: cores, batch size, network size, environments …"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rldyno.answers.groups import axis_words, setting_label

Choice = tuple[dict[str, Any], str, bool]
"""Axes of a group, the contestant picked there, whether the pick is beyond chance."""


@dataclass(frozen=True)
class Flip:
    """Picks along one axis, everything else the same."""

    axis: str
    setting: str
    """The other axes that vary: `2 cores`."""
    stretches: tuple[tuple[tuple[Any, ...], str, bool], ...]
    """(levels next to each other, their pick, whether it is beyond chance at all of them)."""

    @property
    def flips(self) -> bool:
        return len(self.stretches) > 1

    @property
    def words(self) -> str:
        where = f" ({self.setting})" if self.setting else ""
        parts = [
            f"{levels_words(self.axis, levels)} `{pick}`" + ("" if clear else ", which may be chance")
            for levels, pick, clear in self.stretches
        ]
        if self.flips:
            return f"The choice flips with {axis_name(self.axis)}{where}: {'; '.join(parts)}."
        levels, pick, clear = self.stretches[0]
        doubt = "" if clear else ", though not beyond chance everywhere"
        return f"`{pick}` stays the choice for {levels_words(self.axis, levels)}{where}{doubt}."


def axis_flips(choices: Sequence[Choice]) -> tuple[Flip, ...]:
    """One per axis that varies and per setting of the other axes."""
    if len(choices) < 2:
        return ()
    axes = [name for name in choices[0][0] if len({key_of(axes[name]) for axes, _, _ in choices}) > 1]
    found = []
    for axis in axes:
        others = [name for name in axes if name != axis]
        lines: dict[str, list[Choice]] = {}
        for choice in choices:
            lines.setdefault(json.dumps([choice[0][name] for name in others], default=str), []).append(choice)
        found += [
            Flip(axis, setting_label(line[0][0], others), stretches(axis, line))
            for line in lines.values()
            if len(line) > 1
        ]
    return tuple(found)


def stretches(axis: str, line: Sequence[Choice]) -> tuple[tuple[tuple[Any, ...], str, bool], ...]:
    ordered = sorted(line, key=lambda choice: key_of(choice[0][axis]))
    merged: list[tuple[list[Any], str, bool]] = []
    for axes, pick, clear in ordered:
        if merged and merged[-1][1] == pick:
            levels, _, sure = merged.pop()
            merged.append(([*levels, axes[axis]], pick, sure and clear))
        else:
            merged.append(([axes[axis]], pick, clear))
    return tuple((tuple(levels), pick, clear) for levels, pick, clear in merged)


def key_of(level: Any) -> tuple[bool, float, str]:
    """Numbers in their order, `[64, 64]` by its size, then texts; none comes first."""
    if isinstance(level, str) and level.startswith("["):
        widths = json.loads(level)
        flat = [width for width in widths if isinstance(width, int)]
        return (True, float(sum(flat)), level)
    number = float(level) if isinstance(level, int | float) else 0.0
    return (level is not None, number, "" if isinstance(level, int | float) else str(level))


def levels_words(axis: str, levels: Sequence[Any]) -> str:
    if len(levels) == 1:
        return axis_words(axis, levels[0])
    return f"{axis_name(axis)} {', '.join(map(str, levels[:-1]))} and {levels[-1]}"


def axis_name(axis: str) -> str:
    return {"max_episode_steps": "the limit of episodes"}.get(axis, axis.removeprefix("hyper."))
