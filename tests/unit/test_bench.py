"""The benchmarks' own code: they are not part of `make test`, so what they stand on is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rldyno.studies.shipped import shipped_studies
from rldyno.study.file import load_study

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    for name in ("harness", "peers", "atari", "contestants", "overhead", "workers"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.slow
def test_a_benchmark_runs_a_trial_with_its_own_values(bench: None) -> None:
    import harness

    outcome, wall_s = harness.run_trial("numpy:eager", "dqn", "CartPole-v1", 300, hidden=(8,))
    assert outcome["result"]["steps"] == 300
    assert wall_s > outcome["result"]["train_ns"] / 1e9


def test_a_library_is_compared_with_the_best_of_its_framework_in_the_same_blocks(bench: None) -> None:
    import peers

    def of(*late: float) -> dict[int, Any]:
        return {block: peers.Rate(rate, rate / 2) for block, rate in enumerate(late)}

    found = {
        ("dqn", "script:sb3"): of(10.0, 20.0, 10.0),
        ("dqn", "torch:eager"): of(20.0, 40.0, 20.0),
        ("dqn", "torch:aot"): of(40.0, 120.0, 50.0),
        ("dqn", "jax:jit"): of(900.0, 900.0, 900.0),
    }
    first, *others = peers.rows(found)
    assert first["best_of_its_framework"] == "torch:aot"
    assert first["ratio"] == pytest.approx((4 * 6 * 5) ** (1 / 3))
    assert (first["steps_per_s"], first["whole_training"]) == (10.0, 5.0)
    assert not any("ratio" in row for row in others)
    found["dqn", "torch:aot"] = of(40.0, 81.0, 40.0)
    (line,) = peers.verdicts(found)
    assert line.startswith("met: dqn, torch:aot is 4.02× as fast as Stable-Baselines3 (3.9")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(3.1, 5.0, "met"), (2.5, 3.5, "open"), (2.0, 2.9, "MISSED"), (None, None, "open")],
)
def test_a_goal_is_met_missed_or_open(bench: None, low: float | None, high: float | None, word: str) -> None:
    import peers
    from rldyno.stats.estimates import Estimate

    assert peers.verdict(Estimate(3.05, low, high, 3), 3.0) == word


def test_the_speed_of_the_second_half_leaves_out_what_was_compiled_before(bench: None) -> None:
    import peers

    steps, ends = [20, 40, 60, 80], [9.0, 9.5, 10.0, 10.5]
    assert peers.late_rate(steps, ends, 100, 11.0) == 40.0
    assert peers.late_rate([20, 40], [9.0, 9.5], 100, 11.0) is None
    assert peers.late_rate([100], [11.0], 100, 11.0) is None


def test_the_study_of_the_benchmark_has_every_library_and_its_framework(bench: None) -> None:
    import peers

    study = load_study(shipped_studies()["peers"])
    named = {peers.library_of(name) for name in study.contestants} - {None}
    assert named == peers.peers().keys()
    assert set(study.algorithms) == set(peers.GOALS)
    frameworks = {name.partition(":")[0] for name in study.contestants}
    assert {peer.framework for peer in peers.peers().values()} <= frameworks


def test_the_goal_on_atari_is_for_the_best_pytorch_contestant(bench: None) -> None:
    import atari

    rates = {
        ("ppo", "sb3"): [10.0, 10.0, 20.0],
        ("ppo", "torch:eager"): [12.0, 14.0, 24.0],
        ("ppo", "torch:aot"): [16.0, 15.0, 20.0],
        ("ppo", "jax:jit"): [90.0, 90.0, 90.0],
    }
    assert atari.verdicts(rates) == ["met: ppo, torch:aot is 1.50× as fast as sb3 (goal 1.5×)"]
    assert atari.row(rates, "ppo", "torch:eager") == {
        "algorithm": "ppo",
        "contestant": "torch:eager",
        "steps_per_s": 14.0,
        "ratio_to_sb3": 1.2,
        "lowest": 1.2,
        "highest": 1.4,
    }
    rates["ppo", "torch:aot"] = [14.0, 14.0, 14.0]
    assert atari.verdicts(rates)[0].startswith("MISSED: ppo, torch:aot is 1.40×")


def test_settings_on_atari_are_the_published_ones_but_for_those_named(bench: None) -> None:
    import atari
    from harness import values_of

    for algorithm, changes in atari.SETTINGS.items():
        published = values_of(algorithm, atari.ENVIRONMENT, {})
        timed = values_of(algorithm, atari.ENVIRONMENT, changes)
        differing = {name for name in vars(published) if getattr(published, name) != getattr(timed, name)}
        assert differing == set(changes)
        assert atari.WARM[algorithm] > timed.environments


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
