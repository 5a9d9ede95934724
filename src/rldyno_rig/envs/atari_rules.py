"""Atari games by name, and what can be chosen about how they are played. Needs no emulator."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any, Dict, Mapping, Optional

from rldyno_rig.envs.atari_games import atari_game

ATARI = "atari"
"""The family of environments, as toolchains name the part that it needs."""
FRAME_SKIP = 4
"""Frames per environment step: the action is repeated, and the last two frames are merged."""
STACK = 4
SIDE = 84
OBSERVATION_SHAPE = (STACK, SIDE, SIDE)

_PREPROCESSED = re.compile(r"ALE/\w+-v5")
_BY_NAMESPACE = re.compile(r"(?:ale_py:|ALE/).+")


@dataclass(frozen=True)
class AtariRules:
    """As in Machado et al. 2018 (arXiv:1709.06009), whose choices the `-v5` ids stand for.

    Rewards are clipped and episodes start with no-ops as in Mnih et al. 2015.
    """

    sticky: float = 0.25
    """Probability with which a frame repeats the action before; 0 in papers before 2018."""
    life_loss: bool = False
    """A lost life ends the episode for learning; returns are still those of whole games."""
    clip_rewards: bool = True
    """Learn from rewards clipped to −1 … 1; returns are those of the game."""
    no_ops: int = 30
    """An episode starts with up to so many frames without an action. [frames]"""
    fire: bool = True
    """Start games that wait for it with the fire button."""
    frame_limit: int = 108_000
    """An episode is cut off after so many frames, half an hour of play. [frames]"""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> AtariRules:
        return AtariRules(**values)

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


def is_preprocessed(environment_id: str) -> bool:
    """Whether rldyno plays it through the emulator's vector form: `ALE/Pong-v5`."""
    return _PREPROCESSED.fullmatch(environment_id) is not None


def is_atari(environment_id: str) -> bool:
    """Whether it needs the emulator: `ALE/Pong-v5`, `PongNoFrameskip-v4`, `Pong-v4`, `ale_py:Pong-v4`."""
    if ":" in environment_id or "/" in environment_id:
        return _BY_NAMESPACE.fullmatch(environment_id) is not None
    return atari_game(environment_id) is not None


def rules_for(environment_id: str, rules: AtariRules) -> Optional[AtariRules]:
    """None where they change nothing."""
    return rules if is_preprocessed(environment_id) else None
