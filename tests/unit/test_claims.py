from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.answers.runs import memory_growth
from rldyno.claims.decide import ClaimVerdict, judge_claim
from rldyno.claims.effects import HOLDS, REFUTED, UNDECIDED, more_seeds, seeds_to_decide, verdict_of
from rldyno.claims.evidence import gather
from rldyno.claims.form import Claim, Condition, load_claims, shipped_claims
from rldyno.claims.show import effect_line
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.results.load import load_results
from rldyno.stats.estimates import Estimate
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

JAX = Contestant("jax:jit", 6800, rss_mb=280)
GRAPH = Contestant("tensorflow:graph", 2600, rss_mb=510)
TF_EAGER = Contestant("tensorflow:eager", 700, rss_mb=500)


def asked(check: dict[str, object], **more: object) -> Claim:
    return Claim.model_validate({"id": "x", "statement": "s", "check": [check], **more})


def judged(path: Path, check: dict[str, object], *contestants: Contestant, **shape: object) -> ClaimVerdict:
    settings = {"algorithms": ["ppo"], "seeds": 5, "sample_hz": 2} | shape
    root = write_results(path, Shape(contestants=contestants, **settings))  # type: ignore[arg-type]
    return judge_claim(asked(check), gather([load_results(root)]))


def faster(times: float) -> dict[str, object]:
    return {
        "kind": "ratio",
        "metric": "throughput",
        "a": {"framework": "jax"},
        "b": {"framework": "torch"},
        "where": {"algorithm": "ppo", "hyper": {"environments": {"min": 8}}},
        "at_least": times,
    }


# --- the papers' claims -------------------------------------------------------------------------------------


def test_every_claim_of_the_four_sources_is_there() -> None:
    wanted = [f"liu-{n}" for n in range(1, 19)] + [f"seong-{n}" for n in range(1, 10)]
    assert [claim.id for claim in shipped_claims()] == [*wanted, "stooke-1", "lizarralde-1", "lizarralde-2"]
    assert {claim.source for claim in shipped_claims()} == {
        "liu2022",
        "seong2024",
        "stooke2017",
        "lizarralde2019",
    }


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    asked = {"contestants": [TORCH, GRAPH], "algorithms": ["ppo"], "environments": ["CartPole-v0"]}
    shape = Shape(**asked, max_episode_steps=100, seeds=5)  # type: ignore[arg-type]
    evidence = gather([load_results(write_results(tmp_path / "r", shape))])
    found = {claim.id: judge_claim(claim, evidence) for claim in shipped_claims()}
    assert found["liu-8"].missing == ("needs two algorithms (has 1)",)
    assert found["liu-9"].missing == ("needs three operating systems (has 1)",)
    assert found["liu-11"].missing == ("needs a GPU",)
    assert found["liu-4"].missing[0] == "needs algorithm rainbow"
    assert found["liu-6"].missing == ("needs two numbers of cores (has 1)",)
    assert "needs contestant jax:eager" in found["seong-2"].missing
    assert found["liu-3"].missing == ("needs runs that end by their budget of episodes",)
    assert found["liu-15"].deciding[0].effect is not None


# --- bounds and verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "bounds", "verdict"),
    [
        (2.1, 2.9, (2.0, None), HOLDS),
        (1.9, 2.9, (2.0, None), UNDECIDED),
        (1.5, 1.9, (2.0, None), REFUTED),
        (0.9, 1.1, (0.8, 1.25), HOLDS),
        (1.3, 1.4, (0.8, 1.25), REFUTED),
        (0.1, 0.2, (None, 0.5), HOLDS),
    ],
)
def test_an_interval_against_its_bounds(
    low: float, high: float, bounds: tuple[float | None, float | None], verdict: str
) -> None:
    assert verdict_of(Estimate((low + high) / 2, low, high, 9), bounds) == verdict


def test_a_single_run_decides_nothing() -> None:
    assert verdict_of(Estimate(9.0, None, None, 1), (2.0, None)) == UNDECIDED


# --- kinds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times", "verdict"), [(2.0, HOLDS), (3.0, REFUTED), (2.19, UNDECIDED)])
def test_users_own_claim(tmp_path: Path, times: float, verdict: str) -> None:
    """6,800 over 3,100 steps/s is 2.19."""
    found = judged(tmp_path / "r", faster(times), JAX, TORCH)
    assert found.verdict == verdict
    (check,) = found.checks
    assert check.effect is not None
    assert check.effect.point == pytest.approx(6800 / 3100, rel=0.06)
    assert len(check.parts[0].trials) == 10


