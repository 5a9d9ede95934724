"""The part `parallel`: how long the workers of a team take until their first gradients are averaged."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, cast

from rldyno_rig import schema
from rldyno_rig.backends.contract import TeamLearner
from rldyno_rig.clock import Clock
from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.loading import load_backend
from rldyno_rig.team.team import PATIENCE_S, join
from rldyno_rig.usability.learner import updating


def first_reduction(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Nanoseconds from the spawn of the team until the first update of all its workers is on the host.

    The steps come in the order in which a trial takes them.
    """
    spawned_ns = int(os.environ[schema.SPAWN_VARIABLE])
    load_backend(job.backend)
    team = join(job.workers, job.collective, Clock(), PATIENCE_S)
    met_ns = time.monotonic_ns() - spawned_ns
    learner, update = updating(job, "mlp")
    cast(TeamLearner, learner).join(team)
    learner.read(update())
    taken_ns = time.monotonic_ns() - spawned_ns
    means = team.means
    team.finish()
    return {"nanoseconds": taken_ns, "met_ns": met_ns, "means": means}
