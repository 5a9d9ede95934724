"""Atari games by any id under which an environment of them is made."""

from __future__ import annotations

import re
from typing import Optional

GAMES = frozenset(
    [
        "adventure",
        "airraid",
        "alien",
        "amidar",
        "assault",
        "asterix",
        "asteroids",
        "atlantis",
        "bankheist",
        "battlezone",
        "beamrider",
        "berzerk",
        "bowling",
        "boxing",
        "breakout",
        "carnival",
        "centipede",
        "choppercommand",
        "crazyclimber",
        "defender",
        "demonattack",
        "doubledunk",
        "elevatoraction",
        "enduro",
        "fishingderby",
        "freeway",
        "frostbite",
        "gopher",
        "gravitar",
        "hero",
        "icehockey",
        "jamesbond",
        "journeyescape",
        "kaboom",
        "kangaroo",
        "krull",
        "kungfumaster",
        "montezumarevenge",
        "mspacman",
        "namethisgame",
        "phoenix",
        "pitfall",
        "pong",
        "pooyan",
        "privateeye",
        "qbert",
        "riverraid",
        "roadrunner",
        "robotank",
        "seaquest",
        "skiing",
        "solaris",
        "spaceinvaders",
        "stargunner",
        "tennis",
        "timepilot",
        "tutankham",
        "upndown",
        "venture",
        "videopinball",
        "wizardofwor",
        "yarsrevenge",
        "zaxxon",
    ]
)
"""Those with ids without `ALE/`, from the time before that name space."""
MODULE = re.compile(r"^[\w.]+:")
OLD_ID = re.compile(r"([A-Za-z]+?)(?:-ram)?(?:Deterministic|NoFrameskip)?-v[04]")


def atari_game(environment: str) -> Optional[str]:
    """`pong` of ALE/Pong-v5, ale_py:ALE/Pong-v5, PongNoFrameskip-v4, Pong-ramDeterministic-v0; else None."""
    name = MODULE.sub("", environment)
    if name.startswith("ALE/"):
        return name.removeprefix("ALE/").partition("-")[0].replace("_", "").lower()
    found = OLD_ID.fullmatch(name)
    game = found[1].lower() if found else None
    return game if game in GAMES else None
