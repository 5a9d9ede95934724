"""The `limits` job: what the environments and the accelerator of this machine can do at best.

Reads a `LimitsJob` and writes limits_found.json. What cannot be measured is null, with a reason.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Dict, List, Union

import numpy as np

from rldyno_rig import envs
from rldyno_rig.job_files import LIMITS_FILE, EnvironmentCase, LimitsJob, read_json
from rldyno_rig.loading import load_beside

FOUND_FILE = "limits_found.json"

SECONDS = 0.3
VARIED = 256


def find(directory: Path) -> int:
    job = LimitsJob.from_json(read_json(directory / LIMITS_FILE))
    found: Union[List[Dict[str, Any]], Dict[str, Any]]
    if job.environments:
        found = [{**case.to_json(), "steps_per_s": steps_per_s(case)} for case in job.environments]
    else:
        found = load_beside("limits", job.backend).find()
    (directory / FOUND_FILE).write_text(json.dumps(found), encoding="utf-8")
    return 0


def steps_per_s(case: EnvironmentCase) -> float:
    """Environment steps of all of them together, under random actions, without an agent."""
    environment = envs.make(
        case.environment, case.environments, 0, case.max_episode_steps, threads=case.cores
    )
    rng = np.random.default_rng(0)
    actions = rng.integers(0, environment.actions, (VARIED, case.environments))
    environment.reset()
    best = 0.0
    for _ in range(3):
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS / 3:
            for row in actions:
                environment.step(row)
            steps += actions.size
        best = max(best, steps / (time.perf_counter() - started))
    return best
