"""The `limits` job: what the environments and the accelerator of this machine can do at best.

Reads limits.json and writes limits_found.json. What cannot be measured is null, with a reason.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Dict

import numpy as np

from rldyno_rig import envs
from rldyno_rig.loading import backend_name, load_beside

JOB_FILE = "limits.json"
FOUND_FILE = "limits_found.json"

SECONDS = 0.3
VARIED = 256


def find(directory: Path) -> int:
    job = json.loads((directory / JOB_FILE).read_text(encoding="utf-8"))
    if job["what"] == "environments":
        found: Any = [environment_rate(requested) for requested in job["environments"]]
    else:
        found = load_beside("limits", backend_name(job)).find()
    (directory / FOUND_FILE).write_text(json.dumps(found), encoding="utf-8")
    return 0


def environment_rate(requested: Dict[str, Any]) -> Dict[str, Any]:
    """Environment steps per second of `environments` side by side under random actions, without an agent."""
    environment = envs.make(
        requested["environment"], requested["environments"], 0, requested["max_episode_steps"]
    )
    rng = np.random.default_rng(0)
    actions = rng.integers(0, environment.actions, (VARIED, requested["environments"]))
    environment.reset()
    best = 0.0
    for _ in range(3):
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS / 3:
            for row in actions:
                environment.step(row)
            steps += actions.size
        best = max(best, steps / (time.perf_counter() - started))
    return dict(requested, steps_per_s=best)
