"""JAX against the reference, inside its own toolchain; and what its modes promise beyond being right."""

from __future__ import annotations

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
from rldyno_rig.hyper import ALGORITHMS

MODES = tuple(toolchain("jax").modes)

SETTING_UP = """
    import sys
    sys.path.insert(0, {source!r})
    import numpy as np
    from rldyno_rig import batches, hyper
    from rldyno_rig.backends import jax_
    from rldyno_rig.spec import complete, draw_params

    rng = np.random.default_rng(3)
    spec = complete("dqn", hyper.Dqn(hidden=(8,)), (4,), "float32", 2)
    params = draw_params(spec, rng)

    def make(dtype):
        return jax_.make(spec, params, {mode!r}, "cpu", dtype)

    def given(dtype, seed=0):
        rng = np.random.default_rng(seed)
        return [batches.synthetic(spec, rng, dtype, "int32", 16) for _ in range(4)]

    def losses(learner, lr, dtype="float32"):
        return [learner.read(learner.update(learner.put(*batch), lr))[0] for batch in given(dtype)]
"""


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    try:
        return resolve("jax")
    except Problem as problem:
        pytest.skip(f"{problem.message} ({problem.fix})")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_computes_what_the_reference_computes(
    mode: str, network: str, algorithm: str, interpreter: Interpreter
) -> None:
    subject = Subject(f"jax:{mode}", algorithm, network, "cpu")
    (certificate,) = certificates.prove([subject], {"jax": interpreter}, lambda certificate: None)
    assert certificate["passed"], certificates.sentence(certificate)


def test_neither_a_rate_nor_a_loaded_state_compiles_again(interpreter: Interpreter) -> None:
    run(
        interpreter,
        "jit",
        """
        learner = make("float32")
        state = learner.state()
        first = losses(learner, 1e-2)
        learner.sync_target()
        losses(learner, 1e-3)
        learner.load(state)
        assert losses(learner, 1e-2) == first
        learner.act(*learner.put(given("float32")[0].obs))
        assert learner._descend._cache_size() == 1
        assert learner._choose._cache_size() == 1
        """,
    )


def test_a_float32_program_holds_nothing_wider(interpreter: Interpreter) -> None:
    run(
        interpreter,
        "jit",
        """
        learner = make("float32")
        vectors = learner.flat, learner.m, learner.v, learner.target
        batch = tuple(given("float32")[0])
        program = learner._descend.lower(*vectors, np.zeros(2, np.float32), batch).compile().as_text()
        assert "f32[" in program
        assert "f64[" not in program and "s64[" not in program
        """,
    )


@pytest.mark.parametrize("mode", MODES)
def test_learners_of_both_precisions_live_side_by_side(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        alone = losses(make("float64"), 1e-3, "float64")
        double, single = make("float64"), make("float32")
        rounded = losses(single, 1e-3)
        assert losses(double, 1e-3, "float64") == alone
        assert all(p.dtype == np.float64 for p in double.state()["params"].values())
        assert all(p.dtype == np.float32 for p in single.state()["params"].values())
        assert rounded != alone and np.allclose(rounded, alone, rtol=1e-5)
        """,
    )


@pytest.mark.parametrize("mode", MODES)
def test_states_and_late_readings_survive_donated_buffers(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        learner = make("float32")
        state = learner.state()
        at_once = losses(learner, 1e-2)
        learner.load(state)
        learner.sync_target()
        handles = [learner.update(learner.put(*batch), 1e-2) for batch in given("float32")]
        assert [learner.read(handle)[0] for handle in handles] == at_once
        after = learner.state()
        for name, p in params.items():
            assert np.array_equal(state["params"][name], p.astype(np.float32))
            assert np.array_equal(after["target"][name], p.astype(np.float32))
        """,
    )


def test_eager_updates_do_not_pile_up_in_memory(interpreter: Interpreter) -> None:
    """Operations on fixed arrays inside a differentiated function would keep 18 KB per update."""
    run(
        interpreter,
        "eager",
        """
        def resident_bytes():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        learner = make("float32")
        for _ in range(30):
            losses(learner, 1e-3)
        before = resident_bytes()
        for _ in range(30):
            losses(learner, 1e-3)
        assert resident_bytes() - before < 120 * 6_000
        """,
    )


def run(interpreter: Interpreter, mode: str, script: str) -> None:
    """Run the script after SETTING_UP in the toolchain; its traceback is the failure."""
    source = str(Path(rldyno_rig.__file__).parents[1])
    text = textwrap.dedent(SETTING_UP).format(source=source, mode=mode) + textwrap.dedent(script)
    environment = {**os.environ, **toolchain("jax").worker_variables(1)}
    done = subprocess.run(
        [interpreter.path, "-I", "-c", text], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
