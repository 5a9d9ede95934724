"""What Chainer's modes promise beyond being right, in its own toolchain."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

import rldyno_rig
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter, resolve

SETTING_UP = """
    import sys
    sys.path.insert(0, {source!r})
    import numpy as np
    from rldyno_rig import batches, hyper
    from rldyno_rig.backends import chainer_
    from rldyno_rig.spec import complete, draw_params

    rng = np.random.default_rng(3)
    spec = complete("rainbow", hyper.Rainbow(hidden=(8,)), (4,), "float32", 2)
    mode = {mode!r}
    learner = chainer_.make(spec, draw_params(spec, rng), mode, "cpu", "float32")
    given = [batches.synthetic(spec, rng, "float32", chainer_.INDEX_DTYPE, 16) for _ in range(4)]

    def update(batch):
        return learner.update(learner.put(*batch), 1e-2)
"""


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    try:
        return resolve("chainer")
    except Problem as problem:
        pytest.skip(f"{problem.message} ({problem.fix})")


@pytest.mark.parametrize("mode", toolchain("chainer").modes)
def test_updates_can_be_repeated_and_read_late(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        state = learner.state()
        read_at_once = [learner.read(update(batch)) for batch in given]
        learner.load(state)
        for handle, (loss, priorities) in zip([update(batch) for batch in given], read_at_once):
            again, priorities_again = learner.read(handle)
            assert again == loss, (again, loss)
            assert np.array_equal(priorities_again, priorities)
        """,
    )


@pytest.mark.parametrize("mode", toolchain("chainer").modes)
def test_batches_are_left_alone(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        before = [[array.copy() for array in batch] for batch in given]
        for batch in given:
            update(batch)
        for batch, copies in zip(given, before):
            assert all(np.array_equal(array, copy) for array, copy in zip(batch, copies))
        """,
    )


@pytest.mark.parametrize("mode", toolchain("chainer").modes)
def test_only_static_mode_runs_without_the_python_of_the_network(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        class Called(Exception):
            pass

        def called(*arguments):
            raise Called

        acting = batches.acting(spec, rng, "float32", 1)
        for _ in range(2):
            update(given[0])
            learner.act(*learner.put(*acting))
        chainer_.Online.forward = called
        try:
            update(given[1])
            learner.act(*learner.put(*acting))
            replayed = True
        except Called:
            replayed = False
        assert replayed == (mode == "static"), replayed
        """,
    )


def run(interpreter: Interpreter, mode: str, script: str) -> None:
    """Run the script after SETTING_UP in the toolchain; its traceback is the failure."""
    source = str(Path(rldyno_rig.__file__).parents[1])
    text = textwrap.dedent(SETTING_UP).format(source=source, mode=mode) + textwrap.dedent(script)
    variables = {**os.environ, **toolchain("chainer").worker_variables(1)}
    done = subprocess.run([interpreter.path, "-I", "-c", text], capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
