from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rldyno.answers.advice import Advice
from rldyno.answers.advice_words import (
    BY,
    DOES,
    confidence_words,
    does,
    evidence_words,
    length_words,
    pick_words,
)
from rldyno.answers.analysis import Analysis
from rldyno.answers.breakeven import (
    PER_UPDATE,
    Course,
    break_even,
    costs,
    course,
    courses,
    crossing,
    overtakings,
    pairwise,
    run_lengths,
)
from rldyno.answers.flips import axis_flips
from rldyno.answers.runs import Runs
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.report.sections.startup import length
from rldyno.results.columns import column, goals
from synthetic import COMPILE, NUMPY, TORCH, Contestant, Shape, write_results


def advice(path: Path, *contestants: Contestant, goal: str | None = None, **shape: object) -> Advice:
    settings = {"algorithms": ["dqn"], "seeds": 5, "sample_hz": 2} | shape
    root = write_results(path, Shape(contestants=contestants, **settings))  # type: ignore[arg-type]
    (found,) = Analysis.load(root).advice(goal)
    return found


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def line(startup_s: float, per_step_s: float, filling: tuple[float, float] = (0, 0)) -> np.ndarray:
    """Costs of a run with an update every fourth step once (seconds, steps) have filled its memory."""
    return np.array([startup_s, *filling, per_step_s, 4 * per_step_s])


def runs(startup_s: float, per_step_s: float, n: int = 8, spread: float = 0.02) -> np.ndarray:
    source = np.random.default_rng(int(startup_s * 1000))
    startup = startup_s * source.lognormal(0, spread, n)
    per_step = per_step_s * source.lognormal(0, spread, n)
    return np.stack([line(*run) for run in zip(startup, per_step, strict=True)])


def fleet(**contestants: tuple[float, float]) -> list[Course]:
    """`torch_eager=(start-up in s, s per step)`."""
    source = rng()
    return [course(name.replace("_", ":"), runs(*costs), source) for name, costs in contestants.items()]


# --- break-even ---------------------------------------------------------------------------------------------


def test_break_even_by_hand() -> None:
    # 1 s + 2 ms a step against 5 s + 1 ms a step: equal at 4 s / 1 ms.
    assert float(crossing(line(1.0, 2e-3), line(5.0, 1e-3))) == pytest.approx(4000)
    assert float(crossing(line(1.0, 1e-3), line(5.0, 2e-3))) == np.inf
    assert float(crossing(line(5.0, 2e-3), line(1.0, 1e-3))) == 0
    # The sooner starter is overtaken: it is not ahead for good.
    assert float(crossing(line(5.0, 1e-3), line(1.0, 2e-3))) == np.inf
    assert float(crossing(line(1.0, 1e-3), line(1.0, 1e-3))) == 0


def test_a_memory_that_fills_before_learning_is_no_part_of_the_stride() -> None:
    # 1,000 steps in 0.1 s for both, then 2 ms and 1 ms a step: still 4,000 steps after learning has begun.
    eager, compiled = line(1.0, 2e-3, (0.1, 1000)), line(5.0, 1e-3, (0.1, 1000))
    assert float(crossing(eager, compiled)) == pytest.approx(5000)
    assert float(crossing(eager, compiled, PER_UPDATE)) == pytest.approx(1000)
    # The second fills it 4.4 s sooner: ahead of the first by 0.4 s when learning begins.
    quick = line(5.0, 1e-3, (0.1, 1000))
    assert float(crossing(line(1.0, 2e-3, (4.5, 1000)), quick)) == pytest.approx(1000 * 4.0 / 4.4)
    assert float(crossing(line(1.0, 2e-3, (4.5, 1000)), quick, PER_UPDATE)) == 0