def test_hyper_parameters_that_do_not_vary_can_be_asked_for(tmp_path: Path) -> None:
    check = faster(2.0) | {"where": {"algorithm": "ppo", "hyper.environments": {"min": 9}}}
    assert judged(tmp_path / "r", check, JAX, TORCH).missing == ("needs environments ≥ 9",)


def test_few_seeds_stay_undecided_with_their_effect(tmp_path: Path) -> None:
    found = judged(tmp_path / "r", faster(2.0), JAX, TORCH, seeds=3)
    assert found.verdict == UNDECIDED
    assert found.missing == ("needs ≥ 5 seeds (has 3)",)
    assert found.checks[0].effect is not None


def test_uncertified_runs_do_not_speak(tmp_path: Path) -> None:
    cheat = Contestant("jax:jit", 90_000, certificate="failed")
    found = judged(tmp_path / "r", faster(2.0), cheat, TORCH)
    assert found.verdict == UNDECIDED
    assert found.missing == ("needs a certificate: `rldyno verify jax:jit`",)


def test_a_framework_is_represented_by_its_best_mode_unless_each_is_asked_for(tmp_path: Path) -> None:
    check = {
        "kind": "ratio",
        "metric": "throughput",
        "a": {"framework": "torch"},
        "b": {"framework": "tensorflow"},
        "at_least": 2.0,
    }
    assert judged(tmp_path / "r", check, TORCH, GRAPH, TF_EAGER).verdict == REFUTED
    each = judged(tmp_path / "s", check | {"represent": "each"}, TORCH, GRAPH, TF_EAGER)
    assert len(each.checks[0].parts) == 2


def test_everywhere_is_refuted_by_one_setting(tmp_path: Path) -> None:
    check = {
        "kind": "ratio",
        "metric": "throughput",
        "a": {"framework": "torch"},
        "b": {"framework": ["tensorflow", "jax"]},
        "at_least": 1.0,
        "everywhere": True,
    }
    found = judged(tmp_path / "r", check, TORCH, GRAPH, JAX)
    assert found.verdict == REFUTED
    assert "jax:jit" in found.checks[0].decisive


def test_execution_modes_are_compared_within_a_framework(tmp_path: Path) -> None:
    check = {
        "kind": "ratio",
        "metric": "time",
        "a": {"execution": "lazy"},
        "b": {"execution": "eager"},
        "at_most": 1.0,
        "everywhere": True,
    }
    found = judged(tmp_path / "r", check, GRAPH, TF_EAGER, JAX, NUMPY)
    assert found.verdict == HOLDS
    assert [part.label for part in found.checks[0].parts] == ["tensorflow:graph / tensorflow:eager"]


def test_a_side_that_never_gets_there_is_infinitely_late(tmp_path: Path) -> None:
    check = faster(2.0) | {"metric": "time", "at_least": None, "at_most": 1.0}
    stuck = Contestant("torch:eager", 3100, learns=0)
    # Five runs do not bound a median at 95 %.
    assert judged(tmp_path / "f", check, JAX, stuck, seeds=5).verdict == UNDECIDED
    assert judged(tmp_path / "r", check, JAX, stuck, seeds=6).verdict == HOLDS
    never = Contestant("jax:jit", 6800, learns=0)
    assert judged(tmp_path / "s", check, never, stuck).verdict == UNDECIDED


@pytest.mark.parametrize(
    ("jax", "torch", "who"),
    [
        (1, 0, "only the first got there"),
        (0, 1, "only the second got there"),
        (0, 0, "neither side got there"),
    ],
)
def test_who_never_gets_there_is_said_instead_of_a_ratio(
    tmp_path: Path, jax: int, torch: int, who: str
) -> None:
    check = faster(2.0) | {"metric": "time", "at_least": None, "at_most": 1.0}
    sides = Contestant("jax:jit", 6800, learns=jax), Contestant("torch:eager", 3100, learns=torch)
    (found,) = judged(tmp_path, check, *sides, seeds=5).checks
    assert f": no ratio: {who} in half of its runs; claimed ≤ 1.00×;" in effect_line(found)


