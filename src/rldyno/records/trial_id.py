"""The id of a trial: readable words and a hash of what determines its computation."""

from __future__ import annotations

import hashlib
import json
import re

from rldyno_rig.team.share import WEAK
from rldyno_rig.trial_file import TrialFile

_COMPUTATION = (
    *("contestant", "framework", "mode", "algorithm", "environment", "max_episode_steps", "device"),
    *("cores", "workers", "dtype", "division", "seed", "hyper", "budget"),
)

_OF_ENSEMBLES = ("members", "vote", "mask")


def trial_id(file: TrialFile) -> str:
    """A safe file name on any system. `file.trial` itself does not count."""
    content = {key: value for key, value in file.to_json().items() if key in _COMPUTATION}
    # Ids of cold trials and of those with one worker or one member are those of versions without these keys.
    if file.caches == "warm":
        content["caches"] = "warm"
    if file.guest:
        content["guest"] = file.guest.computation
    if file.atari:
        content["atari"] = file.atari.to_json()
    if file.hyper.get("members") == 1:
        content["hyper"] = {name: value for name, value in file.hyper.items() if name not in _OF_ENSEMBLES}
    if file.workers > 1:
        content |= {"collective": file.collective, "scaling": file.scaling, "share_gpu": file.share_gpu}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    words = (str(file.contestant), file.algorithm, file.environment, file.device)
    slug = ".".join(re.sub(r"[^A-Za-z0-9_-]+", "-", word) for word in words)
    return f"{slug[:80]}{_team(file)}.s{file.seed}.{digest[:8]}"


def _team(file: TrialFile) -> str:
    """`.2-native`, `.4-host-strong`; empty for one worker."""
    if file.workers == 1:
        return ""
    words = (str(file.workers), file.collective, *([] if file.scaling == WEAK else [file.scaling]))
    return "." + "-".join(words)
