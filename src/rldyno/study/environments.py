"""The environments of a study, as far as they can be checked without a toolchain."""

from __future__ import annotations

import difflib
import re

from rldyno_rig.envs import BUILT_IN

_CONTINUOUS = (
    *("Pendulum", "MountainCarContinuous", "LunarLanderContinuous", "BipedalWalker", "BipedalWalkerHardcore"),
    *("CarRacing", "Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum"),
    *("InvertedPendulum", "Pusher", "Reacher", "Swimmer", "Walker2d"),
)
_NO_BOX = ("Blackjack", "CliffWalking", "CliffWalkingSlippery", "FrozenLake", "FrozenLake8x8", "Taxi")
# Gymnasium's own, whatever their version. Others are tried in a toolchain before anything is measured.
UNSUITABLE = {
    **dict.fromkeys(_CONTINUOUS, "has continuous actions: only discrete ones are supported"),
    **dict.fromkeys(_NO_BOX, "has observations that are no arrays of numbers: only boxes are supported"),
}


def check_environment(name: str) -> str:
    """The name; a ValueError says what is wrong with it."""
    if not re.fullmatch(r"([\w.]+:)?([\w:.-]+/)?[\w:.-]+", name):
        raise ValueError(f"'{name}' is no environment id; write Name-v0, Namespace/Name-v0 or module:Name-v0")
    stem = re.sub(r"-v\d+$", "", name)
    if stem in UNSUITABLE:
        raise ValueError(f"'{name}' {UNSUITABLE[stem]}")
    built_in_stems = {known.rpartition("-v")[0].lower(): known for known in sorted(BUILT_IN)}
    is_versioned_built_in = stem != name and any(known.startswith(f"{stem}-v") for known in BUILT_IN)
    if name in BUILT_IN or is_versioned_built_in or ":" in name or "/" in name:
        return name
    close = difflib.get_close_matches(stem.lower(), built_in_stems, n=1, cutoff=0.85)
    if close:
        version = name[len(stem) :]
        meant = built_in_stems[close[0]]
        same_version = meant.rpartition("-v")[0] + version
        meant = same_version if same_version in BUILT_IN else meant
        raise ValueError(f"unknown environment '{name}', did you mean '{meant}'?")
    return name
