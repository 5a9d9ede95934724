"""The loop and the batch of each algorithm, in NumPy, once for all frameworks.

`train(job)` runs until a budget is reached and returns the number of environment steps. `job.learner` is the
only thing that differs between contestants.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple

import numpy as np

from rldyno_rig.parts.streams import Streams
from rldyno_rig.recorder import Recorder
from rldyno_rig.spec import Spec


class Job(NamedTuple):
    spec: Spec
    env: object
    learner: object
    streams: Streams
    recorder: Recorder
    dtype: np.dtype
    index_dtype: np.dtype


def loops() -> Dict[str, Callable[[Job], int]]:
    from rldyno_rig.algorithms import a2c, dqn, ppo, rainbow

    return {"dqn": dqn.train, "rainbow": rainbow.train, "a2c": a2c.train, "ppo": ppo.train}
