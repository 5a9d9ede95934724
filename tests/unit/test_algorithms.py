"""Algorithm against algorithm: the answers, the advice, and the section of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from report_parts import charts_by_panel, html_of, material_of, tables
from rldyno.answers.algorithms import FINAL, Match
from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import THRESHOLD
from rldyno.answers.trust import BUDGET, CHANCE, NOISE, SEEDS, UNLEARNED, disturbed
from rldyno.answers.wording import algorithm_words, together_words
from rldyno.cli import app
from rldyno_rig.schema import WALL
from synthetic import COMPILE, NUMPY, TORCH, Contestant, Shape, write_results

SLOW = 4.0
"""How many times as long as PPO the other algorithm takes to learn, and how much less it learns."""


def results(path: Path, *contestants: Contestant, **shape: Any) -> Path:
    settings = {"algorithms": ["ppo", "dqn"], "seeds": 5, "sample_hz": 2} | shape
    root = write_results(path / "r", Shape(contestants=contestants, **settings))
    for outcome in root.glob("trials/*.dqn.*/outcome.json"):
        result = json.loads(outcome.read_text())["result"]
        if result["threshold"] and result["threshold"]["reached"]:
            result["threshold"]["time_ns"] = int(SLOW * result["threshold"]["time_ns"])
        change(outcome, result=result | {"final_return": result["final_return"] / SLOW})
    return root


def change(outcome: Path, **values: Any) -> None:
    outcome.write_text(json.dumps(json.loads(outcome.read_text()) | values))


def loaded(root: Path) -> Path:
    """The same results from a machine that other processes used."""
    for outcome in root.glob("trials/*/outcome.json"):
        noise = json.loads(outcome.read_text())["noise"]
        change(outcome, noise={**noise, "score": 0.9, "foreign_cpu_percent": 90.0})
    return root


def kinds(match: Match, metric: Any) -> set[str]:
    return {objection.kind for objection in match.trust(metric).objections}


def test_the_faster_algorithm_wins_with_its_ratio_and_interval(tmp_path: Path) -> None:
    (match,) = Analysis.load(results(tmp_path, NUMPY)).matches
    assert (match.contestant, match.place) == ("numpy:eager", "CartPole-v1")
    pick = match.pick(THRESHOLD)
    assert pick is not None
    assert (pick.contestant, pick.runner_up.contestant) == ("PPO", "DQN")
    assert pick.ratio is not None
    assert pick.ratio.low is not None
    assert pick.ratio.high is not None
    assert pick.ratio.low < SLOW < pick.ratio.high
    assert "With `numpy:eager`, take `PPO`: it learns fastest" in algorithm_words("numpy:eager", pick)


def test_returns_of_runs_that_end_at_the_threshold_are_not_ranked(tmp_path: Path) -> None:
    (match,) = Analysis.load(results(tmp_path, NUMPY)).matches
    assert match.pick(FINAL) is None
    objection = match.trust(FINAL).about(BUDGET)
    assert objection is not None
    assert "ends = false" in objection.fix
    assert all(row.figures[FINAL.name].ratio is None for row in match.group.rows)


def test_without_a_threshold_the_return_after_equal_steps_decides(tmp_path: Path) -> None:
    (match,) = Analysis.load(results(tmp_path, NUMPY, stop_return=None)).matches
    assert match.metrics == (FINAL,)
    assert match.budget_words == "every run had the same number of environment steps"
    pick = match.pick(FINAL)
    assert pick is not None
    assert pick.contestant == "PPO"
    assert "it has the highest return at the end" in algorithm_words(match.contestant, pick)
    assert "`DQN` has " in algorithm_words(match.contestant, pick)


def test_runs_that_different_budgets_ended_are_not_ranked_by_return(tmp_path: Path) -> None:
    root = results(tmp_path, NUMPY, stop_return=None)
    change(next(root.glob("trials/*.dqn.*/outcome.json")), reason=WALL)
    (match,) = Analysis.load(root).matches
    assert BUDGET in kinds(match, FINAL)
    assert match.pick(FINAL) is None


def test_runs_of_equal_seconds_are_named_so_and_noise_counts(tmp_path: Path) -> None:
    root = loaded(results(tmp_path, NUMPY, stop_return=None))
    for outcome in root.glob("trials/*/outcome.json"):
        change(outcome, reason=WALL)
    (match,) = Analysis.load(root).matches
    assert match.budget_words == "every run had the same number of seconds of training"
    assert NOISE in kinds(match, FINAL)


@pytest.mark.parametrize("certificate", ["failed", "absent", "stale"])
def test_an_unproven_contestant_ranks_no_algorithm(tmp_path: Path, certificate: str) -> None:
    unproven = Contestant("jax:jit", 6800, certificate=certificate)
    (match,) = Analysis.load(results(tmp_path, unproven)).matches
    assert match.pick(THRESHOLD) is None
    assert all(row.unranked for row in match.group.rows)


def test_one_seed_names_no_winner_and_few_seeds_leave_a_doubt(tmp_path: Path) -> None:
    (one,) = Analysis.load(results(tmp_path / "a", NUMPY, seeds=1)).matches
    assert one.pick(THRESHOLD) is None
    (three,) = Analysis.load(results(tmp_path / "b", NUMPY, seeds=3)).matches
    assert SEEDS in kinds(three, THRESHOLD)


def test_algorithms_that_learn_alike_have_no_winner(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY], seeds=5, sample_hz=2))
    (match,) = Analysis.load(root).matches
    assert CHANCE in kinds(match, THRESHOLD)
    (advice,) = Analysis.load(root).algorithm_advice()
    assert advice.agreed is None


def test_where_nobody_learned_no_algorithm_is_best(tmp_path: Path) -> None:
    root = results(tmp_path, NUMPY, stop_return=None)
    for episodes in root.glob("trials/*/episodes.csv"):
        heading, *rows = episodes.read_text().splitlines()
        place = heading.split(",").index("return")
        flat = [",".join([*(c := row.split(","))[:place], "20.0", *c[place + 1 :]]) for row in rows]
        episodes.write_text("\n".join([heading, *flat]) + "\n")
    (match,) = Analysis.load(root).matches
    assert UNLEARNED in kinds(match, FINAL)
    assert match.pick(FINAL) is None


def test_an_algorithm_of_few_episodes_saves_no_advice(tmp_path: Path) -> None:
    """Nobody is known to have learned: of DQN too little is known, the others did not."""
    root = results(tmp_path, NUMPY, stop_return=None)
    for episodes in root.glob("trials/*/episodes.csv"):
        heading, *rows = episodes.read_text().splitlines()
        place = heading.split(",").index("return")
        flat = [",".join([*(c := row.split(","))[:place], "20.0", *c[place + 1 :]]) for row in rows]
        kept = flat[:3] if ".dqn." in episodes.parent.name else flat
        episodes.write_text("\n".join([heading, *kept]) + "\n")
    (match,) = Analysis.load(root).matches
    (objection,) = [one for one in match.group.trusts[FINAL.name].objections if one.kind == UNLEARNED]
    assert objection.words.endswith("Of DQN too few episodes ended to tell.")
    assert match.pick(FINAL) is None


def test_load_bars_times_but_not_returns_after_equal_steps(tmp_path: Path) -> None:
    root = loaded(results(tmp_path, NUMPY, stop_return=None))
    (match,) = Analysis.load(root).matches
    assert disturbed(Analysis.load(root).results, list(match.group.runs.values())) is not None
    assert NOISE not in kinds(match, FINAL)
    assert match.pick(FINAL) is not None


def test_a_study_with_one_algorithm_has_no_match(tmp_path: Path) -> None:
    root = results(tmp_path, NUMPY, TORCH, algorithms=["ppo"])
    assert Analysis.load(root).matches == ()
    assert "algorithms" not in tables(material_of(root))


def test_advice_names_the_algorithm_and_the_contestant(tmp_path: Path) -> None:
    root = results(tmp_path, NUMPY, TORCH)
    analysis = Analysis.load(root)
    (found,) = analysis.algorithm_advice()
    assert found.agreed == "PPO"
    said = together_words(found, analysis.advice())
    assert said == "The algorithm to take is `PPO`, whichever contestant. With it, take `numpy:eager`."
    assert analysis.algorithm_advice("memory") == ()
    assert analysis.algorithm_advice("return")[0].picks == ()
    done = CliRunner().invoke(app, ["advise", str(root)])
    assert done.exit_code == 0
    assert "Algorithms on CartPole-v1, by time to threshold" in done.output
    only = CliRunner().invoke(app, ["advise", str(root), "--algorithm", "ppo"])
    assert "Algorithms on" not in only.output


def test_advice_as_json_has_every_contestant(tmp_path: Path) -> None:
    root = results(tmp_path, NUMPY, Contestant("jax:jit", 6800, certificate="failed"))
    done = CliRunner().invoke(app, ["advise", str(root), "--json"])
    *_, found = json.loads(done.output)
    assert (found["task"], found["goal"], found["algorithm"]) == ("algorithms on CartPole-v1", "time", "PPO")
    proven, unproven = found["algorithms"]
    assert (proven["contestant"], proven["best"]) == ("numpy:eager", "PPO")
    assert proven["values"]["DQN"]["times_worse"]["point"] == pytest.approx(SLOW, rel=0.3)
    assert unproven["best"] is None
    assert unproven["objections"][0]["bars"]


def test_the_section_has_a_table_values_and_curves(tmp_path: Path) -> None:
    root = results(tmp_path, NUMPY, COMPILE, cores=(1, 2), stop_return=None)
    material = material_of(root)
    rows = tables(material)["algorithms"].rows
    assert len(rows) == 2 * 2 * 2
    assert {(row[2], row[-1]) for row in rows} == {("PPO", "best"), ("DQN", "worse")}
    drawn = charts_by_panel(material)["algorithms-0"]
    assert drawn.keys() == {"algorithms-return", "algorithms-learning-steps", "algorithms-learning-time"}
    values = {row["label"]: row for row in drawn["algorithms-return"].rows}
    assert values["numpy:eager, PPO"]["ranked"]
    assert values["numpy:eager, PPO"]["low"] is not None
    curves = {(row["contestant"], row["part"]) for row in drawn["algorithms-learning-steps"].rows}
    assert curves == {(name, part) for name in ("numpy:eager", "torch:compile") for part in ("PPO", "DQN")}


@pytest.mark.slow
def test_the_page_states_the_budget(tmp_path: Path) -> None:
    page = html_of(results(tmp_path, NUMPY, stop_return=None))
    assert "Budgets: every run had the same number of environment steps." in page


def test_hollow_points_where_no_algorithm_may_be_ranked(tmp_path: Path) -> None:
    material = material_of(results(tmp_path, Contestant("jax:jit", 6800, certificate="failed")))
    rows = charts_by_panel(material)["algorithms-0"]["algorithms-threshold"].rows
    assert [row["ranked"] for row in rows] == [False, False]
    assert {row[-1].split(":")[0] for row in tables(material)["algorithms"].rows} == {"not ranked"}