@pytest.mark.parametrize("steps", [2_000, 20_000])
def test_the_length_of_the_runs_does_not_move_the_break_even(steps: int) -> None:
    def done(startup_s: float, per_step_s: float) -> Runs:
        values = {
            "startup_s": startup_s,
            "steps": steps,
            "updates": (steps - 1000) / 4,
            "train_s": 0.1 + (steps - 1000) * per_step_s,
            "learning_start_s": 0.1,
            "learning_start_steps": 1000,
        }
        names = {name: index for index, name in enumerate(values)}
        return Runs(("a", "b"), names, np.array([[*values.values()]] * 2))

    found = break_even(*courses({"torch:eager": done(1, 2e-3), "torch:compile": done(5, 1e-3)}, rng()))
    assert found.words == (
        "`torch:compile` overtakes `torch:eager` after 5,000 steps [5,000, 5,000] or "
        "1,000 updates [1,000, 1,000]"
    )


def test_a_run_of_a_course() -> None:
    slow = Course("torch:eager", line(1.0, 2e-3, (0.1, 1000)), None, 1, True)
    assert [slow.seconds(steps) for steps in (0, 500, 1000, 3000)] == pytest.approx([1, 1.05, 1.1, 5.1])


def test_runs_without_an_update_say_nothing_of_learning(recwarn: pytest.WarningsRecorder) -> None:
    names = ("startup_s", "steps", "updates", "train_s", "learning_start_s", "learning_start_steps")
    columns = {name: index for index, name in enumerate(names)}
    learned, ended_before = [1.0, 3000, 500, 4.1, 0.1, 1000], [1.0, 800, 0, 0.08, np.nan, np.nan]
    found = costs(Runs(("a", "b"), columns, np.array([learned, ended_before])))
    assert found.tolist() == [pytest.approx([1.0, 0.1, 1000, 2e-3, 8e-3])]
    assert courses({"torch:eager": Runs(("b",), columns, np.array([ended_before]))}, rng()) == []
    assert not recwarn.list


def test_break_even_has_an_interval_around_the_truth() -> None:
    found = break_even(*fleet(eager=(1.0, 2e-3), compile=(5.0, 1e-3)))
    assert found.steps.low is not None
    assert found.steps.high is not None
    assert found.steps.low < 4000 < found.steps.high
    assert found.words.startswith("`compile` overtakes `eager` after ")


def test_break_even_in_updates() -> None:
    eager, compiled = fleet(torch_eager=(1.0, 2e-3), torch_compile=(5.0, 1e-3))
    found = break_even(eager, compiled)
    assert found.updates is not None
    assert found.updates.point == pytest.approx(found.steps.point / 4)
    assert found.updates.high == pytest.approx((found.steps.high or 0) / 4)
    assert " or 994 updates [" in found.words
    unknown = break_even(replace(eager, updates_counted=False), compiled)
    assert unknown.updates is None
    assert "updates" not in unknown.words


def test_every_pair_modes_of_one_framework_first() -> None:
    found = pairwise(
        fleet(
            numpy_eager=(0.1, 5e-3),
            torch_compile=(15.0, 1e-3),
            torch_eager=(1.0, 2e-3),
            slow_eager=(20.0, 9e-3),
        )
    )
    assert [(turn.first, turn.then) for turn in found if turn.crosses] == [
        ("torch:eager", "torch:compile"),
        ("numpy:eager", "torch:eager"),
        ("numpy:eager", "torch:compile"),
    ]
    assert [turn.crosses for turn in found] == [True] * 3 + [False] * 3
    assert found[-1].words == "`slow:eager` never overtakes `torch:compile`"


def test_never_may_be_chance() -> None:
    (turn,) = pairwise(
        [
            course("a", runs(1.0, 1.00e-3, spread=0.1), rng()),
            course("b", runs(1.1, 1.01e-3, spread=0.1), rng()),
        ]
    )
    low, high = turn.steps.low, turn.steps.high
    assert low is not None
    assert low < high == np.inf
    assert turn.never == (turn.steps.point == np.inf)
    never = replace(turn, steps=replace(turn.steps, point=np.inf, low=2470.0))
    assert never.words == "`b` never overtakes `a` (if that is chance, after 2,470 steps at the soonest)"
    assert length(never.steps) == "never (2,470–∞)"
    assert length(replace(never.steps, low=np.inf)) == "never"


