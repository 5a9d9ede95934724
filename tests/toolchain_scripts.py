"""Python run inside a contestant's toolchain, with a small learner at hand."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import rldyno_rig
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import ensure

SETTING_UP = """
    import sys
    sys.path.insert(0, {source!r})
    import numpy as np
    from rldyno_rig import synthetic
    from rldyno_rig.algorithms import LEARNERS, synthetic_batch
    from rldyno_rig.backends import {framework}_ as backend
    from rldyno_rig.spec import draw_params

    mode = {mode!r}
    algorithm = LEARNERS[{algorithm!r}]
    spec = algorithm.spec(algorithm.hyper(hidden=(8,)), (4,), "float32", 2)
    params = draw_params(spec, np.random.default_rng(3))

    def make(dtype="float32"):
        return backend.make(spec, params, mode, "cpu", dtype)

    def given(dtype="float32"):
        rng = np.random.default_rng(0)
        return [synthetic_batch(spec, rng, dtype, backend.INDEX_DTYPE, 16) for _ in range(4)]

    def update(learner, batch, lr=1e-2):
        return learner.update(learner.put(*batch), lr)

    def act(learner):
        return learner.act(*learner.put(*synthetic.acting(spec, np.random.default_rng(1), "float32", 1)))
"""


def run_script(contestant: str, script: str, algorithm: str = "dqn") -> None:
    """Run the script after SETTING_UP in the contestant's toolchain; its traceback is the failure."""
    done = finish_script(contestant, script, algorithm)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def finish_script(
    contestant: str, script: str, algorithm: str = "dqn", variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """The same, however it ends."""
    framework, _, mode = contestant.partition(":")
    source = str(Path(rldyno_rig.__file__).parents[1])
    setting_up = SETTING_UP.format(source=source, framework=framework, mode=mode, algorithm=algorithm)
    return subprocess.run(
        [
            ensure([framework])[framework].path,
            "-I",
            "-c",
            textwrap.dedent(setting_up) + textwrap.dedent(script),
        ],
        env={**os.environ, **toolchain(framework).worker_variables(1), **variables},
        capture_output=True,
        text=True,
    )
