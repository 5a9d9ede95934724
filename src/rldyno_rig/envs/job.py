"""The `environments` job: whether this toolchain can make the environments of a study."""

from __future__ import annotations

import json
from pathlib import Path

from rldyno_rig import envs
from rldyno_rig.job_files import ENVIRONMENTS_FILE, EnvironmentFacts, EnvironmentsJob, read_json

FOUND_FILE = "environments_found.json"


def try_all(directory: Path) -> int:
    job = EnvironmentsJob.from_json(read_json(directory / ENVIRONMENTS_FILE))
    found = [try_one(name).to_json() for name in job.names]
    (directory / FOUND_FILE).write_text(json.dumps(found), encoding="utf-8")
    return 0


def try_one(name: str) -> EnvironmentFacts:
    try:
        made = envs.make(name, count=1, seed=0)
        made.reset()
    except (ValueError, ImportError) as error:
        return EnvironmentFacts(name, error=str(error))
    except Exception as error:  # any, because it comes from the code of an environment
        return EnvironmentFacts(name, error="{}: {}".format(type(error).__name__, error))
    return EnvironmentFacts(name, None, made.observation_shape, made.observation_dtype, made.actions)