def test_break_even_covers() -> None:
    """IQM of 10 runs; 150 worlds."""
    source = np.random.default_rng(3)
    hits = 0
    for _ in range(150):
        noise = source.lognormal(0, 0.05, (2, 10, 2))
        first, then = (
            course(name, np.stack([line(*run) for run in worlds * true]), source)
            for name, worlds, true in (("a", noise[0], [1.0, 2e-3]), ("b", noise[1], [5.0, 1e-3]))
        )
        found = break_even(first, then)
        assert found.steps.low is not None
        assert found.steps.high is not None
        hits += found.steps.low <= 4000 <= found.steps.high
    assert hits / 150 >= 0.9


def test_overtakings_follow_the_lower_envelope() -> None:
    every = fleet(numpy=(0.1, 5e-3), jit=(1.0, 2e-3), compile=(15.0, 1e-3), slow=(20.0, 9e-3))
    found = overtakings(every)
    assert [(step.first, step.then) for step in found] == [("numpy", "jit"), ("jit", "compile")]
    assert found[0].steps.point == pytest.approx(300, rel=0.1)
    assert overtakings(every[:1]) == ()


def test_who_is_done_first_by_run_length() -> None:
    every = fleet(numpy_eager=(0.1, 5e-4), torch_eager=(1.0, 2e-3), torch_compile=(5.0, 1e-3))
    found = run_lengths(every)
    assert found is not None
    assert found.words.startswith(
        "`numpy:eager` is done first in runs of any length; `torch:compile` overtakes `torch:eager` after 3,9"
    )
    both = run_lengths(every[1:])
    assert both is not None
    assert both.modes == ()
    assert both.words.startswith(
        "`torch:eager` is done first in the shortest runs; `torch:compile` overtakes `torch:eager` after "
    )
    assert run_lengths(every[:1]) is None


# --- picks --------------------------------------------------------------------------------------------------


def test_the_pick_its_lead_its_confidence_and_its_evidence(tmp_path: Path) -> None:
    found = advice(tmp_path / "r", NUMPY, TORCH, COMPILE)
    (pick,) = found.picks
    assert (found.goal, pick.contestant, pick.confidence) == ("time", "numpy:eager", "high")
    assert pick.wins.point == 1.0
    said = pick_words(pick, found.goal)
    assert said.startswith("Take `numpy:eager`: it learns soonest, 1.")
    assert "sooner than `torch:eager`." in said
    assert "5 runs of `numpy:eager` and 5 runs of `torch:eager`" in evidence_words(pick)


@pytest.mark.parametrize(
    ("goal", "pick"),
    [("throughput", "torch:compile"), ("memory", "torch:eager"), ("startup", "torch:eager")],
)
def test_goals_choose_differently(tmp_path: Path, goal: str, pick: str) -> None:
    assert advice(tmp_path / "r", TORCH, COMPILE, goal=goal).picks[0].contestant == pick


def test_without_a_stop_rule_speed_is_the_goal_and_time_is_refused(tmp_path: Path) -> None:
    assert advice(tmp_path / "r", TORCH, COMPILE, stop_return=None).goal == "throughput"
    (refusal,) = advice(tmp_path / "s", TORCH, COMPILE, stop_return=None, goal="time").refusals
    assert "no stop rule" in refusal.why


def test_few_seeds_lower_the_confidence_and_name_the_command(tmp_path: Path) -> None:
    (pick,) = advice(tmp_path / "r", NUMPY, TORCH, seeds=3).picks
    assert pick.confidence == "moderate"
    said = confidence_words(pick, tmp_path / "r")
    assert f"rldyno run {tmp_path / 'r' / 'study.toml'} --out {tmp_path / 'r'} --amend" in said


