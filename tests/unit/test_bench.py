"""The benchmarks' own code: they are not part of `make test`, so what they stand on is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    for name in ("harness", "peers", "contestants", "overhead", "workers"):
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


def test_workers_are_compared_with_one_of_the_same_round(bench: None) -> None:
    import workers
    from harness import ALONE, Team

    host = Team(2, "host")
    seen = {
        workers.Place("numpy:eager", ALONE): [{"step_us": 100.0}, {"step_us": 300.0}, {"step_us": 100.0}],
        workers.Place("numpy:eager", host): [{"step_us": 50.0}, {"step_us": 200.0}, {"step_us": 80.0}],
    }
    alone, several = workers.rows(seen)
    assert "speedup" not in alone
    assert (several["collective"], several["step_us"]) == ("host", 80.0)
    assert (several["speedup"], several["efficiency"]) == (1.5, 0.75)


def test_a_team_s_figures_leave_waiting_out_of_its_reductions(bench: None) -> None:
    import workers

    team = {
        "size": 2,
        "collective": "host",
        "means": "mpi",
        "reductions": 10,
        "bytes": 8,
        "communicate_ns": [50_000, 30_000],
        "wait_ns": [20_000, 0],
    }
    result = {"train_ns": 1_000_000, "steps": 100, "phases_ns": {"communicate": 60_000}, "team": team}
    assert workers.figures({"result": result}) == {
        "step_us": 10.0,
        "communication_percent": 6.0,
        "waiting_percent": 1.0,
        "reduction_us": 3.0,
    }


def test_every_collective_of_a_contestant_is_measured(bench: None) -> None:
    import workers
    from harness import ALONE, Team

    assert list(workers.places_of(["numpy:eager"], 2, "strong")) == [
        ("numpy:eager", ALONE),
        ("numpy:eager", Team(2, "host", "strong")),
    ]
