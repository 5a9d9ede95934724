"""TensorFlow against the reference, in its own toolchain; and what its modes promise beyond being right."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

import rldyno_rig
from rldyno import certificates
from rldyno.certificates import NETWORKS, Subject
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig import hyper, schema
from rldyno_rig.hyper import ALGORITHMS

MODES = ("eager", "graph", "xla")
STEPS = 2000

SETTING_UP = """
    import sys
    sys.path.insert(0, {source!r})
    import numpy as np
    import tensorflow as tf
    from rldyno_rig import batches, hyper
    from rldyno_rig.backends import tensorflow_
    from rldyno_rig.spec import complete, draw_params

    mode = {mode!r}
"""


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    try:
        return resolve("tensorflow", {})
    except Problem as problem:
        pytest.skip(f"{problem.message}: `rldyno setup tensorflow` builds it")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
def test_computes_what_the_reference_computes(mode: str, interpreter: Interpreter) -> None:
    wanted = [Subject(f"tensorflow:{mode}", a, n, "cpu") for a in ALGORITHMS for n in NETWORKS]
    proven = certificates.prove(wanted, {"tensorflow": interpreter}, lambda certificate: None)
    assert len(proven) == len(wanted)
    for certificate in proven:
        assert certificate["passed"], certificates.sentence(certificate)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_takes_the_actions_numpy_takes(
    algorithm: str, mode: str, interpreter: Interpreter, tmp_path: Path
) -> None:
    expected = actions(interpreter, "numpy", "eager", algorithm, tmp_path / "numpy")
    got = actions(interpreter, "tensorflow", mode, algorithm, tmp_path / "tensorflow")
    assert len(expected) > 0
    assert got == expected


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_xla_mode_compiles_and_graph_mode_does_not(mode: str, interpreter: Interpreter) -> None:
    """A string operation has no XLA kernel: it must fail in the one and run in the other.

    Calling a jit_compile function by the wrong route runs it uncompiled, silently and with right results.
    """
    run(
        interpreter,
        mode,
        """
        call = tensorflow_._callable(lambda x: (tf.strings.length(tf.strings.as_string(x)),), mode)
        try:
            call(tf.constant([1.0, 2.0]))
            compiled = False
        except tf.errors.InvalidArgumentError:
            compiled = True
        assert compiled == (mode == "xla"), compiled
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_traces_once_whatever_the_rate_and_the_state(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        rng = np.random.default_rng(3)
        spec = complete("dqn", hyper.Dqn(hidden=(8,)), (4,), "float32", 2)
        traced = []
        network = tensorflow_._network
        tensorflow_._network = lambda *args: traced.append(1) or network(*args)
        learner = tensorflow_.make(spec, draw_params(spec, rng), mode, "cpu", "float32")

        def work(lr):
            learner.update(learner.put(*batches.synthetic(spec, rng, "float32", "int64", 16)), lr)
            learner.act(*learner.put(*batches.acting(spec, rng, "float32", 1)))
            learner.sync_target()

        work(1e-3)
        once = len(traced)
        assert once
        before = learner.state()
        for lr in (1e-3, 3e-4, 0.5):
            work(lr)
            learner.load(before)
        assert len(traced) == once, (len(traced), once)
        """,
    )


def actions(interpreter: Interpreter, framework: str, mode: str, algorithm: str, home: Path) -> str:
    """The trace of a short float64 run."""
    home.mkdir()
    trial = {
        "framework": framework,
        "mode": mode,
        "algorithm": algorithm,
        "environment": "CartPole-v1",
        "max_episode_steps": None,
        "device": "cpu",
        "dtype": "float64",
        "seed": 5,
        "hyper": hyper.to_json(hyper.defaults(algorithm, "CartPole-v1")),
        "budget": dict.fromkeys(("episodes", "wall_s", "stop_return", "stop_episodes")) | {"steps": STEPS},
    }
    (home / schema.TRIAL_FILE).write_text(json.dumps(trial), encoding="utf-8")
    rig = str(Path(rldyno_rig.__file__).parent)
    start([interpreter.path, "-I", rig, "train", home])
    return (home / schema.ACTIONS_FILE).read_text(encoding="utf-8")


def run(interpreter: Interpreter, mode: str, script: str) -> None:
    """Run the script after SETTING_UP in the toolchain; its traceback is the failure."""
    source = str(Path(rldyno_rig.__file__).parents[1])
    text = textwrap.dedent(SETTING_UP).format(source=source, mode=mode) + textwrap.dedent(script)
    start([interpreter.path, "-I", "-c", text])


def start(command: list[str | Path]) -> None:
    variables = {**os.environ, **toolchain("tensorflow").worker_variables(1)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
