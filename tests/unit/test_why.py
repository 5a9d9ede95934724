"""Why a contestant is faster: exact splits, hand-worked sentences, and what may not be said."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from test_trust import disturb, edit_outcomes, written
from typer.testing import CliRunner

from probe_fakes import figures_of, watched_worker
from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import THROUGHPUT
from rldyno.answers.runs import Runs
from rldyno.answers.why import COUNTERS, NOT_SPLIT, PHASES, Why, split_of
from rldyno.answers.why_pairs import Question, pairs
from rldyno.answers.why_words import counter_words, sentence, split_table, why_json
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.probe import perf
from rldyno.probe.perf import HARDWARE
from rldyno.probe.readings import Counted
from rldyno.stats.estimates import LEVEL
from rldyno.stats.moments import Moments
from rldyno.stats.split import Drawn, Weights, gap, two_factors
from rldyno_rig import schema
from synthetic import COMPILE, NUMPY, TORCH, Contestant

NO_RULE = {"stop_return": None}
Steps = st.integers(1, 4).flatmap(
    lambda parts: st.tuples(
        *(
            st.integers(2, 6).flatmap(
                lambda runs: arrays(float, (runs, parts), elements=st.floats(0.01, 1e4))
            )
            for _ in range(2)
        )
    )
)


@given(Steps)
def test_phases_sum_to_the_whole_difference_in_every_draw(steps: tuple[Any, Any]) -> None:
    rng = np.random.default_rng(0)
    fast, slow = (Weights.of(len(times), rng).step(times) for times in steps)
    wholes = [np.exp(np.log(times.sum(axis=1)).mean()) for times in steps]
    found = gap(slow, fast)
    assert found.point.sum() == pytest.approx(wholes[1] - wholes[0], rel=1e-9, abs=1e-9 * max(wholes))
    # A draw of one phase may be far out; sums are as exact as floating point.
    sizes = np.abs(slow.draws).sum(axis=1) + np.abs(fast.draws).sum(axis=1)
    logs = [np.log(times.sum(axis=1, keepdims=True)) for times in steps]
    rng = np.random.default_rng(0)
    drawn = [np.exp(np.clip(Weights.of(len(one), rng).mean(one).draws[:, 0], -300, 300)) for one in logs]
    assert (np.abs(found.draws.sum(axis=1) - (drawn[1] - drawn[0])) <= 1e-9 * sizes).all()


@given(arrays(float, (4, 3), elements=st.floats(0.01, 1e4)))
def test_calls_and_cost_sum_to_the_difference_of_a_phase(values: Any) -> None:
    slow, slow_calls, fast, fast_calls = (Drawn(one, one[None], 2) for one in values)
    by_calls, by_cost = two_factors(slow, slow_calls, fast, fast_calls)
    assert by_calls.point + by_cost.point == pytest.approx(slow.point - fast.point, rel=1e-9, abs=1e-5)
    assert (by_calls.draws == by_calls.point).all()


def test_the_split_of_calls_and_cost_worked_out_by_hand() -> None:
    """4 calls of 5 µs against 2 of 3 µs: 20 − 6 = (4 − 2) · (5 + 3) / 2 + (5 − 3) · (4 + 2) / 2 = 8 + 6."""
    one = [Drawn(np.array([value]), np.empty((0, 1)), 1) for value in (20.0, 4.0, 6.0, 2.0)]
    by_calls, by_cost = two_factors(*one)
    assert (by_calls.point[0], by_cost.point[0]) == (8, 6)


def test_an_interval_of_a_mean_is_students() -> None:
    values = np.array([3.0, 5.0, 4.0, 8.0, 6.0])
    (found,) = Weights.of(5, np.random.default_rng(0)).mean(values[:, None]).estimates()
    assert found.low is not None
    assert found.high is not None
    low, high = Moments.of(values).itself.interval(LEVEL)
    assert (found.low, found.high) == pytest.approx((low, high), rel=0.1)


def runs_of(seeds: list[int], phases: Mapping[str, list[float]], calls: Mapping[str, list[float]]) -> Runs:
    """Seconds of phases and numbers of calls, over a million steps."""
    names = [f"phase_{phase}_s" for phase in PHASES[:-1]]
    counted = ("calls_environment", "calls_act", "calls_transfer", "updates", "calls_read", "reductions")
    missing = [float("nan")] * len(seeds)
    columns = {name: phases.get(name.removeprefix("phase_").removesuffix("_s"), missing) for name in names}
    columns |= {name: calls.get(name, missing) for name in counted}
    columns |= {"seed": list(map(float, seeds)), "steps": [1e6] * len(seeds)}
    columns["train_s"] = phases.get("train", np.sum(list(phases.values()), axis=0).tolist())
    columns["step_s"] = [value / 1e6 for value in columns["train_s"]]
    values = np.column_stack(list(columns.values())).astype(float)
    return Runs(tuple(map(str, seeds)), {name: index for index, name in enumerate(columns)}, values)


def test_runs_of_one_seed_are_paired_where_seeds_were_added() -> None:
    """What both have in common, a slow seed, is no part of their difference."""
    shared = [1.0, 5.0, 2.0, 9.0, 3.0, 7.0, 4.0, 6.0]
    fast = runs_of(list(range(8)), {"act": [10 + one for one in shared]}, {})
    slow = runs_of(list(range(8)), {"act": [13 + one for one in shared]}, {})
    paired, unpaired = (split_of(fast, slow, adaptive) for adaptive in (True, False))
    assert paired is not None
    assert unpaired is not None
    assert paired.difference.point == unpaired.difference.point
    assert paired.difference.low is not None
    assert unpaired.difference.low is not None
    assert paired.difference.low > 0
    assert unpaired.difference.low < 0


def test_time_that_no_phase_has_is_shown_as_not_split() -> None:
    whole = runs_of([0, 1], {"train": [8.0, 8.0]}, {})
    parts = runs_of([0, 1], {"act": [6.0, 6.0], "update": [10.0, 10.0]}, {"updates": [2e6, 2e6]})
    split = split_of(whole, parts)
    assert split is not None
    found = {phase.name: phase.gap.difference.point for phase in split.phases}
    assert found == pytest.approx({"update": 10, "act": 6, NOT_SPLIT: -8})
    costs = {phase.name: phase.slow.us_per_call for phase in split.phases}
    assert costs == {"update": pytest.approx(5), "act": None, NOT_SPLIT: None}


def with_phases(root: Path, spent: Callable[[str, str], int], calls: Mapping[str, int] | None = None) -> Path:
    """Every phase takes `spent(contestant, phase)` ns per step."""

    def change(_: int, outcome: dict[str, Any]) -> None:
        result, name = outcome["result"], outcome["trial"].replace("-", ":", 1).partition(".")[0]
        result["phases_ns"] = {phase: spent(name, phase) * result["steps"] for phase in schema.PHASES}
        result["train_ns"] = sum(result["phases_ns"].values())
        if calls:
            result["calls"] = {phase: count * result["steps"] // 4 for phase, count in calls.items()}

    edit_outcomes(root, change)
    return root


def asked(root: Path, *names: str) -> Why:
    question = Question.of(None, None, (), (names[0], names[1]) if names else (None, None))
    (found,) = pairs(Analysis.load(root), question)
    return found


SLOWER = {"update": 50_000, "act": 20_000, "store": 5_000}


def spent(contestant: str, phase: str) -> int:
    return SLOWER.get(phase, 10_000) if contestant == "torch:eager" else 10_000


def test_one_sentence_names_the_ratio_and_the_phases(tmp_path: Path) -> None:
    """70 µs against 70 + 40 + 10 − 5: of 45 µs, update is 89 %, act 22 %, and store gives 11 % back."""
    root = with_phases(written(tmp_path / "r", NUMPY, TORCH, **NO_RULE), spent)
    found = asked(root, "torch:eager", "numpy:eager")
    assert (found.fast, found.slow) == ("numpy:eager", "torch:eager")
    assert sentence(found).startswith("`numpy:eager` is 1.6× [1.64, 1.64] as fast as")
    words = "89 % of the difference is `update`, 22 % `act`; in `store` (5.00 µs) it is the slower one"
    assert f"as fast as `torch:eager`: {words}." in sentence(found)
    (group,) = Analysis.load(root).comparisons
    ratio = next(row for row in group.rows if row.contestant == "torch:eager").figures[THROUGHPUT.name].ratio
    assert found.split.ratio == ratio
    assert split_table(found).rows[-1][1:3] == ("70.0", "115")


def test_calls_are_used_where_they_were_counted_and_missed_where_not(tmp_path: Path) -> None:
    old = asked(with_phases(written(tmp_path / "old", NUMPY, TORCH, **NO_RULE), spent))
    assert "did not count" in old.uncounted
    costs = {phase.name: phase.slow.us_per_call for phase in old.split.phases}
    # Updates were always counted: one every four steps.
    assert costs["update"] == pytest.approx(200, rel=0.01)
    assert costs["act"] is None
    counted = dict.fromkeys(("environment", "act", "transfer", "update", "read"), 2)
    new = asked(with_phases(written(tmp_path / "new", NUMPY, TORCH, **NO_RULE), spent, counted))
    costs = {phase.name: phase.slow.us_per_call for phase in new.split.phases}
    assert not new.uncounted
    assert costs["act"] == pytest.approx(40, rel=0.01)
    assert costs["store"] is None


def test_a_barred_pair_shows_values_without_a_ratio_or_a_difference(tmp_path: Path) -> None:
    noisy = asked(disturb(with_phases(written(tmp_path / "r", NUMPY, TORCH, **NO_RULE), spent), 10))
    assert sentence(noisy).startswith("A step takes `numpy:eager` 70.0 µs and `torch:eager` 115 µs.")
    assert "disturbed machine" in sentence(noisy)
    assert "Difference" not in split_table(noisy).columns
    found = why_json(noisy)
    assert (found["times_as_fast"], found["difference_us"], found["trust"]) == (None, None, "barred")
    assert all("share" not in phase for phase in found["phases"])


def test_who_is_not_proven_is_marked_and_not_compared(tmp_path: Path) -> None:
    stale = Contestant("torch:eager", 3000, certificate="stale")
    found = asked(written(tmp_path / "r", NUMPY, stale, **NO_RULE), "numpy:eager", "torch:eager")
    assert found.unproven == (("torch:eager", "certificate out of date"),)
    assert found.trust.barred
    assert why_json(found)["unproven"] == ["torch:eager"]


def test_a_difference_that_may_be_chance_names_no_phase(tmp_path: Path) -> None:
    twin = Contestant("jax:jit", 9000)
    found = asked(written(tmp_path / "r", NUMPY, twin, TORCH, **NO_RULE), "jax:jit", "numpy:eager")
    assert found.trust.tied
    assert "%" not in sentence(found).partition("may be chance")[0]
    assert "may be chance" in sentence(found)


def test_chance_is_corrected_over_all_contestants_of_the_comparison(tmp_path: Path) -> None:
    """The two were chosen among all: asking about them alone must not make them clearer."""
    root = written(tmp_path / "r", NUMPY, TORCH, COMPILE, **NO_RULE)
    (group,) = Analysis.load(root).comparisons
    slowest = next(row for row in group.rows if row.contestant == "torch:eager")
    assert slowest.figures[THROUGHPUT.name].ratio == asked(root, "numpy:eager", "torch:eager").split.ratio
    found = asked(root)
    assert (found.fast, found.slow) == ("numpy:eager", "torch:eager")


def counted_by(
    monkeypatch: pytest.MonkeyPatch, count: Callable[[int], int], allowed: Callable[[int], int | None]
) -> dict[str, Any]:
    """What the probe writes of a worker with these counters; `allowed`: counter → an error code, or None."""

    def opened(pid: int, kind: int, counter: int, flags: int) -> int:
        if (code := allowed(counter)) is not None:
            raise OSError(code, "no counter")
        return counter

    def read(counter: int, size: int) -> bytes:
        return perf.struct.pack("=QQQ", count(counter), 100, 100)

    monkeypatch.setattr(perf, "_perf_event_open", opened)
    monkeypatch.setattr(perf.os, "read", read)
    counters = perf.Counters([1])
    counted = Counted(counters.read(), counters.reasons, counters.kernel)
    return dict(figures_of(watched_worker(), counted=counted)["cpu"])


def with_counters(root: Path, fast: Mapping[str, Any], slow: Mapping[str, Any]) -> Path:
    """`torch:eager` gets the slow one's; of each seed a little more."""

    def change(index: int, outcome: dict[str, Any]) -> None:
        own = slow if outcome["trial"].startswith("torch-eager") else fast
        grown = {name: own[name] and own[name] * (100 + index % 5) // 100 for name in COUNTERS}
        outcome["cpu"] = {**own, **grown}

    edit_outcomes(root, change)
    return root


@pytest.fixture
def two_contestants(tmp_path: Path) -> Path:
    return with_phases(written(tmp_path / "r", NUMPY, TORCH, **NO_RULE), spent)


def test_counters_that_were_read_are_one_line(two_contestants: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Per step three times the instructions and twice the cycles; cache misses are counted by nobody."""
    steps = 1_000_000
    sizes = {HARDWARE["instructions"]: 6000, HARDWARE["cycles"]: 4000, HARDWARE["cache_references"]: 10}

    def forbidden(counter: int) -> int | None:
        return errno.ENOENT if counter == HARDWARE["cache_misses"] else None

    fast = counted_by(monkeypatch, lambda counter: sizes[counter] * steps, forbidden)
    more = {HARDWARE["instructions"]: 3, HARDWARE["cycles"]: 2, HARDWARE["cache_references"]: 1}
    slow = counted_by(monkeypatch, lambda counter: more[counter] * sizes[counter] * steps, forbidden)
    monkeypatch.undo()
    found = asked(with_counters(two_contestants, fast, slow))
    (line,) = counter_words(found)
    assert line.startswith("Per step, start-up included, `torch:eager` has 3.0× [")
    assert "as many instructions, 2.0× [" in line
    assert "as many cycles, " in line
    assert "cache misses" not in line
    known = {one["name"]: one for one in why_json(found)["counters"]}
    assert known.keys() == {"instructions", "cycles", "cache_references"}
    assert known["instructions"]["times_as_many"]["point"] == pytest.approx(3, rel=0.1)
    shown = " ".join(CliRunner().invoke(app, ["why", str(two_contestants)]).output.split())
    assert "as many instructions" in shown
    assert "are not known" not in shown.partition("Calls of some phases")[0]


@pytest.mark.parametrize(
    ("code", "paranoid", "words"),
    [
        (errno.ENOENT, 2, "no hardware counters here"),
        (errno.ENOSYS, 2, "perf_event_open, which only Linux has"),
        (errno.EACCES, 4, "kernel.perf_event_paranoid is 4"),
        (errno.EPERM, 1, "seccomp filter blocks perf_event_open"),
    ],
)
def test_counters_that_are_missing_or_forbidden_are_one_line_with_the_reason(
    two_contestants: Path, monkeypatch: pytest.MonkeyPatch, code: int, paranoid: int, words: str
) -> None:
    monkeypatch.setattr(perf, "_paranoid", lambda: paranoid)
    none = counted_by(monkeypatch, lambda counter: 0, lambda counter: code)
    monkeypatch.undo()
    (line,) = counter_words(asked(with_counters(two_contestants, none, none)))
    assert line.startswith("Instructions and cycles are not known: ")
    assert words in line
    assert line.count("Instructions") == 1


def test_counters_of_one_contestant_alone_give_no_ratio(
    two_contestants: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = counted_by(monkeypatch, lambda counter: 5_000_000, lambda counter: None)
    none = counted_by(monkeypatch, lambda counter: 0, lambda counter: errno.ENOENT)
    monkeypatch.undo()
    (line,) = counter_words(asked(with_counters(two_contestants, some, none)))
    assert "not known: no hardware counters here" in line


def test_the_command_line(tmp_path: Path) -> None:
    root = with_phases(written(tmp_path / "r", NUMPY, TORCH, cores=(1, 2), **NO_RULE), spent)
    shown = CliRunner().invoke(app, ["why", str(root), "numpy:eager", "torch:eager"])
    assert (shown.exit_code, shown.output.count("89 % of the")) == (0, 2)
    chosen = CliRunner().invoke(app, ["why", str(root), "--where", "cores=2", "--json"])
    (found,) = json.loads(chosen.output)["pairs"]
    assert found["contestants"] == ["numpy:eager", "torch:eager"]
    assert sum(phase["difference_us"]["point"] for phase in found["phases"]) == pytest.approx(
        found["difference_us"]["point"]
    )
    barred = CliRunner().invoke(app, ["why", str(disturb(root, 20))])
    assert barred.exit_code == 1


@pytest.mark.parametrize(
    ("where", "names", "words"),
    [
        ((), ("torch:eagre", "numpy:eager"), "did you mean 'torch:eager'"),
        ((), ("torch:eager", None), "needs another contestant"),
        (("cores",), (None, None), "not NAME=VALUE"),
        (("cores=7",), (None, None), "no comparison has cores=7"),
        (("kores=7",), (None, None), "no setting"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, where: Any, names: Any, words: str) -> None:
    root = written(tmp_path / "r", NUMPY, TORCH, seeds=2, **NO_RULE)
    with pytest.raises(Problem) as problem:
        pairs(Analysis.load(root), Question.of(None, None, where, names))
    assert words.replace("no setting", "a setting") in problem.value.message
