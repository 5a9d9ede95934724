from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.answers import changes
from rldyno.answers.analysis import Analysis
from rldyno.answers.changes import BETTER, UNCHANGED, UNDECIDED, WORSE, Change, Changes, verdict
from rldyno.answers.changes_text import markdown, seeds_words
from rldyno.answers.groups import THROUGHPUT, MetricValue
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.stats.bootstrap import Estimate
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


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((1.06, 1.20), WORSE),
        ((1.01, 1.20), UNDECIDED),
        ((0.97, 1.04), UNCHANGED),
        ((0.90, 1.02), UNDECIDED),
        ((0.70, 0.95), BETTER),
        ((0.70, 0.96), UNDECIDED),
        ((None, None), UNDECIDED),
    ],
)
def test_a_verdict_needs_the_whole_interval(
    interval: tuple[float | None, float | None], expected: str
) -> None:
    low, high = interval
    some = MetricValue(Estimate(1.0, 1.0, 1.0, 5))
    assert verdict(Estimate(1.0, low, high, 5), some, some, threshold=0.05) == expected


def test_never_reached_is_worse_only_when_even_the_lower_bound_is_never() -> None:
    inf = float("inf")
    reached, maybe, never = (
        MetricValue(Estimate(3.0, 2.0, 4.0, 5)),
        MetricValue(Estimate(inf, 3.0, inf, 5)),
        MetricValue(Estimate(inf, inf, inf, 5)),
    )
    assert verdict(None, reached, never, 0.05) == WORSE
    assert verdict(None, never, reached, 0.05) == BETTER
    assert verdict(None, reached, maybe, 0.05) == UNDECIDED
    assert verdict(None, never, never, 0.05) == UNDECIDED


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
    assert "<details><summary>unchanged and undecided</summary>" in text


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


def change_of(low: float | None, point: float, high: float | None, verdict: str = UNDECIDED) -> Change:
    one = Estimate(1.0, None, None, 5)
    ratio = Estimate(point, low, high, 5)
    return Change("torch:eager", "DQN on CartPole-v1", THROUGHPUT, one, one, ratio, verdict, 0.05)


def words_of(*changes: Change) -> str | None:
    return seeds_words(Changes(("a", "b"), (), (), changes, 0.05))


def test_the_undecided_say_how_many_seeds_they_need() -> None:
    """1.21 [1.0, 1.46] clears 1.05 with (ln 1.21 / ln(1.21 / 1.05))² = 1.8 times its 5 seeds."""
    assert change_of(1.0, 1.21, 1.4641).more_seeds == 5
    assert change_of(1.0, 1.21, 1.4641, WORSE).more_seeds is None
    assert change_of(0.9, 1.05, 1.2).more_seeds is None
    assert words_of(change_of(1.06, 1.2, 1.3, WORSE)) is None
    assert (
        words_of(change_of(None, 1.2, None))
        == "with one seed the spread is unknown: run five or more in both sets"
    )
    assert words_of(change_of(1.0, 1.21, 1.4641)) == (
        "too few seeds to decide 1: about 5 more in both sets would decide 1"
    )
    assert "no reasonable number" in str(words_of(change_of(0.9, 1.05, 1.2)))
