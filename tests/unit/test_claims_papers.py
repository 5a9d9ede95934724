"""What the claims of the papers ask of results, by results that are almost enough."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rldyno.claims.decide import ClaimVerdict, as_json, judge_claim
from rldyno.claims.effects import HOLDS, REFUTED, UNDECIDED
from rldyno.claims.evidence import gather
from rldyno.claims.form import Claim, shipped_claims
from rldyno.claims.missing import few_levels
from rldyno.claims.show import lines
from rldyno.results.load import load_results
from rldyno_rig.envs.atari_games import atari_game
from synthetic import TORCH, Contestant, Shape, write_results

GRAPH = Contestant("tensorflow:graph", 2600, rss_mb=510)
TF_EAGER = Contestant("tensorflow:eager", 700, rss_mb=500)
HYBRID = Contestant("mxnet:hybrid", 1300, rss_mb=155)
MX_EAGER = Contestant("mxnet:eager", 600, rss_mb=150)
JIT = Contestant("jax:jit", 6800, rss_mb=280)
JAX_EAGER = Contestant("jax:eager", 100, rss_mb=270)
SEONG = {"algorithms": ["dqn"], "max_episode_steps": 1000, "seeds": 5, "sample_hz": 2}
LIU = {"environments": ["CartPole-v0"], "max_episode_steps": 100, "seeds": 5, "sample_hz": 2}
CLAIMS = {claim.id: claim for claim in shipped_claims()}

Records = dict[str, Any]


def found(claim: str, *roots: Path) -> ClaimVerdict:
    return judge_claim(CLAIMS[claim], gather([load_results(root) for root in roots]))


def retold(root: Path, change: Callable[[Records, Records], None]) -> Path:
    """The same results after `change` has edited trial.json and outcome.json of each trial."""
    for path in root.glob("trials/*/outcome.json"):
        trial, outcome = (json.loads(file.read_text()) for file in (path.with_name("trial.json"), path))
        change(trial, outcome)
        path.with_name("trial.json").write_text(json.dumps(trial))
        path.write_text(json.dumps(outcome))
    return root


def results(path: Path, contestants: Sequence[Contestant], **shape: Any) -> Path:
    return write_results(path, Shape(contestants=contestants, **shape))


def on_machine(root: Path, **facts: object) -> Path:
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["machine"] |= facts
    (root / "manifest.json").write_text(json.dumps(manifest))
    return root


# --- every framework that a claim names must have been compared ---------------------------------------------


def test_one_framework_does_not_speak_for_three(tmp_path: Path) -> None:
    """TensorFlow and JAX ran too, but only lazily: only MXNet was compared with itself."""
    root = results(tmp_path / "r", [HYBRID, MX_EAGER, GRAPH, JIT], **SEONG)
    one = found("seong-1", root)
    assert one.verdict == UNDECIDED
    assert one.missing == ("needs three frameworks (compared 1)",)
    assert one.place == 2


def test_all_three_frameworks_decide(tmp_path: Path) -> None:
    root = results(tmp_path / "r", [HYBRID, MX_EAGER, GRAPH, TF_EAGER, JIT, JAX_EAGER], **SEONG)
    assert found("seong-1", root).verdict == HOLDS
    assert len(found("seong-1", root).deciding[0].parts) == 3


def test_a_device_is_compared_in_every_framework_and_mode(tmp_path: Path) -> None:
    """MXNet and TensorFlow ran lazily, JAX eagerly: both kinds are there, but not in each framework."""
    root = results(tmp_path / "r", [HYBRID, JAX_EAGER, GRAPH], devices=["cpu", "cuda"], **SEONG)
    assert found("seong-7", root).missing == ("needs three frameworks, each with two kinds of execution",)


@pytest.mark.parametrize("claim", ["liu-6", "liu-7"])
def test_each_number_of_cores_needs_both_frameworks(tmp_path: Path, claim: str) -> None:
    shape = LIU | {"algorithms": ["ppo"]}
    first = results(tmp_path / "a", [TORCH, GRAPH], cores=(1,), **shape)
    second = results(tmp_path / "b", [TORCH], cores=(2,), **shape)
    assert found(claim, first, second).missing == ("needs two numbers of cores (compared 1)",)
    both = results(tmp_path / "c", [TORCH, GRAPH], cores=(1, 2), **shape)
    assert len(found(claim, both).deciding[0].parts) == 2
    assert not any("cores" in missing for missing in found(claim, both).missing)


def test_what_a_gpu_saves_is_asked_of_both_frameworks(tmp_path: Path) -> None:
    shape = LIU | {"algorithms": ["ppo"]}
    both = results(tmp_path / "a", [TORCH], devices=("cpu", "cuda"), **shape)
    one = results(tmp_path / "b", [GRAPH], devices=("cpu",), **shape)
    assert found("liu-11", both, one).missing == ("needs two frameworks (compared 1)",)


def test_convergence_is_asked_of_each_algorithm_in_each_framework(tmp_path: Path) -> None:
    """Three of four pairs learn: on average most runs do, but PPO in TensorFlow does not."""
    shape = LIU | {"algorithms": ["ppo", "rainbow"], "seeds": 10}
    root = retold(results(tmp_path / "r", [TORCH, GRAPH], **shape), stuck_in_tensorflow)
    refuted = found("liu-1", root).deciding[0]
    assert refuted.verdict == REFUTED
    assert refuted.decisive == "tensorflow ppo 0 of 10 runs"


def stuck_in_tensorflow(trial: Records, outcome: Records) -> None:
    if (trial["framework"], trial["algorithm"]) == ("tensorflow", "ppo"):
        outcome["result"]["threshold"] |= {"reached": False, "time_ns": None, "step": None, "episode": None}


def test_levels_are_counted_within_each_other() -> None:
    rows = [{"x": 1, "y": 1}, {"x": 1, "y": 2}, {"x": 2, "y": 1}]
    assert not list(few_levels({"x": 2}, rows, "has"))
    assert list(few_levels({"x": 2, "y": 2}, rows, "has")) == [
        "needs two values of x, each with two values of y"
    ]
    assert not list(few_levels({"x": 2, "y": 2}, [*rows, {"x": 2, "y": 2}], "has"))


# --- scope --------------------------------------------------------------------------------------------------


def test_claims_ask_for_the_papers_episodes(tmp_path: Path) -> None:
    other = results(tmp_path / "r", [TORCH, GRAPH], algorithms=["ppo"], seeds=5, sample_hz=2)
    assert found("liu-15", other).missing == (
        "needs environment CartPole-v0",
        "needs episodes limited to 100",
    )
    usual = results(tmp_path / "s", [JIT, GRAPH], algorithms=["dqn"], seeds=5, sample_hz=2)
    assert found("seong-5", usual).missing[0] == "needs episodes limited to 1000"


def test_runs_of_equal_episodes_are_timed_whole_and_per_step(tmp_path: Path) -> None:
    """TensorFlow's steps take 3,100 / 2,600 = 1.19 of PyTorch's time; its episodes are half as long."""

    def equal_episodes(trial: Records, outcome: Records) -> None:
        outcome["reason"] = "episodes"
        lengths = {"tensorflow": 40, "torch": 80}
        outcome["result"]["episodes"] = outcome["result"]["steps"] // lengths[trial["framework"]]

    root = results(tmp_path / "r", [TORCH, GRAPH], **(LIU | {"algorithms": ["ppo"]}))
    (whole,), (per_step,) = (lambda verdict: (verdict.deciding, verdict.readings))(
        found("liu-3", retold(root, equal_episodes))
    )
    assert whole.effect is not None
    assert per_step.effect is not None
    assert whole.effect.point == pytest.approx(0.6, rel=0.1)
    assert per_step.effect.point == pytest.approx(1.19, rel=0.1)


def test_gpu_claims_on_rainbow_ignore_other_algorithms(tmp_path: Path) -> None:
    root = results(tmp_path / "r", [TORCH, GRAPH], devices=("cuda",), **(LIU | {"algorithms": ["ppo"]}))
    assert "needs algorithm rainbow" in found("liu-12", root).missing


# --- several readings ---------------------------------------------------------------------------------------


def test_another_reading_is_shown_and_does_not_decide(tmp_path: Path) -> None:
    check = {"kind": "ratio", "metric": "throughput", "at_least": 1.0}
    sides = {"a": {"framework": "torch"}, "b": {"framework": "tensorflow"}}
    other = {"a": sides["b"], "b": sides["a"], "reading": "the other way round"}
    claim = Claim.model_validate(
        {"id": "x", "statement": "s", "contradiction": "both.", "check": [check | sides, check | other]}
    )
    root = results(tmp_path / "r", [TORCH, GRAPH], algorithms=["ppo"], seeds=5, sample_hz=2)
    verdict = judge_claim(claim, gather([load_results(root)]))
    assert verdict.verdict == HOLDS
    assert [check.verdict for check in verdict.readings] == [REFUTED]
    said = lines(verdict)
    assert "Read as “the other way round”: refuted" in said
    assert "The source contradicts itself: both." in said
    assert [check["reading"] for check in as_json(verdict)["checks"]] == ["", "the other way round"]


def test_a_claim_of_other_readings_alone_is_a_mistake() -> None:
    check = {"kind": "share", "at_least": 0.5, "reading": "so"}
    with pytest.raises(ValueError, match="without `reading`"):
        Claim.model_validate({"id": "x", "statement": "s", "check": [check]})


@pytest.mark.parametrize("claim", ["liu-7", "liu-9", "seong-1"])
def test_papers_that_contradict_themselves_have_both_readings(claim: str) -> None:
    assert CLAIMS[claim].contradiction
    assert any(check.reading for check in CLAIMS[claim].check)


# --- figures of whole runs ----------------------------------------------------------------------------------


def test_integrals_decide_claims(tmp_path: Path) -> None:
    check = {"kind": "ratio", "metric": "return_integral", "at_least": 0.1}
    check |= {"a": {"framework": "torch"}, "b": {"framework": "tensorflow"}}
    claim = Claim.model_validate({"id": "x", "statement": "s", "check": [check]})
    root = results(tmp_path / "r", [TORCH, GRAPH], algorithms=["ppo"], seeds=5, sample_hz=2)
    assert judge_claim(claim, gather([load_results(root)])).verdict == HOLDS


def test_columns_per_episode_and_of_cores(tmp_path: Path) -> None:
    root = results(tmp_path / "r", [TORCH], algorithms=["ppo"], seeds=1, cores=(2,), sample_hz=2)
    (row,) = load_results(root).trials.iter_rows(named=True)
    assert row["episode_s"] == pytest.approx(row["train_s"] / row["episodes"])
    assert row["cpu_step_s"] == pytest.approx(row["cpu_s"] / row["steps"])
    assert row["cpu_of_cores_percent"] == pytest.approx(row["cpu_percent"] / 2)


# --- machines and games -------------------------------------------------------------------------------------


def test_two_machines_with_one_operating_system_are_two_machines(tmp_path: Path) -> None:
    """The second machine is three times as fast: mixed, PyTorch there would beat TensorFlow here."""
    slow = on_machine(results(tmp_path / "a", [GRAPH], algorithms=["ppo"], seeds=5), host_sha256="a" * 64)
    quick = Contestant("torch:eager", 9300)
    fast = on_machine(results(tmp_path / "b", [quick], algorithms=["ppo"], seeds=5), host_sha256="b" * 64)
    check = {"kind": "ratio", "metric": "throughput", "at_least": 2.0}
    check |= {"a": {"framework": "torch"}, "b": {"framework": "tensorflow"}}
    claim = Claim.model_validate({"id": "x", "statement": "s", "check": [check]})
    verdict = judge_claim(claim, gather([load_results(slow), load_results(fast)]))
    assert verdict.verdict == UNDECIDED
    assert verdict.missing == ("needs A and B in one and the same setting",)


def test_operating_systems_are_compared_on_equal_hardware_only(tmp_path: Path) -> None:
    check = {"kind": "same", "metric": "memory", "axis": "system", "within": 1.1, "levels": {"system": 2}}
    claim = Claim.model_validate({"id": "x", "statement": "s", "check": [check]})
    roots = [results(tmp_path / name, [TORCH], algorithms=["ppo"], seeds=5) for name in "ab"]
    on_machine(roots[0], os="Alpha", host_sha256="a" * 64)
    on_machine(roots[1], os="Beta", host_sha256="b" * 64)
    assert judge_claim(claim, gather([load_results(root) for root in roots])).verdict == HOLDS
    on_machine(roots[1], cpu="Another CPU")
    assert judge_claim(claim, gather([load_results(root) for root in roots])).verdict == UNDECIDED


def test_two_machines_with_one_operating_system_say_nothing_about_systems(tmp_path: Path) -> None:
    """The second machine takes twice the memory; with the same system, it is no evidence on systems."""
    check = {"kind": "same", "metric": "memory", "axis": "system", "within": 1.1}
    claim = Claim.model_validate({"id": "x", "statement": "s", "check": [check]})
    heavy = Contestant("torch:eager", TORCH.steps_per_s, rss_mb=2 * TORCH.rss_mb)
    roots = [
        on_machine(results(tmp_path / name, [contestant], algorithms=["ppo"], seeds=5), host_sha256=name * 64)
        for name, contestant in (("a", TORCH), ("b", heavy))
    ]
    verdict = judge_claim(claim, gather([load_results(root) for root in roots]))
    assert verdict.verdict == UNDECIDED
    assert verdict.missing == ("needs two values of system in one setting",)


@pytest.mark.parametrize(
    "name",
    [
        "ALE/Pong-v5",
        "ale_py:ALE/Pong-v5",
        "Pong-v0",
        "Pong-v4",
        "PongNoFrameskip-v4",
        "PongDeterministic-v4",
        "Pong-ram-v4",
        "Pong-ramNoFrameskip-v0",
        "ale_py:PongNoFrameskip-v4",
    ],
)
def test_every_spelling_of_a_game(name: str) -> None:
    assert atari_game(name) == "pong"


@pytest.mark.parametrize("name", ["CartPole-v0", "CartPole-v1", "MountainCar-v0", "my:Task-v4", "Pong-v1"])
def test_other_environments_are_no_games(name: str) -> None:
    assert atari_game(name) is None


def test_the_best_algorithm_is_compared_between_games_of_any_spelling(tmp_path: Path) -> None:
    names = ["PongNoFrameskip-v4", "ALE/Breakout-v5"]

    def scores(trial: Records, outcome: Records) -> None:
        best = {"PongNoFrameskip-v4": "dqn", "ALE/Breakout-v5": "a2c", "ALE/Pong-v5": "dqn"}
        high = best[trial["environment"]] == trial["algorithm"]
        outcome["result"]["final_return"] = (100.0 if high else 10.0) + trial["seed"]

    shape = {"algorithms": ["dqn", "a2c"], "seeds": 5, "sample_hz": 2}
    root = retold(results(tmp_path / "r", [TORCH], environments=names, **shape), scores)
    assert found("lizarralde-2", root).verdict == HOLDS
    same = retold(results(tmp_path / "s", [TORCH], environments=[names[0], "ALE/Pong-v5"], **shape), scores)
    assert found("lizarralde-2", same).missing == ("needs two games (has 1)",)


def test_a_share_that_few_runs_leave_open_says_how_many_more(tmp_path: Path) -> None:
    root = results(tmp_path / "r", [JAX_EAGER], **SEONG, stop_return=10_000)
    (check,) = found("seong-2", root).checks
    assert check.verdict == UNDECIDED
    assert "more seed" in check.missing[0]


def test_several_workers_say_nothing_about_the_papers_one_cpu() -> None:
    (check,) = CLAIMS["seong-2"].check
    assert check.where["workers"].values == (1,)


def test_the_difference_between_systems_is_tensorflows() -> None:
    """5.1.2 finds PyTorch's times almost the same on both."""
    times = [check for check in CLAIMS["liu-9"].check if check.reading]
    assert [check.where["contestant"].words for check in times] == ["tensorflow:graph"] * 2


def test_eager_jax_on_a_cpu_has_no_time_in_the_paper() -> None:
    for check in CLAIMS["seong-9"].check:
        on_cpu = {"jax:eager", "cpu"}
        sides = [{*side["contestant"].values, *side["device"].values} for side in (check.a, check.b)]
        assert bool(check.reading) == any(on_cpu <= side for side in sides)
