"""PyTorch against the reference, inside its own toolchain; and what its modes promise beyond being right."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

import rldyno_rig
from rldyno import certificates
from rldyno.certificates import NETWORKS, Subject
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno_rig.hyper import ALGORITHMS

MODES = ("eager", "compile")

SETTING_UP = """
    import sys
    sys.path.insert(0, {source!r})
    import numpy as np
    import torch
    from rldyno_rig import batches, hyper
    from rldyno_rig.backends import torch_
    from rldyno_rig.spec import complete, draw_params

    rng = np.random.default_rng(3)
    spec = complete("dqn", hyper.Dqn(hidden=(8,)), (4,), "float32", 2)
    learner = torch_.make(spec, draw_params(spec, rng), {mode!r}, "cpu", "float32")
    given = [batches.synthetic(spec, rng, "float32", "int64", 16) for _ in range(4)]

    def losses(lr):
        return [learner.read(learner.update(learner.put(*batch), lr))[0] for batch in given]
"""


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return ensure(["torch"])["torch"]


# Compiling every network from cold takes minutes; the certificate is then kept until something changes.
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_computes_what_the_reference_computes(
    mode: str, network: str, algorithm: str, interpreter: Interpreter
) -> None:
    subject = Subject(f"torch:{mode}", algorithm, network, "cpu")
    (certificate,) = certificates.prove([subject], {"torch": interpreter}, lambda certificate: None)
    assert certificate["passed"], certificates.sentence(certificate)


@pytest.mark.parametrize("mode", MODES)
def test_loading_a_state_repeats_history_without_compiling_again(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        losses(1e-3)
        torch._dynamo.config.error_on_recompile = True
        state = learner.state()
        first, after = losses(1e-2), learner.state()
        learner.load(state)
        assert losses(1e-2) == first
        again = learner.state()
        assert again["t"] == after["t"] == 8
        for key in ("params", "target", "m", "v"):
            for name in after[key]:
                assert np.array_equal(after[key][name], again[key][name]), (key, name)
        """,
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_state_is_the_callers_own(mode: str, interpreter: Interpreter) -> None:
    run(
        interpreter,
        mode,
        """
        state = learner.state()
        before = {name: p.copy() for name, p in state["params"].items()}
        losses(1e-3)
        assert all(np.array_equal(before[name], state["params"][name]) for name in before)
        assert not any(np.array_equal(before[n], p) for n, p in learner.state()["params"].items())
        """,
    )


def test_the_target_moves_only_when_it_is_synced(interpreter: Interpreter) -> None:
    run(
        interpreter,
        "eager",
        """
        before = learner.state()["target"]
        losses(1e-3)
        moved = learner.state()
        assert all(np.array_equal(before[name], moved["target"][name]) for name in before)
        learner.sync_target()
        synced = learner.state()["target"]
        assert all(np.array_equal(moved["params"][name], synced[name]) for name in before)
        """,
    )


def run(interpreter: Interpreter, mode: str, script: str) -> None:
    """Run the script after SETTING_UP in the toolchain; its traceback is the failure."""
    source = str(Path(rldyno_rig.__file__).parents[1])
    text = textwrap.dedent(SETTING_UP).format(source=source, mode=mode) + textwrap.dedent(script)
    done = subprocess.run([interpreter.path, "-I", "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
