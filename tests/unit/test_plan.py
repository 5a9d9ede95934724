"""Trials: their order, their names, and the command that shows them."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.commands.plan import SHOWN_TRIALS, shown_trials, spell_seconds
from rldyno.errors import Problem
from rldyno.records.directory import ResultsDirectory
from rldyno.session.estimate import Rates
from rldyno.study.file import load_study
from rldyno.study.plan import Plan, Trial, make_plan
from rldyno_rig import hyper
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.trial_file import TrialFile

STUDY = """
contestants = ["numpy:eager", "torch:eager"]
algorithms = ["dqn", "ppo"]
environments = ["CartPole-v1", "some.module:Odd/Name-v0"]
max_episode_steps = [100, 1000]
cores = [1, 2]
seeds = {seeds}
order_seed = {order_seed}
[budget]
steps = 1000
stop = {{ return = 475, episodes = 20 }}
[hyper.dqn]
gamma = [0.9, 0.99]
hidden = [[32], [64, 64]]
[hyper.ppo]
hidden = [16]
"""
CELLS = (4 + 1) * 2 * 2 * 2 * 2


@pytest.fixture(scope="module")
def plan_of(tmp_path_factory):
    def make(seeds: object = 3, order_seed: int = 0) -> Plan:
        path = tmp_path_factory.mktemp("plan") / "x.toml"
        path.write_text(STUDY.format(seeds=seeds, order_seed=order_seed))
        return make_plan(load_study(path))

    return make


def test_every_block_holds_every_cell_once(plan_of) -> None:
    plan = plan_of(seeds=[7, 3, 5])
    assert len(plan.cells) == len(set(plan.cells)) == CELLS
    assert [trial.block for trial in plan.trials] == [block for block in range(3) for _ in range(CELLS)]
    for block, seed in enumerate((7, 3, 5)):
        trials = plan.trials[block * CELLS : (block + 1) * CELLS]
        assert {trial.seed for trial in trials} == {seed}
        assert Counter(trial.cell for trial in trials) == Counter(plan.cells)


def test_blocks_are_shuffled_each_in_its_own_way(plan_of) -> None:
    plan = plan_of(seeds=2)
    first = [trial.cell for trial in plan.trials[:CELLS]]
    second = [trial.cell for trial in plan.trials[CELLS:]]
    assert first != second
    assert first != list(plan.cells)
    changes = sum(a.contestant != b.contestant for a, b in itertools.pairwise(first))
    assert changes > CELLS // 4


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 3))
def test_more_seeds_leave_the_earlier_blocks_as_they_are(plan_of, few, more, order_seed) -> None:
    short = plan_of(min(few, more), order_seed).trials
    assert plan_of(max(few, more), order_seed).trials[: len(short)] == short


def test_the_order_seed_reorders_and_nothing_else(plan_of) -> None:
    one, other = plan_of(order_seed=0).trials, plan_of(order_seed=1).trials
    assert one != other
    assert {trial.id for trial in one} == {trial.id for trial in other}


def test_cells_carry_the_shipped_values_with_the_overrides(plan_of) -> None:
    of_dqn = {
        cell.hyper for cell in plan_of().cells if cell.algorithm == "dqn" and "Cart" in cell.environment
    }
    shipped = hyper.to_json(ALGORITHMS["dqn"].defaults("CartPole-v1"))
    expected = [
        shipped | {"gamma": gamma, "hidden": hidden} for gamma in (0.9, 0.99) for hidden in ((32,), (64, 64))
    ]
    right = map(ALGORITHMS["dqn"].hyper_from_json, expected)
    assert sorted(map(repr, of_dqn)) == sorted(map(repr, right))


def test_trial_json_has_the_documented_fields(plan_of) -> None:
    trial = plan_of().trials[0]
    documented = Path(__file__).parents[2].joinpath("docs/records.md").read_text(encoding="utf-8")
    section = documented.partition("## trial.json")[2].partition("## facts.json")[0]
    names = {
        name
        for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert set(trial.to_file().to_json()) == names
    assert set(trial.to_json()) < names
    assert trial.to_json()["trial"] == trial.id
    assert trial.to_json()["budget"] == {
        "steps": 1000,
        "episodes": None,
        "wall_s": None,
        "stop_return": 475.0,
        "stop_episodes": 20,
    }


def test_trial_json_keeps_the_cell(plan_of) -> None:
    for trial in plan_of().trials:
        file = TrialFile.from_json(json.loads(json.dumps(trial.to_file().to_json())))
        assert (file.trial, str(file.contestant), file.seed) == (trial.id, trial.cell.contestant, trial.seed)
        assert ALGORITHMS[file.algorithm].hyper_from_json(file.hyper) == trial.cell.hyper
        assert file.budget == trial.cell.budget


def test_ids_are_those_of_earlier_versions() -> None:
    """A directory that an older version wrote can be continued."""
    sample = ResultsDirectory(Path(__file__).parents[2] / "tests/data/old_sample")
    plan = make_plan(load_study(sample.study))
    assert sorted(trial.id for trial in plan.trials) == sorted(sample.read_manifest().trials)


def test_ids_are_distinct_and_safe_file_names(plan_of) -> None:
    ids = [trial.id for trial in plan_of().trials]
    assert len({name.lower() for name in ids}) == len(ids)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}", name) for name in ids)


def test_ids_follow_the_computation_only(plan_of) -> None:
    trial = plan_of().trials[0]
    moved = Trial(trial.cell, trial.seed, block=9)
    assert moved.id == trial.id
    assert Trial(trial.cell, trial.seed + 1, trial.block).id != trial.id


@pytest.mark.slow
def test_ids_are_the_same_in_another_process(plan_of, tmp_path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(STUDY.format(seeds=3, order_seed=0))
    script = (
        "import sys; from rldyno.study.plan import make_plan; from rldyno.study.file import load_study;"
        "print(*[trial.id for trial in make_plan(load_study(sys.argv[1])).trials])"
    )
    printed = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert printed.stdout.split() == [trial.id for trial in plan_of().trials]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "unknown"), (0.26, "0.3 s"), (42.4, "42 s"), (150, "2 min"), (7500, "2 h 05 min")],
)
def test_times_are_spelled(seconds, text) -> None:
    assert spell_seconds(seconds) == text


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.setattr("rldyno.session.estimate.load_rates", lambda: Rates(own={}, shipped={}))
    monkeypatch.delenv("COLUMNS", raising=False)

    def run(text: str, *options: str):
        path = tmp_path / "x.toml"
        path.write_text(text)
        return CliRunner().invoke(app, ["plan", str(path), *options])

    return run


@pytest.mark.slow
def test_the_command_shows_order_budget_and_totals(invoke) -> None:
    text = STUDY.format(seeds=2, order_seed=0)
    shown = invoke(text)
    assert shown.exit_code == 0
    assert "mean return ≥ 475 over 20 episodes or 1,000 steps" in shown.stdout
    assert f"{2 * CELLS} trials: {CELLS} cells × 2 seeds; time unknown" in shown.stdout
    assert "ppo on CartPole-v1: hidden=[16]" in shown.stdout
    assert "gamma=0.99, hidden=[64,64]" in shown.stdout
    assert f"… and {2 * CELLS - SHOWN_TRIALS} more trials" in shown.stdout
    everything = invoke(text, "--all").stdout
    assert "more trials" not in everything
    assert len(re.findall(r"(?:numpy|torch):eager .* unknown$", everything, re.MULTILINE)) == 2 * CELLS


SMALL = """
contestants = "numpy:eager"
algorithms = ["dqn", "ppo"]
environments = {environments}
cores = {cores}
seeds = 1
budget.steps = 10
[hyper.dqn]
batch_size = 32
"""


def test_values_that_stay_from_a_tuned_set_are_listed(invoke) -> None:
    text = SMALL.format(environments='["CartPole-v1", "MountainCar-v0"]', cores=1)
    shown = invoke(text).stdout
    (line,) = [line for line in shown.splitlines() if "from the tuned set of dqn on CartPole-v1" in line]
    assert "epsilon_steps 5,000" in line
    assert "batch_size" not in line
    assert "from the tuned set of ppo" not in shown
    kept = {
        (entry["algorithm"], entry["environment"]): entry["hyper"]
        for entry in json.loads(invoke(text, "--json").stdout)["from_tuned_sets"]
    }
    assert kept.keys() == {("dqn", "CartPole-v1"), ("dqn", "MountainCar-v0")}
    assert kept["dqn", "CartPole-v1"]["epsilon_steps"] == 5000


def test_tasks_without_tuned_values_are_named(invoke) -> None:
    text = SMALL.format(environments='["CartPole-v1", "Acrobot-v1"]', cores=1)
    shown = invoke(text).stdout
    assert "PPO is not tuned for Acrobot-v1" in shown
    assert "not tuned for CartPole-v1" not in shown
    assert json.loads(invoke(text, "--json").stdout)["untuned"] == [
        {"algorithm": "dqn", "environment": "Acrobot-v1"},
        {"algorithm": "ppo", "environment": "Acrobot-v1"},
    ]


def test_more_cores_than_this_machine_has_are_refused(invoke) -> None:
    refused = invoke(SMALL.format(environments='"CartPole-v1"', cores="[1, 4096]"))
    assert isinstance(refused.exception, Problem)
    assert "4096 cores are requested" in refused.exception.message
    assert "`cores` of a study" in str(refused.exception.fix)


ATARI = """
contestants = "numpy:eager"
algorithms = ["dqn", "ppo"]
environments = "ALE/Pong-v5"
seeds = 1
budget.steps = 10
[hyper.dqn]
capacity = {capacity}
"""


def test_the_size_of_replay_memories_is_shown_and_limited(invoke) -> None:
    shown = invoke(ATARI.format(capacity=100_000)).stdout
    assert "replay memory of dqn on ALE/Pong-v5: 0.71 GB when full, 100,000 transitions" in shown
    assert "not tuned" not in shown
    trials = json.loads(invoke(ATARI.format(capacity=100_000), "--json").stdout)["trials"]
    sizes = {trial["algorithm"]: trial["replay_bytes"] for trial in trials}
    assert sizes["ppo"] == 0
    assert 7.1e8 < sizes["dqn"] < 7.15e8
    refused = invoke(ATARI.format(capacity=10**9))
    assert isinstance(refused.exception, Problem)
    assert "takes 7," in refused.exception.message
    assert "`capacity` in [hyper.dqn]" in str(refused.exception.fix)


def test_rules_of_atari_games_reach_their_trials_and_ids(plan_of, tmp_path) -> None:
    def trial(rules: str) -> Trial:
        path = tmp_path / "x.toml"
        path.write_text(ATARI.format(capacity=100) + rules)
        return make_plan(load_study(path)).trials[0]

    usual, old = trial(""), trial("[atari]\nsticky = 0\nlife_loss = true")
    assert usual.to_json()["atari"]["sticky"] == 0.25
    assert (old.to_json()["atari"]["sticky"], old.to_json()["atari"]["life_loss"]) == (0, True)
    assert usual.id != old.id
    assert plan_of().trials[0].to_json()["atari"] is None


def test_rules_without_a_game_are_a_mistake(invoke) -> None:
    refused = invoke(ATARI.format(capacity=100).replace("ALE/Pong-v5", "CartPole-v1") + "[atari]\nsticky = 0")
    assert "no environment of this study is a game" in str(refused.exception)


def test_the_command_as_json(invoke, plan_of) -> None:
    printed = json.loads(invoke(STUDY.format(seeds=3, order_seed=0), "--json").stdout)
    plan = plan_of()
    assert [trial["trial"] for trial in printed["trials"]] == [trial.id for trial in plan.trials]
    assert printed["study_sha256"] == plan.study.sha256
    assert printed["estimate"] == {"opening_s": 0, "total_s": 0, "unknown_trials": len(plan.trials)}
    assert printed["adaptive"] is None
    assert printed["opening_trials"] == len(plan.trials)


def test_adaptive_seeds_open_with_the_fewest(invoke, plan_of) -> None:
    seeds = "{ min = 2, max = 4 }"
    plan, plain = plan_of(seeds), plan_of(4)
    assert [trial.id for trial in plan.trials] == [trial.id for trial in plain.trials]
    assert plan.opening == plan.trials[: 2 * CELLS]
    shown = invoke(STUDY.format(seeds=seeds, order_seed=0)).stdout
    assert f"{2 * CELLS} trials: {CELLS} cells × 2 seeds; time unknown" in shown
    assert f"up to {4 * CELLS} trials, 4 seeds, where comparisons stay open" in shown


def test_long_plans_are_cut_after_whole_blocks(invoke) -> None:
    text = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 10
budget.steps = 10
hyper.batch_size = [1, 2, 3, 4, 5, 6, 7]
"""
    assert "… and 14 more trials" in invoke(text).stdout


def test_whole_plans_are_shown_up_to_the_limit(plan_of) -> None:
    assert shown_trials(plan_of(seeds=1)) == SHOWN_TRIALS < CELLS
