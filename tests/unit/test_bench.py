"""The benchmarks' own code: they are not part of `make test`, so what they stand on is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    for name in ("harness", "peers", "contestants", "overhead"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.slow
def test_a_benchmark_runs_a_trial_with_its_own_values(bench: None) -> None:
    import harness

    outcome, wall_s = harness.run_trial("numpy:eager", "dqn", "CartPole-v1", 300, hidden=(8,))
    assert outcome["result"]["steps"] == 300
    assert wall_s > outcome["result"]["train_ns"] / 1e9


def test_ratios_to_libraries_are_of_the_same_round(bench: None) -> None:
    import peers

    rates = {("dqn", "sb3"): [10.0, 20.0, 10.0], ("dqn", "torch:aot"): [40.0, 120.0, 50.0]}
    assert peers.ratios_to(rates, "dqn", "torch:aot", "sb3") == [4.0, 6.0, 5.0]


def test_a_goal_is_met_by_the_best_mode_or_missed(bench: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import peers

    rates = {("dqn", "sb3"): [10.0], ("dqn", "torch:eager"): [30.0], ("dqn", "torch:aot"): [45.0]}
    for goal, verdict in ((4.5, "met"), (4.6, "MISSED")):
        monkeypatch.setattr(peers, "GOALS", {("sb3", "dqn"): (("torch:eager", "torch:aot"), goal)})
        (line,) = peers.verdicts(rates)
        assert line.startswith(f"{verdict}: dqn, torch:aot is 4.50×")


def test_a_compiled_mode_that_is_slower_than_eager_is_named(bench: None) -> None:
    import contestants

    rows = [
        {"algorithm": "dqn", "contestant": "torch:eager", "act_1": 50.0, "× act_1": 2.0, "× update_64": 2.0},
        {
            "algorithm": "dqn",
            "contestant": "torch:compile",
            "act_1": 99.0,
            "× act_1": 4.0,
            "× update_64": 1.0,
        },
        {"algorithm": "dqn", "contestant": "theano:graph", "act_1": 99.0, "× act_1": 9.0, "× update_64": 9.0},
    ]
    assert contestants.slower_than_eager(rows, "mlp") == [
        "slower than eager: torch:compile dqn mlp: act 1 2.00×"
    ]