def test_share_of_runs_that_learn(tmp_path: Path) -> None:
    stuck = Contestant("jax:jit", 6800, learns=0)
    check = {"kind": "share", "a": {"framework": "jax"}, "at_most": 0.5}
    assert judged(tmp_path / "r", check, stuck, TORCH, seeds=8).verdict == HOLDS
    assert judged(tmp_path / "s", check, JAX, TORCH, seeds=8).verdict == REFUTED
    without = judged(tmp_path / "t", check, JAX, stop_return=None)
    assert without.missing == ("needs a threshold: give the study's [budget] a stop rule",)


def test_trend_is_the_factor_from_end_to_end(tmp_path: Path) -> None:
    """The generator's speed grows with cores^0.3."""
    check = {"kind": "trend", "metric": "throughput", "axis": "cores", "equals": 1.52, "within": 1.15}
    found = judged(tmp_path / "r", check, TORCH, cores=(1, 2, 4))
    assert found.verdict == HOLDS
    effect = found.checks[0].effect
    assert effect is not None
    assert effect.point == pytest.approx(4**0.3, rel=0.06)


def test_same_across_operating_systems_of_two_directories(tmp_path: Path) -> None:
    several = []
    for name in ("Alpha Linux", "Beta OS"):
        root = write_results(
            tmp_path / name, Shape(contestants=[TORCH], algorithms=["ppo"], seeds=5, sample_hz=2)
        )
        manifest = json.loads((root / "manifest.json").read_text())
        manifest["machine"]["os"] = name
        (root / "manifest.json").write_text(json.dumps(manifest))
        several.append(load_results(root))
    check = {"kind": "same", "metric": "memory", "axis": "system", "within": 1.1, "levels": {"system": 2}}
    assert judge_claim(asked(check), gather(several)).verdict == HOLDS
    assert judge_claim(asked(check), gather(several[:1])).missing == ("needs two operating systems (has 1)",)


def test_which_is_best_may_depend_on_the_task(tmp_path: Path) -> None:
    check = {
        "kind": "depends",
        "metric": "return",
        "axis": "algorithm",
        "over": "environment",
        "levels": {"environment": 2},
    }
    root = write_results(
        tmp_path / "r",
        Shape(
            contestants=[TORCH],
            algorithms=["dqn", "a2c"],
            environments=["A-v0", "B-v0"],
            seeds=5,
            sample_hz=2,
        ),
    )
    better = {("dqn", "A-v0"), ("a2c", "B-v0")}
    for path in root.glob("trials/*/outcome.json"):
        trial = json.loads((path.parent / "trial.json").read_text())
        outcome = json.loads(path.read_text())
        high = (trial["algorithm"], trial["environment"]) in better
        outcome["result"]["final_return"] = (100.0 if high else 10.0) + trial["seed"]
        path.write_text(json.dumps(outcome))
    found = judge_claim(asked(check), gather([load_results(root)]))
    assert found.verdict == HOLDS
    (told,) = found.checks
    assert [part.label for part in told.parts] == ["A-v0: dqn before a2c", "B-v0: a2c before dqn"]
    assert told.effect is not None
    assert told.effect.point == pytest.approx(90, abs=0.2)
    assert told.effect.low is not None
    assert 80 < told.effect.low < 90
    assert effect_line(told).startswith("return at the end, A-v0: dqn before a2c: 90.1 [")


def test_memory_growth_needs_samples_of_the_training(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=1))
    results = load_results(root)
    samples = results.samples(results.trials["trial"][0])
    growth = memory_growth(samples, 1.2)
    assert growth == pytest.approx(1.0, abs=0.1)
    assert memory_growth(samples.head(3), 0.0) is None


# --- the form -----------------------------------------------------------------------------------------------


def test_conditions() -> None:
    assert Condition(values=("ALE/*",)).admits("ALE/Pong-v5")
    assert not Condition(values=("ALE/*",)).admits("CartPole-v1")
    assert Condition(min=8).admits(8)
    assert not Condition(min=8, max=16).admits(17)
    assert not Condition(min=8).admits(None)
    assert Condition.model_validate({"not": ["torch"]}).admits("jax")


