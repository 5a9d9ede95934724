"""The id of a trial: readable words and a hash of what determines its computation."""

from __future__ import annotations

import hashlib
import json
import re

from rldyno_rig.trial_file import TrialFile

_COMPUTATION = (
    *("contestant", "framework", "mode", "algorithm", "environment", "max_episode_steps", "device"),
    *("cores", "workers", "dtype", "division", "seed", "hyper", "budget"),
)


def trial_id(file: TrialFile) -> str:
    """A safe file name on any system. `file.trial` itself does not count."""
    content = {key: value for key, value in file.to_json().items() if key in _COMPUTATION}
    if file.caches == "warm":  # ids of cold trials are those of versions without the key
        content["caches"] = "warm"
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    words = (str(file.contestant), file.algorithm, file.environment, file.device)
    slug = ".".join(re.sub(r"[^A-Za-z0-9_-]+", "-", word) for word in words)
    return f"{slug[:80]}.s{file.seed}.{digest[:8]}"
