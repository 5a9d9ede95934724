"""The hot parts of the loop in C: compiled once, and the same as in NumPy, bit for bit."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closed_runs import trial
from rldyno.toolchains import native as compiled
from rldyno_rig import identity, schema, training
from rldyno_rig.envs.journal import WAITING
from rldyno_rig.parts import native
from rldyno_rig.parts.advantage import estimator, gae
from rldyno_rig.parts.n_step import n_steps
from rldyno_rig.parts.native_replay import NativeReplay
from rldyno_rig.parts.native_tree import NativeSumTree
from rldyno_rig.parts.replay import Replay
from rldyno_rig.parts.sum_tree import SumTree

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, compiled.COMPILERS)), reason="no C compiler on this machine"
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = compiled.built(tmp_path_factory.mktemp("native"))
    assert path is not None
    return path


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path | str], Any]]:
    """Names a library to the rig and loads it."""

    def named(path: Path | str) -> Any:
        monkeypatch.setenv(schema.NATIVE_VARIABLE, str(path))
        native.library.cache_clear()
        return native.library()

    yield named
    native.library.cache_clear()


def test_without_a_compiler_numpy_does_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[Path | str], Any]
) -> None:
    monkeypatch.setattr(compiled, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(compiled, "COMPILERS", ("no-such-compiler",))
    assert compiled.variables() == {}
    assert use("") is None
    assert native.engine() == native.NUMPY


@needs_compiler
def test_a_failed_compilation_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "native.c"
    broken.write_text("not C\n")
    monkeypatch.setattr(compiled, "SOURCE", broken)
    home = tmp_path / "home"
    assert compiled.built(home) is None
    assert list(home.iterdir()) == []


@needs_compiler
def test_it_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiled.built(tmp_path)
    assert path is not None
    assert [path] == list(tmp_path.iterdir())
    compiled.built.cache_clear()
    monkeypatch.setattr(compiled, "COMPILERS", ())
    assert compiled.built(tmp_path) == path


@needs_compiler
def test_a_library_that_is_named_must_be_the_right_one(
    library: Path, tmp_path: Path, use: Callable[[Path | str], Any]
) -> None:
    assert use(library) is not None
    assert native.engine() == native.C
    other = tmp_path / "native-0123456789abcdef.so"
    shutil.copy(library, other)
    with pytest.raises(ImportError, match="compiled from other code"):
        use(other)
    unreadable = tmp_path / library.name
    unreadable.write_text("not a library")
    for path in (unreadable, tmp_path / "gone" / library.name):
        with pytest.raises(ImportError, match="rldyno run"):
            use(path)


def test_its_source_is_part_of_the_code_that_ran() -> None:
    assert native.SOURCE in identity.sources(identity.HERE)


SHAPES = [((3,), "float32"), ((4,), "float32"), ((2, 5, 5), "uint8"), ((20,), "float32")]


@needs_compiler
@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize(("shape", "obs_dtype"), SHAPES)
@pytest.mark.parametrize(("dtype", "index_dtype"), [("float32", "int64"), ("float64", "int32")])
def test_the_memory_holds_what_the_one_in_numpy_holds(
    n: int,
    shape: tuple[int, ...],
    obs_dtype: str,
    dtype: str,
    index_dtype: str,
    library: Path,
    use: Callable[[Path | str], Any],
) -> None:
    capacity, rng = 90, np.random.default_rng(n)
    kinds = (shape, obs_dtype, np.dtype(dtype), np.dtype(index_dtype))
    plain, fast = Replay(capacity, 1, *kinds), NativeReplay(use(library), n, 0.97, capacity, *kinds)
    # Transitions that fill most of a line of the cache have one each.
    transition = plain.nbytes // capacity
    assert fast.nbytes == capacity * (64 if 48 < transition <= 64 else transition)
    push = n_steps(n, 0.97, plain.add_one)
    obs = _observation(rng, shape, obs_dtype)
    store = fast.storing(obs)
    samples = [memory.sampler(np.random.default_rng(1), 32) for memory in (plain, fast)]
    returned = 0.0
    for step in range(3 * WAITING + 60):
        action, reward = rng.integers(0, 3, 1), 10 * rng.standard_normal(1)
        terminated, truncated = rng.random((2, 1)) < 0.08
        final = following = _observation(rng, shape, obs_dtype)
        ended = terminated.item(), truncated.item()
        if any(ended):
            following = _observation(rng, shape, obs_dtype)
        push(obs.tobytes(), action.item(), reward.item(), final.tobytes(), *ended)
        store(action, following, reward, terminated, truncated, final)
        obs = following
        returned += reward.item()
        # Not at every step: what waits in between must not be lost when it is stored late.
        if step > 40 and step % 7 == 0 and not 100 < step < 200:
            for a, b in zip(*(sample() for sample in samples), strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                np.testing.assert_array_equal(a, b)
    assert fast.stored() == plain.stored() > capacity
    assert fast.returned.item() == returned
    index = np.arange(capacity)
    for a, b in zip(plain.take(index), fast.take(index), strict=True):
        np.testing.assert_array_equal(a, b)


def _observation(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (100 * rng.random((1, *shape))).astype(dtype)


@needs_compiler
def test_a_batch_that_is_still_held_is_not_overwritten(
    library: Path, use: Callable[[Path | str], Any]
) -> None:
    kinds = ((1,), "float32", np.dtype("float32"), np.dtype("int64"))
    memory = NativeReplay(use(library), 1, 0.9, 100, *kinds)
    store = memory.storing(np.zeros((1, 1), np.float32))
    no = np.array([False])
    for t in range(100):
        obs = np.array([[t + 1.0]], np.float32)
        store(np.array([t]), obs, np.array([float(t)]), no, no, obs)
    sample = memory.sampler(np.random.default_rng(0), 8)
    kept = memoryview(sample()[3])  # of the five arrays only this one, and only its memory
    held = sample()[1]
    copy = held.copy()
    addresses = {sample()[1].ctypes.data for _ in range(20)}
    np.testing.assert_array_equal(held, copy)
    assert held.ctypes.data not in addresses
    assert len(addresses) == 1, "arrays that nobody holds are used again"
    assert kept.obj is not None


@needs_compiler
def test_the_sum_tree_is_the_one_in_numpy(library: Path, use: Callable[[Path | str], Any]) -> None:
    rng = np.random.default_rng(0)
    for capacity in (1, 2, 100, 1000):
        plain, fast = SumTree(capacity), NativeSumTree(use(library), capacity)
        for _ in range(20):
            index, priority = rng.integers(0, capacity, 32), rng.random(32) ** 3
            index[5] = index[9]
            for tree in (plain, fast):
                tree.set(index, priority)
                tree.set(index[3:4], priority[7:8])
            np.testing.assert_array_equal(plain.nodes, fast.nodes)
            mass = rng.random(32) * plain.total
            np.testing.assert_array_equal(plain.find(mass), fast.find(mass))


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_advantages_are_those_of_numpy(dtype: str, library: Path, use: Callable[[Path | str], Any]) -> None:
    rng = np.random.default_rng(0)
    for steps, count in ((1, 1), (5, 8), (32, 3)):
        reward, value, bootstrap = (10 * rng.standard_normal((3, steps, count))).astype(dtype)
        ended, last = rng.random((steps, count)) < 0.2, rng.standard_normal(count).astype(dtype)
        # As learners return it: a column of something wider.
        column = np.stack([last, last], 1)[:, 0]
        for path in ("", library):
            use(path)
            estimate = estimator(reward, value, bootstrap, ended)
            for _ in range(2):
                reward[0] += 1
                expected = gae(reward, value, bootstrap, ended, last, 0.98, 0.93)
                found = estimate(column, 0.98, 0.93)
                assert found.dtype == expected.dtype == dtype
                np.testing.assert_array_equal(found, expected)


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["dqn", "rainbow", "a2c", "ppo"])
def test_a_training_takes_the_same_actions(
    algorithm: str, library: Path, tmp_path: Path, use: Callable[[Path | str], Any]
) -> None:
    seen = set()
    for path in ("", library):
        use(path)
        home = tmp_path / (Path(path).name or "numpy")
        home.mkdir()
        given = trial("numpy", "eager", algorithm, "float64", 400)
        (home / schema.TRIAL_FILE).write_text(json.dumps(given))
        assert training.train(home, time.perf_counter_ns()) == 0
        facts = json.loads((home / schema.FACTS_FILE).read_text())
        assert facts["loop"] == ("c" if path else "numpy")
        state = [(home / name).read_text() for name in (schema.ACTIONS_FILE,)]
        last = (home / schema.PROGRESS_FILE).read_text().split()[-1].split(",")
        seen.add(hashlib.sha256(repr((state, last[1:6])).encode()).hexdigest())
    assert len(seen) == 1