def test_equals_are_told_to_be_equal(tmp_path: Path) -> None:
    twin = Contestant("jax:jit", NUMPY.steps_per_s, NUMPY.startup_s)
    (pick,) = advice(tmp_path / "r", NUMPY, twin).picks
    assert pick.confidence == "low"
    said = confidence_words(pick, tmp_path / "r")
    assert "may be chance" in said
    assert 'until = "resolved" }' in said or "treat them as equal" in said


def test_run_length_flips_the_choice(tmp_path: Path) -> None:
    """14.3 s more start-up, 3,100 against 3,900 steps/s: 216,000 steps."""
    found = advice(tmp_path / "r", TORCH, COMPILE)
    ((pick, lengths),) = found.lengths
    assert pick.contestant == lengths.shortest == "torch:eager"
    assert lengths.turns[0].steps.point == pytest.approx(14.2 / (1 / 3100 - 1 / 3900), rel=0.35)
    said = length_words(pick, lengths)
    assert "`torch:compile` overtakes `torch:eager` after" in said
    assert "Runs here took about " in said


def test_an_axis_flips_the_choice() -> None:
    def axes(cores: int, batch: int) -> dict[str, object]:
        return {"cores": cores, "hyper.batch_size": batch}

    found = axis_flips(
        [
            (axes(1, 32), "numpy:eager", True),
            (axes(2, 32), "numpy:eager", True),
            (axes(4, 32), "jax:jit", False),
        ]
    )
    assert [flip.words for flip in found] == [
        "The choice flips with cores: cores 1 and 2 `numpy:eager`; 4 cores `jax:jit`, which may be chance."
    ]
    crossed = axis_flips(
        [(axes(c, b), "jax:jit" if b > 32 else "numpy:eager", True) for c in (1, 2) for b in (512, 32)]
    )
    assert [(flip.axis, flip.setting, flip.flips) for flip in crossed] == [
        ("cores", "batch_size 512", False),
        ("cores", "batch_size 32", False),
        ("hyper.batch_size", "1 core", True),
        ("hyper.batch_size", "2 cores", True),
    ]
    assert crossed[2].stretches[0] == ((32,), "numpy:eager", True)


def test_networks_are_ordered_by_their_size() -> None:
    def choice(hidden: str, pick: str) -> tuple[dict[str, object], str, bool]:
        return {"hyper.hidden": hidden}, pick, True

    (flip,) = axis_flips([choice("[256, 256]", "jax:jit"), choice("[64, 64]", "numpy:eager")])
    assert [pick for _, pick, _ in flip.stretches] == ["numpy:eager", "jax:jit"]


# --- refusals -----------------------------------------------------------------------------------------------


def test_no_advice_from_the_uncertified(tmp_path: Path) -> None:
    found = advice(tmp_path / "r", NUMPY, replace(TORCH, certificate="stale"))
    assert found.picks == ()
    (refusal,) = found.refusals
    assert "only `numpy:eager` can be ranked (`torch:eager`: certificate out of date" in refusal.why
    assert refusal.instead.startswith("rldyno verify torch:eager, then: rldyno run ")
    (refusal,) = advice(tmp_path / "s", NUMPY, replace(TORCH, certificate="absent")).refusals
    assert refusal.instead.endswith(", which proves what has run")


def test_no_advice_from_the_unequal(tmp_path: Path) -> None:
    unlike = Contestant("jax:jit", 9000, needs=3)
    (refusal,) = advice(tmp_path / "r", NUMPY, unlike, steps=80_000).refusals
    assert "learns unlike numpy:eager" in refusal.why


def test_no_advice_from_one_seed(tmp_path: Path) -> None:
    (refusal,) = advice(tmp_path / "r", NUMPY, TORCH, seeds=1).refusals
    assert refusal.why == "one seed shows no spread"
    assert "seeds = 5" in refusal.instead


