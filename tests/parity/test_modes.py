"""Each mode is what its name says: compiled modes compile, once, and nothing wider than asked for."""

from __future__ import annotations

import pytest

from toolchain_scripts import run_script

GRAPHS = ["theano:graph", "pytensor:graph-numba", "pytensor:graph-c"]


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_tensorflow_compiles_in_xla_mode_only(mode: str) -> None:
    """A string operation has no XLA kernel: it must fail in the one and run in the other.

    Calling a jit_compile function by the wrong route runs it uncompiled, silently and with right results.
    """
    run_script(
        f"tensorflow:{mode}",
        """
        import tensorflow as tf
        call = backend._callable(lambda x: (tf.strings.length(tf.strings.as_string(x)),), mode)
        try:
            call(tf.constant([1.0, 2.0]))
            compiled = False
        except Exception as error:  # the quick way to call a function has a class of its own for it
            assert "unsupported operations" in str(error) and "XLA" in str(error), error
            compiled = True
        assert compiled == (mode == "xla"), compiled
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_tensorflow_traces_once(mode: str) -> None:
    run_script(
        f"tensorflow:{mode}",
        """
        traced = []
        from rldyno_rig.backends import tensorflow_maths as maths
        network = maths.forward
        maths.forward = lambda *args: traced.append(1) or network(*args)
        learner = make()

        def work(lr):
            update(learner, given()[0], lr)
            act(learner)
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


@pytest.mark.parametrize("mode", ["compile", "aot"])
def test_torch_compiles_once_and_runs_without_the_python_of_the_network(mode: str) -> None:
    run_script(
        f"torch:{mode}",
        """
        from rldyno_rig.backends import torch_maths as maths

        def called(*arguments):
            raise AssertionError("traced again, or not compiled")

        learner = make()
        update(learner, given()[0]), act(learner)
        state = learner.state()
        maths.dense = learner._compile = called
        for lr in (1e-3, 0.5):
            update(learner, given()[1], lr), act(learner)
            learner.load(state)
        """,
    )


@pytest.mark.parametrize("mode", ["eager", "compile", "aot"])
def test_torch_multiplies_wide_layers_by_onednn_and_rightly(mode: str) -> None:
    """In float32, which alone takes this way: moments, actions and loss of the proof of a shape."""
    run_script(
        f"torch:{mode}",
        """
        from rldyno_rig.backends import torch_products as products
        from rldyno_rig.proof.forms import shape_of
        from rldyno_rig.proof.ladder import Climb

        wide = algorithm.spec(algorithm.hyper(hidden=(1024, 512)), (4,), "float32", 2)
        build = lambda spec, params, dtype: backend.make(spec, params, mode, "cpu", dtype)
        times, taken = products.times_transposed, []
        products.times_transposed = lambda *arrays: taken.append(1) or times(*arrays)
        rungs = list(Climb(wide, build, "float32", backend.INDEX_DTYPE, shape_of(wide)).rungs())
        assert taken
        assert "optimiser after 1" in [rung.name for rung in rungs]
        assert all(rung.passed for rung in rungs), [rung.failure() for rung in rungs if not rung.passed]
        """,
    )


def test_torch_learners_of_two_specs_live_side_by_side() -> None:
    """Nothing checks at a call what a program was traced for: each learner must keep its own."""
    run_script(
        "torch:compile",
        """
        import dataclasses

        def losses(learner):
            return [learner.read(update(learner, batch))[0] for batch in given()]

        alone = losses(make())
        learner = make()
        plain, spec = spec, dataclasses.replace(spec, hyper=algorithm.hyper(hidden=(8,), huber_delta=0.01))
        other = make()
        assert losses(other) != alone
        assert losses(learner) == alone
        """,
    )


def test_torch_packages_are_kept_by_all_that_decides_their_code() -> None:
    run_script(
        "torch:aot",
        """
        import dataclasses, pathlib, tempfile
        from rldyno_rig.backends import torch_compiled

        empty = pathlib.Path(tempfile.mkdtemp())
        torch_compiled.packages = lambda: empty
        learner = make()
        loss = learner.read(update(learner, given()[0]))[0]
        written = list(empty.iterdir())
        assert len(written) == 1, written

        class Compiled(Exception):
            pass

        def compiled(*arguments):
            raise Compiled

        torch_compiled.write_package = compiled
        learner = make()
        assert learner.read(update(learner, given()[0]))[0] == loss

        def compiles(learner):
            try:
                update(learner, given()[0])
            except Compiled:
                return True
            return False

        assert not compiles(make())
        assert compiles(make("float64"))
        threads = torch_compiled.torch.get_num_threads
        torch_compiled.torch.get_num_threads = lambda: 2
        assert compiles(make())
        torch_compiled.torch.get_num_threads = threads
        spec = dataclasses.replace(spec, hyper=algorithm.hyper(hidden=(8,), huber_delta=0.01))
        assert compiles(make())
        torch_compiled.hashes = lambda path: {"backend_sha256": "0" * 64}
        spec = dataclasses.replace(spec, hyper=algorithm.hyper(hidden=(8,)))
        assert compiles(make())
        """,
    )


def test_jax_compiles_once() -> None:
    run_script(
        "jax:jit",
        """
        learner = make()
        state = learner.state()
        for lr in (1e-2, 1e-3):
            update(learner, given()[0], lr), act(learner), learner.sync_target()
            learner.load(state)
        assert learner._descend._cache_size() == 1
        assert learner._choose._cache_size() == 1
        """,
    )


def test_jax_programs_of_float32_hold_nothing_wider() -> None:
    run_script(
        "jax:jit",
        """
        learner = make()
        vectors = learner.flat, learner.m, learner.v, learner.target
        batch = tuple(given()[0])
        program = learner._descend.lower(*vectors, np.zeros(2, np.float32), batch).compile().as_text()
        assert "f32[" in program
        assert "f64[" not in program and "s64[" not in program
        """,
    )


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_jax_learners_of_both_precisions_live_side_by_side(mode: str) -> None:
    run_script(
        f"jax:{mode}",
        """
        def losses(learner, dtype):
            return [learner.read(update(learner, batch))[0] for batch in given(dtype)]

        alone = losses(make("float64"), "float64")
        double, single = make("float64"), make("float32")
        rounded = losses(single, "float32")
        assert losses(double, "float64") == alone
        assert all(p.dtype == np.float64 for p in double.state()["params"].values())
        assert all(p.dtype == np.float32 for p in single.state()["params"].values())
        assert rounded != alone and np.allclose(rounded, alone, rtol=1e-5)
        """,
    )


def test_eager_jax_updates_do_not_pile_up_in_memory() -> None:
    """Operations on fixed arrays inside a differentiated function would keep 18 KB per update."""
    run_script(
        "jax:eager",
        """
        def resident_bytes():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        learner = make()

        def many():
            for _ in range(30):
                for batch in given():
                    learner.read(update(learner, batch))

        many()
        before = resident_bytes()
        many()
        assert resident_bytes() - before < 120 * 6_000
        """,
    )


@pytest.mark.parametrize(
    ("contestant", "python_of_the_network", "replays"),
    [
        ("mxnet:eager", "maths.forward", False),
        ("mxnet:hybrid", "maths.forward", True),
        ("chainer:eager", "maths.layers", False),
        ("chainer:static", "maths.layers", True),
    ],
)
def test_recorded_modes_run_without_the_python_of_the_network(
    contestant: str, python_of_the_network: str, replays: bool
) -> None:
    run_script(
        contestant,
        f"""
        from rldyno_rig.backends import {contestant.partition(":")[0]}_maths as maths

        class Called(Exception):
            pass

        def called(*arguments):
            raise Called

        learner = make()
        for _ in range(2):
            update(learner, given()[0]), act(learner)
        {python_of_the_network} = called
        try:
            update(learner, given()[1]), act(learner)
            replayed = True
        except Called:
            replayed = False
        assert replayed == {replays}, replayed
        """,
    )


@pytest.mark.parametrize("contestant", GRAPHS)
def test_graphs_of_float32_hold_no_float64_and_compile_nothing_for_proofs_only(contestant: str) -> None:
    run_script(
        contestant,
        """
        learner = make()
        update(learner, given()[0]), act(learner)
        for function in (learner._update, learner._act):
            nodes = function.maker.fgraph.toposort()
            assert len(nodes) > 5
            wide = [node for node in nodes for out in node.outputs if out.type.dtype == "float64"]
            assert wide == [], wide
        assert not {"_forward", "_gradients"} & set(vars(learner))
        """,
    )


def test_programs_of_jax_keep_vectors_of_float32() -> None:
    """PyTensor's own sums leave float64 behind there, and the shared vectors take what they are given."""
    run_script(
        "pytensor:graph-jax",
        """
        learner = make()
        update(learner, given()[0]), act(learner)
        kinds = {name: str(vector.container.storage[0].dtype) for name, vector in learner.vectors.items()}
        assert set(kinds.values()) == {"float32"}, kinds
        """,
    )


@pytest.mark.parametrize("contestant", [name for name in GRAPHS if name != "pytensor:graph-numba"])
def test_c_code_is_linked_to_the_blas_of_scipy(contestant: str) -> None:
    run_script(
        contestant,
        """
        learner = make()
        update(learner, given()[0])
        blas = backend.facts()["blas"]
        library = blas[mode] if isinstance(blas, dict) else blas
        assert "openblas" in library, library
        products = [type(node.op).__name__ for node in learner._update.maker.fgraph.toposort()]
        assert "Dot22" in products, products
        """,
    )


@pytest.mark.parametrize("contestant", GRAPHS)
def test_tanh_of_graphs_is_numpys_for_any_strides_and_numbers(contestant: str) -> None:
    run_script(
        contestant,
        """
        learner = make()
        rng = np.random.default_rng(0)
        for dtype in ("float32", "float64"):
            x = learner.model.T.matrix("x", dtype=dtype)
            y = learner.model.tanh(x)
            slope = learner.model.T.grad(y.sum(), x)
            graph = learner.framework.function([x], [y, slope], mode=learner.mode)
            whole = (4 * rng.standard_normal((9, 14))).astype(dtype)
            odd = np.array([[0, -0.0, 1e-30, 1e-4, 20, -20, np.inf, -np.inf, np.nan]], dtype)
            for given in (whole, whole[:4], whole.T, whole[::2, 1::3], whole[:0], odd):
                y, slope = graph(given)
                right = np.tanh(np.ascontiguousarray(given))
                assert y.dtype == slope.dtype == given.dtype
                assert np.array_equal(y, right, equal_nan=True), (dtype, given.shape)
                assert np.allclose(slope, 1 - right * right, rtol=0, atol=1e-7, equal_nan=True)
        names = {type(node.op).__name__ for node in graph.maker.fgraph.toposort()}
        assert "Tanh" in names, names
        """,
    )


@pytest.mark.parametrize("convolutions", [(), ((4, 4, 2),)])
def test_jax_makes_several_updates_in_one_program_only_where_that_is_faster(convolutions: tuple) -> None:
    """XLA's convolutions are slow inside a loop on a CPU. Elsewhere: traced once, one program per call."""
    run_script(
        "jax:jit",
        f"""
        from rldyno_rig.algorithms import stacked_batch
        from rldyno_rig.backends import jax_maths as maths

        convolutions = {convolutions!r}
        if convolutions:
            hyper = algorithm.hyper(hidden=(8,), convolutions=convolutions)
            spec = algorithm.spec(hyper, (1, 8, 8), "uint8", 2)
            params = draw_params(spec, np.random.default_rng(3))
            assert not hasattr(make(), "update_many")
        else:
            learner = make()
            batches = stacked_batch(spec, np.random.default_rng(0), "float32", backend.INDEX_DTYPE, 16, 5)
            traced = []
            network = maths.forward
            maths.forward = lambda *args: traced.append(1) or network(*args)
            learner.update_many(learner.put(*batches), 1e-3)
            once = len(traced)
            learner._descend = None
            for lr in (1e-3, 0.5):
                learner.update_many(learner.put(*batches), lr)
            assert once == len(traced) == 1, traced
            assert learner.state()["t"] == 15
        """,
        algorithm="ppo",
    )
