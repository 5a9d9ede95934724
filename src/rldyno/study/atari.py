"""`[atari]` of a study: how its Atari games are played."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from rldyno.study.seeds import whole
from rldyno.toml.source import Source
from rldyno_rig.envs.atari_rules import AtariRules, is_preprocessed

USUAL = AtariRules()


class AtariTable(BaseModel):
    """The fields of `AtariRules`, checked."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    sticky: Annotated[float, Field(ge=0, lt=1)] = USUAL.sticky
    life_loss: bool = USUAL.life_loss
    clip_rewards: bool = USUAL.clip_rewards
    no_ops: Annotated[int, BeforeValidator(whole), Field(ge=0, le=1000)] = USUAL.no_ops
    fire: bool = USUAL.fire
    frame_limit: Annotated[int, BeforeValidator(whole), Field(ge=100, lt=2**31)] = USUAL.frame_limit

    @property
    def rules(self) -> AtariRules:
        return AtariRules(**self.model_dump())


def check_atari(source: Source, environments: tuple[str, ...]) -> None:
    """A table that would change nothing is a mistake."""
    if "atari" in source.table and not any(map(is_preprocessed, environments)):
        source.mistake(("atari",), "no environment of this study is a game such as ALE/Pong-v5")