def test_all_mistakes_of_a_file_are_told_with_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[claim]]\nid = "x"\nstatement = "s"\n[[claim.check]]\nkind = "ratio"\nmetric = "sped"\n'
        'a = { framwork = "jax" }\nb = { framework = "torch" }\nat_least = 2\n'
        '[[claim]]\nid = "y"\nstatement = "s"\n[[claim.check]]\nkind = "trend"\nat_least = 1\n'
    )
    with pytest.raises(Problem) as caught:
        load_claims(path)
    detail = str(caught.value.detail)
    assert "mine.toml:6: claim.check.metric: unknown metric 'sped'" in detail
    assert "mine.toml:7: claim.check.a: unknown column 'framwork', did you mean 'framework'?" in detail
    assert "kind 'trend' needs an `axis`" in detail
    assert len(detail.splitlines()) == 3


def test_command_prints_verdicts_and_json(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[JAX, TORCH], algorithms=["ppo"], seeds=5))
    mine = tmp_path / "mine.toml"
    mine.write_text(
        '[[claim]]\nid = "jax-2x"\nstatement = "JAX is twice as fast"\n[[claim.check]]\nkind = "ratio"\n'
        'metric = "throughput"\na = { framework = "jax" }\nb = { framework = "torch" }\nat_least = 2.0\n'
    )
    shown = CliRunner().invoke(app, ["claims", str(root), "--file", str(mine)])
    assert "jax-2x  holds  JAX is twice as fast" in shown.output
    assert "1 claim: 1 hold, 0 refuted, 0 undecided." in shown.output
    (verdict,) = json.loads(
        CliRunner().invoke(app, ["claims", str(root), "--file", str(mine), "--json"]).output
    )
    assert verdict["verdict"] == "holds"
    assert verdict["checks"][0]["effect"]["runs"] == 5


# --- too few seeds ------------------------------------------------------------------------------------------


def test_claims_of_one_source_as_markdown(tmp_path: Path) -> None:
    root = write_results(tmp_path, Shape(contestants=[TORCH], seeds=2))
    asked = CliRunner().invoke(app, ["claims", str(root), "--source", "stooke2017", "--markdown"])
    first, _, item, *missing = asked.output.splitlines()
    assert first.startswith("1 claim: ")
    assert item.startswith("- `stooke-1` **undecided**: ")
    assert missing
    assert all(line.startswith("  - ") for line in missing)
    wrong = CliRunner().invoke(app, ["claims", str(root), "--source", "stooke2018"])
    assert isinstance(wrong.exception, Problem)
    assert "did you mean 'stooke2017'" in wrong.exception.message


def test_seeds_that_would_decide_are_those_with_an_80_percent_chance() -> None:
    """[0.8, 1.6] about 1.2 on 5 runs: 15 more would clear 1.0 if the middle stayed, which it need not."""
    effect = Estimate(1.2, 0.8, 1.6, 5)
    assert seeds_to_decide(effect, (1.0, None)) == 83
    assert more_seeds(UNDECIDED, effect, (1.0, None)) == (
        "needs about 83 more seeds (80 % chance): the interval includes the bound",
    )
    assert more_seeds(HOLDS, effect, (1.0, None)) == ()
    at_the_bound = Estimate(1.0, 0.8, 1.2, 5)
    assert "perhaps too many" in more_seeds(UNDECIDED, at_the_bound, (1.0, None))[0]


def test_seeds_added_after_looks_ask_for_wider_intervals(tmp_path: Path) -> None:
    check = {
        "kind": "ratio",
        "metric": "throughput",
        "a": {"framework": "jax"},
        "b": {"framework": "torch"},
        "at_least": 1.0,
    }
    fixed = judged(tmp_path / "r", check, JAX, TORCH).checks[0].effect
    path = tmp_path / "r" / "manifest.json"
    rule = {"min": 5, "max": 9, "until": "resolved", "within": 0.02, "looks": [], "ended": None}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"adaptive": rule}))
    added = judge_claim(asked(check), gather([load_results(tmp_path / "r")])).checks[0].effect
    assert fixed is not None
    assert added is not None
    assert fixed.low is not None
    assert fixed.high is not None
    assert added.low is not None
    assert added.high is not None
    assert added.point == fixed.point
    assert added.high / added.low > (fixed.high / fixed.low) ** 2