def test_no_advice_from_a_noisy_machine(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=5))
    for path in root.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["noise"]["score"] = 0.6
        path.write_text(json.dumps(outcome))
    (found,) = Analysis.load(root).advice()
    assert found.refusals[0].why.startswith("too noisy: 10 of 10 trials")


def edit_energy(root: Path, joules: float | None, reasons: dict[str, str]) -> None:
    for path in root.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        total = joules and joules * outcome["wall_s"]
        path.write_text(json.dumps(outcome | {"energy": {"total_joules": total, "reasons": reasons}}))


def test_energy_is_not_readable_here_until_it_is(tmp_path: Path) -> None:
    found = advice(tmp_path / "r", NUMPY, TORCH, goal="energy")
    assert found.refusals[0].why == "energy is not readable here: no counter here"
    edit_energy(tmp_path / "r", None, {"total_joules": "only root may read the CPU's energy counter"})
    (refused,) = Analysis.load(tmp_path / "r").advice("energy")
    assert refused.refusals[0].why.endswith("here: only root may read the CPU's energy counter")
    edit_energy(tmp_path / "r", 50.0, {})
    (again,) = Analysis.load(tmp_path / "r").advice("energy")
    assert len(again.picks) == 1
    assert again.picks[0].best.figures["energy_joules"].estimate.point > 0
    assert "it needs the least energy, " in pick_words(again.picks[0], "energy")
    shown = CliRunner().invoke(app, ["advise", str(tmp_path / "r"), "--goal", "energy"])
    assert shown.exit_code == 0, shown.output


def test_every_figure_with_a_better_direction_is_a_goal_and_has_words() -> None:
    assert set(DOES) | set(BY) <= {goal.name for goal in goals()}
    assert does(column("cpu_s")) == "has the lowest CPU time"
    assert does(column("updates_per_s")) == "has the highest updates per second"


def test_nobody_learned(tmp_path: Path) -> None:
    stuck = [replace(contestant, learns=0) for contestant in (NUMPY, TORCH)]
    (refusal,) = advice(tmp_path / "r", *stuck).refusals
    assert refusal.why == "no contestant reached a mean return of 475 within the budget"


def test_unknown_names_are_told(tmp_path: Path) -> None:
    analysis = Analysis.load(write_results(tmp_path / "r", Shape(seeds=1)))
    with pytest.raises(Problem, match="unknown goal 'speed'"):
        analysis.advice("speed")
    with pytest.raises(Problem, match="no trial has algorithm rainbow"):
        analysis.advice(algorithm="rainbow")


def test_break_evens_as_json(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH, COMPILE], algorithms=["ppo"], seeds=5))
    (found,) = json.loads(CliRunner().invoke(app, ["advise", str(root), "--json"]).output)
    (turn,) = found["run_lengths"][0]["overtakes"]
    assert (turn["first"], turn["then"], turn["never"]) == ("torch:eager", "torch:compile", False)
    assert turn["updates"]["point"] == pytest.approx(turn["steps"]["point"] / 4, rel=0.01)
    assert turn["words"].startswith("`torch:compile` overtakes `torch:eager` after ")


def test_command_prints_and_fails_without_a_pick(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=5))
    shown = CliRunner().invoke(app, ["advise", str(root), "--goal", "memory"])
    assert shown.exit_code == 0
    assert "Take `numpy:eager`: it needs the least memory" in shown.output
    (found,) = json.loads(CliRunner().invoke(app, ["advise", str(root), "--json"]).output)
    assert found["picks"][0]["contestant"] == "numpy:eager"
    assert len(found["picks"][0]["trials"]) == 10
    assert found["run_lengths"] == [
        {"setting": "", "shortest": "numpy:eager", "overtakes": [], "modes": []},
    ]
    refused = CliRunner().invoke(app, ["advise", str(root), "--goal", "energy"])
    assert refused.exit_code == 1
    assert "No advice: energy is not readable here: " in refused.output
