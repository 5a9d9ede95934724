from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rldyno.answers import changes
from rldyno.answers.analysis import Analysis
from rldyno.answers.changes import Changes
from rldyno.answers.changes_text import markdown, seeds_words, shift_words
from rldyno.answers.groups import CPU, MAIN_METRICS, STARTUP, THRESHOLD, THROUGHPUT
from rldyno.answers.session_change import (
    BETTER,
    UNCHANGED,
    UNDECIDED,
    WORSE,
    Change,
    Measured,
    judge_all,
    measure,
)
from rldyno.cli import app
from rldyno.columns import Column
from rldyno.errors import Problem
from synthetic import NUMPY, TORCH, Shape, write_results

SLOWED = replace(TORCH, steps_per_s=0.6 * TORCH.steps_per_s)
SHAPE = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=5, sample_hz=1)


def compare_results(
    first: Path, second: Path, metrics: Sequence[str] = (), threshold: float = 0.05
) -> Changes:
    return changes.compare_results(Analysis.load(first), Analysis.load(second), threshold, metrics)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Before and after a change that slowed PyTorch down."""
    root = tmp_path_factory.mktemp("compare")
    before = write_results(root / "before", SHAPE, seed=1)
    after = write_results(root / "after", replace(SHAPE, contestants=[NUMPY, SLOWED]), seed=2)
    return before, after


def change_manifest(directory: Path, **machine: object) -> None:
    path = directory / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["machine"] |= machine
    path.write_text(json.dumps(manifest))


Values = Sequence[float]


def measured(before: Values, after: Values, metric: Column = STARTUP, name: str = "torch:eager") -> Measured:
    """Of seeds 0, 1, 2 …; infinite values never reached the threshold."""
    runs = tuple(
        {seed: (min(value, 99.0), value < 99) for seed, value in enumerate(values)}
        for values in (before, after)
    )
    found = measure(name, "DQN on CartPole-v1", metric, (runs[0], runs[1]), ())
    assert found is not None
    return found


def judged(before: Values, after: Values, metric: Column = STARTUP, threshold: float = 0.05) -> Change:
    (change,) = judge_all([measured(before, after, metric)], threshold)
    return change


def test_the_ratio_is_that_of_the_values_beside_it() -> None:
    change = judged([1.0, 2.0, 4.0, 8.0], [1.3, 2.4, 5.0, 11.0])
    assert change.ratio is not None
    assert change.ratio.point == pytest.approx(change.after / change.before)
    speed = judged([1.0, 2.0, 4.0, 8.0], [1.3, 2.4, 5.0, 11.0], THROUGHPUT)
    assert speed.ratio is not None
    assert speed.ratio.point == pytest.approx(speed.before / speed.after)


def test_runs_of_one_seed_are_compared_with_each_other() -> None:
    """Seeds that need 1 to 16 seconds, and each 20 % longer: without pairs nothing could be seen."""
    before = [1.0, 2.0, 4.0, 8.0, 16.0]
    noise = [1.01, 0.99, 1.0, 1.02, 0.98]
    after = [1.2 * value * factor for value, factor in zip(before, noise, strict=True)]
    assert judged(before, after).verdict == WORSE
    assert judged(after, before).verdict == BETTER
    assert judged(before, [value * factor for value, factor in zip(before, noise, strict=True)]).verdict in (
        UNCHANGED,
        UNDECIDED,
    )


def test_a_change_below_the_threshold_is_none_however_sure_it_is() -> None:
    before, after = [1.0] * 5, [1.2] * 5
    assert judged(before, after, threshold=0.1).verdict == WORSE
    assert judged(before, after, threshold=0.25).verdict != WORSE
    assert judged(before, before).verdict == UNCHANGED


def test_seeds_that_never_got_there_are_later() -> None:
    inf = float("inf")
    reached, never = [3.0, 4.0, 5.0, 6.0, 7.0], [inf] * 5
    assert judged(reached, never, THRESHOLD).verdict == WORSE
    assert judged(never, reached, THRESHOLD).verdict == BETTER
    assert judged(reached, [3.0, 4.0, 5.0, inf, inf], THRESHOLD).verdict == UNDECIDED
    assert judged(never, never, THRESHOLD).verdict == UNDECIDED
    assert judged(reached, never, THRESHOLD).ratio is None


def test_verdicts_are_corrected_for_each_other() -> None:
    """13 % with noise that one verdict survives, and forty do not."""
    before = [1.0] * 5
    after = [1.04, 1.22, 1.10, 1.19, 1.08]
    alone = judge_all([measured(before, after)], 0.05)
    among = judge_all([measured(before, after), *[measured(before, before)] * 40], 0.05)
    assert alone[0].verdict == WORSE
    assert among[0].verdict == UNDECIDED
    assert alone[0].chance is not None
    assert among[0].chance is not None
    assert among[0].chance > alone[0].chance


def two_sessions(source: np.random.Generator, slower: float = 0.0) -> tuple[Change, ...]:
    """Two contestants, five metrics and seeds. Runs spread by 2 %, a tenth of them is disturbed, and every
    session shifts each contestant by 1.5 %; times to the threshold differ between seeds by a factor of 1.5.
    """
    found = []
    for contestant in ("a", "b"):
        shifts = source.normal(0, 0.015, 2) + np.array([0, slower if contestant == "a" else 0.0])
        for metric in MAIN_METRICS:
            of_seed = source.normal(0, 0.4, 5) if metric is THRESHOLD else 0.0
            noise = source.normal(0, 0.02, (2, 5)) + (source.random((2, 5)) < 0.1) * source.exponential(
                0.1, (2, 5)
            )
            moved = metric in (THRESHOLD, THROUGHPUT, CPU)
            logs = noise + of_seed + (shifts if moved else 0 * shifts)[:, None]
            values = np.exp(-logs if metric.more_is_better else logs)
            found.append(measured(values[0].tolist(), values[1].tolist(), metric, contestant))
    return judge_all(found, 0.05)


@pytest.mark.slow
def test_the_same_study_twice_is_called_slower_in_at_most_five_percent() -> None:
    source = np.random.default_rng(1)
    alarms = [any(change.verdict == WORSE for change in two_sessions(source)) for _ in range(200)]
    assert np.mean(alarms) <= 0.05


@pytest.mark.slow
def test_ten_percent_slower_is_found() -> None:
    """With five seeds and runs that spread by 2 %."""
    source = np.random.default_rng(2)
    found = [
        any(change.verdict == WORSE and change.contestant == "a" for change in two_sessions(source, 0.0953))
        for _ in range(100)
    ]
    assert np.mean(found) >= 0.8


@pytest.mark.slow
def test_more_seeds_decide_as_often_as_promised() -> None:
    """Changes of about 10 %, a spread of 10 %: 80 % of the forecasts are kept."""
    source, kept = np.random.default_rng(3), []
    for _ in range(500):
        runs = source.normal(0, 0.1, 400) + source.normal(0, 0.1)

        def change_of(n: int, runs: np.ndarray = runs) -> Change:
            return judged([1.0] * n, np.exp(runs[:n]).tolist())

        first = change_of(5)
        if first.verdict == UNDECIDED and first.more_seeds is not None:
            kept.append(change_of(5 + first.more_seeds).verdict != UNDECIDED)
    assert len(kept) > 50
    assert 0.7 <= np.mean(kept) <= 0.9


def test_noisy_single_and_unproven_runs_are_shown_but_not_judged(tmp_path: Path) -> None:
    shape = replace(SHAPE, contestants=[TORCH])
    before = write_results(tmp_path / "before", shape, seed=1)
    slowed = replace(shape, contestants=[SLOWED])
    noisy = write_results(tmp_path / "noisy", slowed, seed=2)
    for path in noisy.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        outcome["noise"] = (outcome.get("noise") or {}) | {"score": 0.6}
        path.write_text(json.dumps(outcome))
    single = write_results(tmp_path / "single", replace(slowed, seeds=1), seed=2)
    unproven = write_results(tmp_path / "unproven", slowed, seed=2)
    for path in unproven.glob("certificates/*.json"):
        path.unlink()
    for after, kind in ((noisy, "noise"), (single, "seeds"), (unproven, "certificate")):
        found = compare_results(before, after)
        assert {change.word for change in found.changes} == {"not judged"}, kind
        assert all(change.ratio is None for change in found.changes)
        assert {objection.kind for change in found.changes for objection in change.objections} == {kind}
        assert CliRunner().invoke(app, ["compare", str(before), str(after)]).exit_code == 0
        assert "Not judged" in markdown(found)
        fixes = {objection.fix for change in found.changes for objection in change.objections}
        assert [markdown(found).count(fix) for fix in fixes] == [1]


def test_a_verdict_does_not_depend_on_random_draws(sets: tuple[Path, Path]) -> None:
    alone = compare_results(*sets, metrics=["throughput"]).changes
    among = [change for change in compare_results(*sets).changes if change.metric is THROUGHPUT]
    assert [change.ratio for change in alone] == [change.ratio for change in among]


def test_where_all_moved_alike_the_machine_is_suspected() -> None:
    before = [1.0, 1.1, 0.9, 1.0, 1.05]
    all_slower = [measured(before, [1.3 * value for value in before], name=name) for name in "ab"]
    one_slower = [
        measured(before, [1.3 * value for value in before], name="a"),
        measured(before, before, name="b"),
    ]
    for found, lines in ((all_slower, 1), (one_slower, 0)):
        comparison = Changes(("a", "b"), (), (), judge_all(found, 0.05), 0.05)
        assert len(shift_words(comparison)) == lines


def test_what_was_slowed_is_found_and_nothing_else(sets: tuple[Path, Path]) -> None:
    found = compare_results(*sets)
    slower = {(change.contestant, change.metric.key) for change in found.worse}
    assert ("torch:eager", "throughput") in slower
    assert {contestant for contestant, _ in slower} == {"torch:eager"}
    assert not any(name in ("memory", "startup") for _, name in slower)
    (speed,) = [change for change in found.worse if change.metric.key == "throughput"]
    assert speed.word == "slower"
    assert speed.ratio is not None
    assert speed.ratio.point == pytest.approx(1 / 0.6, rel=0.1)


def test_the_way_back_is_faster(sets: tuple[Path, Path]) -> None:
    back = compare_results(sets[1], sets[0], metrics=["throughput"])
    assert not back.worse
    assert [change.word for change in back.changes if change.contestant == "torch:eager"] == ["faster"]


def test_updates_alone_are_compared_on_request(sets: tuple[Path, Path]) -> None:
    assert not any(change.metric.key == "update" for change in compare_results(*sets).changes)
    changes = compare_results(*sets, metrics=["update"]).changes
    assert {change.metric.name for change in changes} == {"update_us"}
    assert {change.contestant for change in changes if change.verdict == WORSE} == {"torch:eager"}


def test_exit_code_is_a_gate(sets: tuple[Path, Path]) -> None:
    before, after = map(str, sets)
    run = CliRunner().invoke
    slower = run(app, ["compare", before, after])
    assert slower.exit_code == 1
    assert "slower" in slower.output
    assert run(app, ["compare", before, after, "--metric", "memory"]).exit_code == 0
    assert run(app, ["compare", before, after, "--threshold", "3"]).exit_code == 0
    assert run(app, ["compare", before, before]).exit_code == 0


def test_markdown_for_a_pull_request(sets: tuple[Path, Path]) -> None:
    text = markdown(compare_results(*sets, metrics=["throughput", "memory"]))
    first = next(line for line in text.splitlines() if line.startswith("| **"))
    assert first.startswith("| **slower** | `torch:eager` | DQN on CartPole-v1 | Speed, steps/s | ")
    assert "<details><summary>unchanged, undecided or not judged</summary>" in text


def test_another_machine_and_other_versions_are_named(tmp_path: Path) -> None:
    one = replace(SHAPE, seeds=1)
    before, after = write_results(tmp_path / "a", one), write_results(tmp_path / "b", one)
    assert compare_results(before, after).other_differences == ()
    change_manifest(after, cpu="Another CPU")
    for path in after.glob("trials/torch*/facts.json"):
        path.write_text(path.read_text().replace('"torch": "1.2.3"', '"torch": "9.9"'))
    assert compare_results(before, after).other_differences == (
        "machine: cpu Example CPU @ 2.5 GHz → Another CPU",
        "torch:eager: torch 1.2.3 → 9.9",
    )


def test_another_computation_is_not_compared(tmp_path: Path) -> None:
    one = replace(SHAPE, seeds=1, contestants=[NUMPY])
    before = write_results(tmp_path / "a", replace(one, hyper={"batch_size": [32]}))
    after = write_results(tmp_path / "b", replace(one, hyper={"batch_size": [64]}))
    with pytest.raises(Problem, match="no setting in common"):
        compare_results(before, after)
    both = write_results(tmp_path / "c", replace(one, hyper={"batch_size": [32, 64]}))
    found = compare_results(before, both)
    assert found.unmatched == (
        f"only in {both}: numpy:eager, DQN on CartPole-v1 (batch_size 64, 32 in the other)",
    )


def test_unknown_metric_and_threshold_are_problems(sets: tuple[Path, Path]) -> None:
    with pytest.raises(Problem, match="unknown metric `speed`"):
        compare_results(*sets, metrics=["speed"])
    with pytest.raises(Problem, match="above 0"):
        compare_results(*sets, threshold=0)


def test_the_undecided_say_how_many_seeds_they_need() -> None:
    undecided = judged([1.0] * 5, [1.03, 1.24, 1.01, 1.21, 1.02])
    assert undecided.verdict == UNDECIDED
    assert undecided.more_seeds is not None
    comparison = Changes(("a", "b"), (), (), (undecided,), 0.05)
    assert f"About {undecided.more_seeds} more seeds" in str(seeds_words(comparison))
    decided = Changes(("a", "b"), (), (), (judged([1.0] * 5, [1.2] * 5),), 0.05)
    assert seeds_words(decided) is None


def test_releases_of_one_framework_are_compared_where_they_are_asked_to_be(tmp_path: Path) -> None:
    old, new = replace(TORCH, name="torch@2.11:eager"), replace(SLOWED, name="torch@2.12#1a2b3c4d:eager")
    before = write_results(tmp_path / "before", replace(SHAPE, contestants=[old]), seed=1)
    after = write_results(tmp_path / "after", replace(SHAPE, contestants=[new]), seed=2)
    with pytest.raises(Problem, match="no setting in common"):
        compare_results(before, after)
    result = CliRunner().invoke(app, ["compare", str(before), str(after), "--ignore-releases", "--markdown"])
    assert result.exit_code == 1
    assert "torch@2.11:eager → torch@2.12#1a2b3c4d:eager" in result.stdout
    both = write_results(tmp_path / "both", replace(SHAPE, contestants=[old, new]), seed=1)
    result = CliRunner().invoke(app, ["compare", str(both), str(after), "--ignore-releases"])
    assert isinstance(result.exception, Problem)
    assert "torch@2.11:eager and torch@2.12#1a2b3c4d:eager" in result.exception.message


def test_one_run_is_never_judged() -> None:
    """Damaged records may leave one value of several runs."""
    one, two = {0: (100.0, 1.0)}, {1: (90.0, 1.0), 2: (91.0, 1.0)}
    found = measure("numpy:eager", "DQN on CartPole-v1", THROUGHPUT, (one, two), ())
    assert found is not None
    (change,) = judge_all([found], 0.05)
    assert change.verdict not in (BETTER, WORSE, UNCHANGED)
