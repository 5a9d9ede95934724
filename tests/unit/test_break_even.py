from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rldyno.answers.break_even import (
    PER_UPDATE,
    RunCosts,
    break_even,
    cost_rows,
    costs_of,
    crossing,
    crossovers,
    pairwise,
    run_costs,
    run_lengths,
)
from rldyno.answers.runs import Runs
from rldyno.report.sections.startup import length
from rldyno.text.numbers import count


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


def fleet(**contestants: tuple[float, float]) -> list[RunCosts]:
    """`torch_eager=(start-up in s, s per step)`."""
    source = rng()
    return [costs_of(name.replace("_", ":"), runs(*costs), source) for name, costs in contestants.items()]


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

    found = break_even(*run_costs({"torch:eager": done(1, 2e-3), "torch:compile": done(5, 1e-3)}))
    assert found.words == (
        "`torch:compile` overtakes `torch:eager` after 5,000 steps [5,000, 5,000] or "
        "1,000 updates [1,000, 1,000]"
    )


def test_seconds_of_a_run() -> None:
    slow = RunCosts("torch:eager", line(1.0, 2e-3, (0.1, 1000)), None, 1, True)
    assert [slow.seconds(steps) for steps in (0, 500, 1000, 3000)] == pytest.approx([1, 1.05, 1.1, 5.1])


def test_runs_without_an_update_say_nothing_of_learning(recwarn: pytest.WarningsRecorder) -> None:
    names = ("startup_s", "steps", "updates", "train_s", "learning_start_s", "learning_start_steps")
    columns = {name: index for index, name in enumerate(names)}
    learned, ended_before = [1.0, 3000, 500, 4.1, 0.1, 1000], [1.0, 800, 0, 0.08, np.nan, np.nan]
    found = cost_rows(Runs(("a", "b"), columns, np.array([learned, ended_before])))
    assert found.tolist() == [pytest.approx([1.0, 0.1, 1000, 2e-3, 8e-3])]
    assert run_costs({"torch:eager": Runs(("b",), columns, np.array([ended_before]))}) == []
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
    assert f" or {count(found.updates.point)} updates [" in found.words
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
            costs_of("a", runs(1.0, 1.00e-3, spread=0.1), rng()),
            costs_of("b", runs(1.1, 1.01e-3, spread=0.1), rng()),
        ]
    )
    low, high = turn.steps.low, turn.steps.high
    assert low is not None
    assert low < high == np.inf
    assert turn.never == (turn.steps.point == np.inf)
    never = replace(turn, steps=replace(turn.steps, point=np.inf, low=2470.0))
    assert never.words == "whether `b` ever overtakes `a` is not clear (after 2,470 steps at the earliest)"
    late = replace(turn, steps=replace(turn.steps, point=5000.0, low=2470.0), updates=None)
    assert late.words == "`b` may overtake `a` after 5,000 steps [2,470, ∞]"
    soon = replace(turn, steps=replace(turn.steps, point=0.0, low=0.0))
    assert soon.words == "`b` finishes before `a` in runs of any length, but that may be chance"
    assert length(never.steps) == "never (2,470–∞)"
    assert length(replace(never.steps, low=np.inf)) == "never"


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, 5, 10])
def test_break_even_covers(n: int) -> None:
    source, worlds_tried = np.random.default_rng(3), 300
    hits = 0
    for _ in range(worlds_tried):
        noise = source.lognormal(0, 0.05, (2, n, 2))
        first, then = (
            costs_of(name, np.stack([line(*run) for run in worlds * true]), source)
            for name, worlds, true in (("a", noise[0], [1.0, 2e-3]), ("b", noise[1], [5.0, 1e-3]))
        )
        found = break_even(first, then)
        assert found.steps.low is not None
        assert found.steps.high is not None
        hits += found.steps.low <= 4000 <= found.steps.high
    assert hits / worlds_tried >= 0.93


def test_overtakings_follow_the_lower_envelope() -> None:
    every = fleet(numpy=(0.1, 5e-3), jit=(1.0, 2e-3), compile=(15.0, 1e-3), slow=(20.0, 9e-3))
    found = crossovers(every)
    assert [(step.first, step.then) for step in found] == [("numpy", "jit"), ("jit", "compile")]
    assert found[0].steps.point == pytest.approx(300, rel=0.1)
    assert crossovers(every[:1]) == ()


def test_who_is_done_first_by_run_length() -> None:
    every = fleet(numpy_eager=(0.1, 5e-4), torch_eager=(1.0, 2e-3), torch_compile=(5.0, 1e-3))
    found = run_lengths(every)
    assert found is not None
    assert found.words.startswith(
        "`numpy:eager` finishes first in runs of any length; `torch:compile` overtakes `torch:eager` after 3,"
    )
    both = run_lengths(every[1:])
    assert both is not None
    assert both.modes == ()
    assert both.words.startswith(
        "`torch:eager` finishes first in the shortest runs; `torch:compile` overtakes `torch:eager` after "
    )
    assert run_lengths(every[:1]) is None


def test_first_in_runs_of_any_length_names_who_may_overtake() -> None:
    first = costs_of("numpy:eager", runs(1.0, 1.00e-3, spread=0.1), rng())
    close = costs_of("jax:jit", runs(1.1, 1.05e-3, spread=0.1), rng())
    far = costs_of("torch:eager", runs(2.0, 9e-3), rng())
    found = run_lengths([first, close, far])
    assert found is not None
    assert [rival.then for rival in found.rivals] == ["jax:jit"]
    assert found.words.startswith(
        "`numpy:eager` finishes first in runs of any length; whether `jax:jit` ever overtakes `numpy:eager`"
    )
