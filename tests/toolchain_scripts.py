"""Python run inside a contestant's toolchain, with a small learner at hand."""

from __future__ import annotations

import os
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import rldyno_rig
from rldyno.processes.mpi import mpi_command
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter, ensure

SETTING_UP = """
    import os
    import sys
    sys.path.insert(0, {source!r})
    sys.path += filter(None, os.environ.get("RLDYNO_PARTS", "").split(os.pathsep))
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
    framework = contestant.partition(":")[0]
    return subprocess.run(
        script_command(ensure([framework])[framework], contestant, script, algorithm),
        env=script_environment(framework, variables),
        capture_output=True,
        text=True,
    )


def finish_below_mpi(
    contestant: str, script: str, collective: str, ranks: Sequence[Mapping[str, str]], folder: Path
) -> list[subprocess.CompletedProcess[str]]:
    """The same for workers that the toolchain's mpiexec starts, each with variables of its own."""
    framework = contestant.partition(":")[0]
    interpreter = ensure([framework], needs={framework: [collective]})[framework]
    part = interpreter.part_for(collective)
    assert part is not None
    assert part.mpiexec is not None
    # mpiexec would mix what they print.
    said = [folder / f"{rank}.said" for rank in range(len(ranks))]
    alone = ["/bin/sh", "-c", 'exec "$@" >"$SAID" 2>&1', "worker"]
    done = subprocess.run(
        mpi_command(
            part.mpiexec,
            [*alone, *script_command(interpreter, contestant, script)],
            [{**own, "SAID": str(path)} for own, path in zip(ranks, said, strict=True)],
        ),
        env=script_environment(framework, interpreter.variables_for(collective)),
        capture_output=True,
        text=True,
    )
    texts = [path.read_text() if path.exists() else "" for path in said]
    return [subprocess.CompletedProcess(done.args, done.returncode, text, done.stderr) for text in texts]


def script_command(
    interpreter: Interpreter, contestant: str, script: str, algorithm: str = "dqn"
) -> list[str]:
    framework, _, mode = contestant.partition(":")
    source = str(Path(rldyno_rig.__file__).parents[1])
    setting_up = SETTING_UP.format(source=source, framework=framework, mode=mode, algorithm=algorithm)
    return [str(interpreter.path), "-I", "-c", textwrap.dedent(setting_up) + textwrap.dedent(script)]


def script_environment(framework: str, variables: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **toolchain(framework).worker_variables(1), **variables}
