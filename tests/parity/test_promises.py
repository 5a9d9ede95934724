"""What every learner promises beyond being right: repeatable, no side effects, nothing shared."""

from __future__ import annotations

import pytest

from closed_runs import CONTESTANTS
from toolchain_scripts import run_script


@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_a_learner_keeps_its_promises(contestant: str) -> None:
    run_script(
        contestant,
        """
        learner, batches_given = make(), given()
        copies = [[array.copy() for array in batch] for batch in batches_given]
        state = learner.state()
        kept = {key: {n: a.copy() for n, a in state[key].items()} for key in ("params", "target", "m", "v")}

        # Updates can be repeated from a loaded state, and their handles read late.
        at_once = [learner.read(update(learner, batch)) for batch in batches_given]
        moved = learner.state()
        learner.load(state)
        handles = [update(learner, batch) for batch in batches_given]
        for handle, (loss, priorities) in zip(handles, at_once):
            again, priorities_again = learner.read(handle)
            assert again == loss, (again, loss)
            assert (priorities is None) == (priorities_again is None)
        again = learner.state()
        assert again["t"] == moved["t"] == len(batches_given)
        for key in kept:
            for name in kept[key]:
                assert np.array_equal(moved[key][name], again[key][name]), (key, name)

        # The weights moved, the target did not, and the first state is still the caller's own.
        for name in kept["params"]:
            assert not np.array_equal(kept["params"][name], moved["params"][name]), name
            assert np.array_equal(kept["target"][name], moved["target"][name]), name
        for key in kept:
            for name in kept[key]:
                assert np.array_equal(kept[key][name], state[key][name]), (key, name)

        # No batch was written to, acting changes nothing, and the target follows when told to.
        for batch, copy in zip(batches_given, copies):
            assert all(np.array_equal(a, c) for a, c in zip(batch, copy))
        first = act(learner)
        assert all(np.array_equal(a, b) for a, b in zip(first, act(learner)))
        learner.sync_target()
        synced = learner.state()
        for name in synced["params"]:
            assert np.array_equal(synced["params"][name], again["params"][name])
            assert np.array_equal(synced["params"][name], synced["target"][name])
        """,
    )


@pytest.mark.parametrize("contestant", ["tensorflow:graph", "mxnet:hybrid"])
def test_arrays_of_one_shape_and_two_types_have_places_of_their_own(contestant: str) -> None:
    """Writing numbers into memory made for integers would cut them off, silently."""
    run_script(
        contestant,
        """
        learner = make()
        learner.put(np.ones(3, "int64"))
        (placed,) = learner.put(np.full(3, 0.5, "float32"))
        seen = placed.asnumpy() if hasattr(placed, "asnumpy") else placed.numpy()
        assert seen.tolist() == [0.5] * 3, seen
        """,
    )


@pytest.mark.parametrize("contestant", [name for name in CONTESTANTS if name.startswith("tensorflow")])
def test_a_placed_batch_stays_while_the_next_one_is_placed(contestant: str) -> None:
    """Batches lie in memory that NumPy and TensorFlow share, in two places by turns."""
    run_script(
        contestant,
        """
        first, second, *_ = given()
        losses = []
        for ahead in (False, True):
            learner = make()
            placed = learner.put(*first)
            if ahead:
                learner.put(*second)
                act(learner)
            losses.append(learner.read(learner.update(placed, 1e-2))[0])
        assert losses[0] == losses[1], losses
        """,
    )
