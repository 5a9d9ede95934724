"""What the graphs of Theano and its heir PyTensor promise beyond being right, in their own toolchains."""

from __future__ import annotations

import os
import subprocess
import textwrap
from pathlib import Path

import pytest

import rldyno_rig
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import resolve

CONTESTANTS = [f"{name}:{mode}" for name in ("theano", "pytensor") for mode in toolchain(name).modes]

SETTING_UP = """
    import sys
    sys.path.insert(0, {source!r})
    import numpy as np
    from rldyno_rig import batches, hyper
    from rldyno_rig.backends import {framework}_ as backend
    from rldyno_rig.spec import complete, draw_params

    rng = np.random.default_rng(3)
    spec = complete("rainbow", hyper.Rainbow(hidden=(8,)), (4,), "float32", 2)
    mode = {mode!r}
    learner = backend.make(spec, draw_params(spec, rng), mode, "cpu", "float32")
    given = [batches.synthetic(spec, rng, "float32", backend.INDEX_DTYPE, 16) for _ in range(4)]

    def update(batch):
        return learner.update(learner.put(*batch), 1e-2)
"""


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_updates_can_be_repeated_and_read_late(contestant: str) -> None:
    run(
        contestant,
        """
        state = learner.state()
        read_at_once = [learner.read(update(batch)) for batch in given]
        compiled = learner._update
        learner.load(state)
        for handle, (loss, priorities) in zip([update(batch) for batch in given], read_at_once):
            again, priorities_again = learner.read(handle)
            assert again == loss, (again, loss)
            assert np.array_equal(priorities_again, priorities)
        assert learner._update is compiled
        """,
    )


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_batches_and_states_belong_to_the_caller(contestant: str) -> None:
    run(
        contestant,
        """
        before = [[array.copy() for array in batch] for batch in given]
        state = learner.state()
        copies = {name: array.copy() for name, array in state["params"].items()}
        for batch in given:
            update(batch)
        learner.sync_target()
        for batch, arrays in zip(given, before):
            assert all(np.array_equal(array, copy) for array, copy in zip(batch, arrays))
        assert all(np.array_equal(state["params"][name], copies[name]) for name in copies)
        assert all(np.array_equal(state["target"][name], copies[name]) for name in copies)
        """,
    )


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_a_float32_graph_holds_no_float64(contestant: str) -> None:
    run(
        contestant,
        """
        update(given[0])
        learner.act(*learner.put(*batches.acting(spec, rng, "float32", 1)))
        for function in (learner._update, learner._act):
            nodes = function.maker.fgraph.toposort()
            assert len(nodes) > 5
            wide = [node for node in nodes for out in node.outputs if out.type.dtype == "float64"]
            assert wide == [], wide
        """,
    )


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_training_compiles_nothing_that_only_proofs_need(contestant: str) -> None:
    run(
        contestant,
        """
        update(given[0])
        learner.act(*learner.put(*batches.acting(spec, rng, "float32", 1)))
        assert {"_update", "_act"} <= set(vars(learner))
        assert not {"_forward", "_grads"} & set(vars(learner))
        """,
    )


@pytest.mark.parametrize("contestant", [name for name in CONTESTANTS if name != "pytensor:graph-numba"])
def test_c_code_is_linked_to_the_blas_of_scipy(contestant: str) -> None:
    run(
        contestant,
        """
        update(given[0])
        blas = backend.facts()["blas"]
        library = blas[mode] if isinstance(blas, dict) else blas
        assert "openblas" in library, library
        products = [type(node.op).__name__ for node in learner._update.maker.fgraph.toposort()]
        assert "Dot22" in products, products
        """,
    )


def run(contestant: str, script: str) -> None:
    """Run the script after SETTING_UP in the toolchain; its traceback is the failure."""
    framework, _, mode = contestant.partition(":")
    try:
        interpreter = resolve(framework)
    except Problem as problem:
        pytest.skip(f"{problem.message} ({problem.fix})")
    source = str(Path(rldyno_rig.__file__).parents[1])
    setting_up = textwrap.dedent(SETTING_UP).format(source=source, framework=framework, mode=mode)
    variables = {**os.environ, **toolchain(framework).worker_variables(1)}
    done = subprocess.run(
        [interpreter.path, "-I", "-c", setting_up + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        env=variables,
    )
    assert done.returncode == 0, done.stdout + done.stderr
