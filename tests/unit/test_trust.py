from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_answers import printed
from typer.testing import CliRunner

import rldyno
from rldyno.answers import fixes, trust
from rldyno.answers.adaptive import check_lines, ending, interim_checks, state_words
from rldyno.answers.analysis import Analysis
from rldyno.answers.doubts import doubts
from rldyno.answers.groups import MEMORY, THRESHOLD, THROUGHPUT, Group
from rldyno.answers.trust import BARRED, CLEAR, UNSURE, Objection, Trust
from rldyno.answers.wording import headline, sentence
from rldyno.cli import app
from rldyno.records.manifest import AdaptiveSeeds
from rldyno.results.columns import column
from rldyno.results.load import load_results
from rldyno_rig import schema
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

JAX = Contestant("jax:jit", 50_000, certificate="stale")
NAMING = ("×", "fastest", "best", "Take ")
"""Words that name a winner."""


ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests/data/old_sample"


def written(path: Path, *contestants: Contestant, **shape: Any) -> Path:
    settings = {"algorithms": ["dqn"], "seeds": 5, "sample_hz": 2} | shape
    return write_results(path, Shape(contestants=contestants or (NUMPY, TORCH), **settings))


def edit_outcomes(root: Path, change: Callable[[int, dict[str, Any]], None]) -> None:
    for index, path in enumerate(sorted(root.glob("trials/*/outcome.json"))):
        outcome = json.loads(path.read_text())
        change(index, outcome)
        path.write_text(json.dumps(outcome))


def disturb(root: Path, trials: int, score: float = 6.0) -> Path:
    def change(index: int, outcome: dict[str, Any]) -> None:
        outcome["noise"]["score"] = score if index < trials else 0.0

    edit_outcomes(root, change)
    return root


def group_in(root: Path) -> Group:
    (group,) = Analysis.load(root).comparisons
    return group


def kinds(group: Group) -> dict[str, bool]:
    return {objection.kind: objection.bars for objection in group.trust.objections}


def test_the_level_follows_from_the_objections() -> None:
    doubt, bar = Objection("seeds", False, "Few.", "More."), Objection("noise", True, "Noise.", "Quiet.")
    assert (Trust().level, Trust((doubt,)).level, Trust((doubt, bar)).level) == (CLEAR, UNSURE, BARRED)
    assert (Trust((doubt, bar)).words, Trust((doubt, bar)).fixes) == ("Noise.", ("Quiet.",))
    assert Trust((doubt,)).words == "Few."


def test_enough_quiet_certified_seeds_are_clear(tmp_path: Path) -> None:
    group = group_in(written(tmp_path / "r", seeds=10))
    assert group.trust == Trust()
    assert group.rows[0].figures["threshold_s"].best


@pytest.mark.parametrize(("disturbed", "bars"), [(6, True), (5, False), (1, False)])
def test_more_than_half_of_the_trials_disturbed_bars(tmp_path: Path, disturbed: int, bars: bool) -> None:
    group = group_in(disturb(written(tmp_path / "r"), disturbed, score=60.0))
    assert kinds(group)["noise"] is bars


@pytest.mark.parametrize(("score", "bars"), [(0.3, False), (6.0, True)])
def test_noise_bars_only_what_it_may_explain(tmp_path: Path, score: float, bars: bool) -> None:
    """The runner-up takes about twice as long: it cannot have lost as much by a score of 0.3."""
    group = group_in(disturb(written(tmp_path / "r"), 10, score))
    assert kinds(group)["noise"] is bars
    assert group.trust.barred is bars


def test_a_disturbed_run_is_measured_anew_with_enough_seeds(tmp_path: Path) -> None:
    root = disturb(written(tmp_path / "r", seeds=1), 2)
    trust = group_in(root).trust
    assert {item.kind for item in trust.reasons} == {"seeds", "noise"}
    (fix,) = trust.fixes
    assert fix.endswith(f": `rldyno run {root} --out {root}-again --seeds 5..30`")


def test_a_terminal_never_breaks_a_command(tmp_path: Path) -> None:
    """Half of a pasted command would run by itself."""
    root = disturb(written(tmp_path / "r", seeds=1), 2)
    command = f"rldyno run {root} --out {root}-again --seeds 5..30"
    advised = CliRunner().invoke(app, ["advise", str(root)], env={"COLUMNS": "50"}).output
    for text in (printed(root, width=50), advised):
        assert command in [line.strip() for line in text.splitlines()]


def test_one_seed_bars_and_few_weaken(tmp_path: Path) -> None:
    assert kinds(group_in(written(tmp_path / "r", seeds=1)))["seeds"]
    assert not kinds(group_in(written(tmp_path / "s", seeds=4)))["seeds"]
    assert "seeds" not in kinds(group_in(written(tmp_path / "t", seeds=5)))


def test_seeds_that_adaptive_checks_found_enough_are_enough(tmp_path: Path) -> None:
    root = written(tmp_path / "r", seeds=4)
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["adaptive"] = {"min": 4, "max": 30, "until": "resolved", "within": 0.05}
    (root / "manifest.json").write_text(json.dumps(manifest))
    trust = Analysis.load(root).trust(group_in(root), THROUGHPUT)
    assert trust.about("seeds") is None
    assert trust.about("chance") is None


def test_a_walkover_is_not_a_win(tmp_path: Path) -> None:
    shape = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn", "ppo"], seeds=10, sample_hz=2)
    root = write_results(tmp_path / "r", shape)
    for path in root.glob("certificates/*torch*ppo*"):
        path.unlink()
    said = headline(Analysis.load(root).comparisons)
    assert said.startswith("`numpy:eager` learned fastest in the only comparison; ")
    assert said.endswith("1 has no answer: nobody else could be ranked (1).")


def test_an_older_gpu_sample_has_no_winner() -> None:
    """Its proofs lack rungs that came later: all eight comparisons are shown, and nobody is ranked."""
    groups = Analysis.load(SAMPLE).comparisons
    said = headline(groups)
    assert {row.certificate for group in groups for row in group.rows} == {"stale"}
    assert not any(word in said for word in NAMING)
    assert not any(figure.best for group in groups for row in group.rows for figure in row.figures.values())


def test_trials_from_before_shapes_were_proven_are_ranked_with_a_doubt(tmp_path: Path) -> None:
    root = written(tmp_path / "r", NUMPY, TORCH, seeds=10)
    assert kinds(group_in(root)) == {}
    for path in root.glob("trials/*/facts.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"shape": None}))
    for path in root.glob("certificates/*.json"):
        if "shape" in json.loads(path.read_text()):
            path.unlink()
    group = group_in(root)
    assert kinds(group) == {"certificate": False}
    assert [row.unranked for row in group.rows] == [None, None]
    assert "the sizes that ran were not proven" in group.trust.objections[0].words


def test_an_unranked_contestant_with_the_better_value_is_named(tmp_path: Path) -> None:
    group = group_in(written(tmp_path / "r", NUMPY, TORCH, JAX, seeds=10))
    assert kinds(group) == {"certificate": False}
    speeds = {row.contestant: row.figures["steps_per_s"] for row in group.rows}
    assert [name for name, figure in speeds.items() if figure.best] == []
    assert [name for name, figure in speeds.items() if figure.first] == ["numpy:eager"]
    # It needs more memory: there nothing stands beside a better number.
    assert next(row for row in group.rows if row.contestant == "numpy:eager").figures["peak_rss_bytes"].best
    assert "`jax:jit` (" in sentence(group)
    assert "has the better value but does not count: certificate out of date" in sentence(group)


def test_one_that_learns_differently_is_no_doubt_about_the_others(tmp_path: Path) -> None:
    root = written(
        tmp_path / "r", NUMPY, TORCH, Contestant("jax:jit", 50_000, needs=3), steps=80_000, seeds=10
    )
    assert kinds(group_in(root)) == {}


def test_trials_that_have_not_ended_weaken(tmp_path: Path) -> None:
    assert kinds(group_in(written(tmp_path / "r", seeds=10, pending=1))) == {"pending": False}


def test_each_metric_has_its_own_objections(tmp_path: Path) -> None:
    twin = replace(NUMPY, name="jax:jit")
    analysis = Analysis.load(written(tmp_path / "r", NUMPY, twin))
    (group,) = analysis.comparisons
    assert analysis.trust(group, group.primary) == analysis.trust(group) == group.trust
    assert analysis.trust(group, THRESHOLD) != group.trust
    assert analysis.trust(group, MEMORY).about("chance") is not None
    energy = analysis.trust(group, column("energy_joules"))
    assert energy.barred
    assert energy.objections[0].kind == "unmeasured"


def test_nobody_is_marked_best_where_the_difference_may_be_chance(tmp_path: Path) -> None:
    analysis = Analysis.load(written(tmp_path / "r", NUMPY, replace(NUMPY, name="jax:jit")))
    (group,) = analysis.comparisons
    for metric in group.metrics:
        figures = [row.figures[metric.name] for row in group.ranked]
        open_still = analysis.trust(group, metric).about("chance") is not None
        assert any(figure.best for figure in figures) != open_still
    assert group.trust.about("chance") is not None


def test_a_doubt_about_a_barred_answer_asks_for_nothing(tmp_path: Path) -> None:
    """More seeds do not help a run on a disturbed machine."""
    found = {doubt.name: doubt for doubt in doubts([group_in(disturb(written(tmp_path / "r", seeds=3), 6))])}
    assert found["a disturbed machine"].fixes
    assert not found["too few seeds"].fixes


BARRED_RESULTS: dict[str, Callable[[Path], Path]] = {
    "noise": lambda path: disturb(written(path), 10),
    "seeds": lambda path: written(path, seeds=1),
    "alone": lambda path: written(path, NUMPY, JAX),
    "unreached": lambda path: written(path, replace(NUMPY, learns=0), replace(TORCH, learns=0)),
}


@pytest.mark.parametrize("kind", BARRED_RESULTS)
def test_nobody_names_a_winner_where_it_is_barred(tmp_path: Path, kind: str) -> None:
    """The answer, the terminal, `advise` and the Python API agree; each says why and what to do."""
    root = BARRED_RESULTS[kind](tmp_path / "r")
    group = group_in(root)
    (objection,) = [item for item in group.trust.objections if item.kind == kind]
    assert objection.bars
    primary = {row.contestant: row.figures.get(group.primary.name) for row in group.rows}
    assert all(figure is None or (figure.ratio, figure.best) == (None, False) for figure in primary.values())
    loaded = rldyno.load(root)
    frame = loaded.compare().frame.filter(metric="threshold")
    assert frame["ratio"].null_count() == len(frame)
    assert set(frame["trust"]) == {BARRED}
    assert objection.words in frame["objections"][0]
    assert not frame["best"].any()
    assert objection.words.split(" (")[0].replace("`", "") in strip_tags(loaded.compare()._repr_html_())
    (as_json,) = json.loads(CliRunner().invoke(app, ["advise", str(root), "--json"]).output)
    assert kind in [item["kind"] for item in as_json["refusals"][0]["objections"]]
    advised = CliRunner().invoke(app, ["advise", str(root)])
    assert advised.exit_code == 1
    terminal = " ".join(printed(root, width=200).split())
    assert " ".join(objection.fix.split()).replace("`", "") in terminal.replace("`", "")
    below_tables = terminal.partition("certified.")[2]  # other metrics may have ratios
    assert below_tables
    for text in (below_tables, sentence(group), loaded.headline, advised.output, str(loaded.advise())):
        assert not any(word in text for word in NAMING), text


def strip_tags(html: str) -> str:
    return re.sub("<[^>]*>", "", html)


def test_no_fix_edits_the_records(tmp_path: Path) -> None:
    for name, make in BARRED_RESULTS.items():
        root = make(tmp_path / name)
        for objection in group_in(root).trust.objections:
            assert f"in {root}" not in objection.fix
            assert "--amend" not in objection.fix


def test_a_fix_names_the_study_that_the_user_gave(tmp_path: Path) -> None:
    root = BARRED_RESULTS["unreached"](tmp_path / "r")
    manifest = json.loads((root / "manifest.json").read_text())
    (root / "manifest.json").write_text(json.dumps(manifest | {"study_path": "studies/mine.toml"}))
    assert group_in(root).trust.fixes == (
        f"Raise [budget] in studies/mine.toml, then: `rldyno run studies/mine.toml --out {root}-again`",
    )


def test_where_all_trials_failed_they_are_to_be_repeated(tmp_path: Path) -> None:
    failed = [replace(contestant, outcome="crashed") for contestant in (NUMPY, TORCH)]
    root = written(tmp_path / "r", *failed)
    (fix,) = group_in(root).trust.fixes
    assert fix.endswith(f"then: `rldyno run {root}`")


def test_an_unchanged_study_is_run_again_from_its_record(tmp_path: Path) -> None:
    """The file that the user gave may have moved or changed since."""
    root = BARRED_RESULTS["noise"](tmp_path / "r")
    (fix,) = group_in(root).trust.fixes
    assert fix.endswith(f"`rldyno run {root} --out {root}-again`")


def test_a_few_disturbed_trials_are_repeated_alone(tmp_path: Path) -> None:
    root = disturb(written(tmp_path / "r"), 2)
    assert f"while the machine is idle: `rldyno run {root} --max-noise 0.25`" in " ".join(
        group_in(root).trust.fixes
    )


def test_one_command_does_where_the_study_has_to_change(tmp_path: Path) -> None:
    """Two commands that write to one directory would be in each other's way."""
    never = [replace(NUMPY, learns=0), replace(TORCH, learns=0)]
    root = disturb(written(tmp_path / "r", *never, seeds=1), 2)
    assert {"unreached", "noise", "seeds"} <= {item.kind for item in group_in(root).trust.reasons}
    (fix,) = group_in(root).trust.fixes
    assert fix.endswith(f"then: `rldyno run STUDY.toml --out {root}-again --seeds 5..30`")


def test_every_rule_has_its_kind_in_words() -> None:
    rules = {rule.__name__ for rule in trust.RULES}
    assert rules <= set(trust.KINDS)
    described = (ROOT / "docs/answers.md").read_text(encoding="utf-8")
    assert {name for name in rules if f"| `{name}` |" not in described} == set()


def test_a_task_without_tuned_values_is_a_doubt(tmp_path: Path) -> None:
    root = written(tmp_path / "r")
    assert "untuned" not in kinds(group_in(root))
    path = root / "manifest.json"
    untuned = [{"algorithm": "dqn", "environment": "CartPole-v1"}]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"untuned": untuned}))
    group = group_in(root)
    assert kinds(group)["untuned"] is False
    assert "DQN is not tuned for CartPole-v1" in group.trust.words


# --- nobody learned -----------------------------------------------------------------------------------------


def write_returns(root: Path, returns: Callable[[int], float]) -> Path:
    """200 episodes per trial, their returns by their number."""
    rng = np.random.default_rng(3)
    for path in root.glob("trials/*/episodes.csv"):
        values = [max(1.0, round(returns(index) * rng.uniform(0.7, 1.3))) for index in range(200)]
        steps = np.cumsum(values)
        rows = [
            f"{index + 1},0,{int(step)},{int(step) * 1000},{value},{int(value)},1"
            for index, (value, step) in enumerate(zip(values, steps, strict=True))
        ]
        path.write_text("\n".join([",".join(schema.EPISODE_COLUMNS), *rows]) + "\n")
    return root


def test_a_study_in_which_nobody_learned_says_so(tmp_path: Path) -> None:
    """Random play on CartPole gives 22; a network that always pushes to one side 9.4."""
    root = write_returns(
        written(tmp_path / "r", stop_return=None, seeds=6), lambda index: 22 if index < 40 else 9.4
    )
    group = group_in(root)
    assert kinds(group)["unlearned"] is False
    assert group.unlearned is not None
    assert group.unlearned.end == pytest.approx(9.4, abs=0.3)
    assert "Nobody learned: the mean return is 9." in sentence(group)
    assert "Nobody learned: " in CliRunner().invoke(app, ["advise", str(root)]).output
    noisy = disturb(root, 12)
    assert "Nobody learned: " in sentence(group_in(noisy))
    alone = write_returns(written(tmp_path / "s", NUMPY, stop_return=None), lambda _: 9.4)
    assert "Nobody learned: " in sentence(group_in(alone))


def test_a_slow_rise_is_learning(tmp_path: Path) -> None:
    root = write_returns(written(tmp_path / "r", stop_return=None), lambda index: 20 + index / 20)
    assert group_in(root).unlearned is None


def test_a_few_episodes_tell_nothing(tmp_path: Path) -> None:
    root = written(tmp_path / "r", stop_return=None, seeds=2)
    for path in root.glob("trials/*/episodes.csv"):
        path.write_text("\n".join(path.read_text().splitlines()[:20]) + "\n")
    assert group_in(root).unlearned is None


def test_more_seeds_are_never_fewer_than_the_study_plans(tmp_path: Path) -> None:
    """`rldyno run DIR --seeds` refuses to drop seeds."""
    results = load_results(written(tmp_path / "r", seeds=12))
    assert fixes.adaptive_seeds(results, 5, 10).endswith("--seeds 5..12`")
    rule = AdaptiveSeeds(2, 30, "resolved", 0.02)
    adaptive = replace(results, manifest=replace(results.manifest, adaptive=rule))
    assert fixes.adaptive_seeds(adaptive, 5, 10).endswith("--seeds 5..30`")


# --- interim checks of adaptive seeds -----------------------------------------------------------------------

RULE = AdaptiveSeeds(5, 30, "resolved", 0.02)


def test_interim_checks_name_no_ratio_where_noise_bars(tmp_path: Path) -> None:
    root = written(tmp_path / "r", NUMPY, replace(NUMPY, name="jax:jit"))
    (quiet,) = check_lines(interim_checks(load_results(root), RULE), RULE)[1:]
    assert "×" in quiet
    (noisy,) = check_lines(interim_checks(load_results(disturb(root, 10)), RULE), RULE)[1:]
    assert "10 of 10 trials ran on a disturbed machine" in noisy
    assert "×" not in noisy


def test_contestants_that_never_reached_the_threshold_are_not_decided(tmp_path: Path) -> None:
    checks = interim_checks(load_results(BARRED_RESULTS["unreached"](tmp_path / "r")), RULE)
    head, line = check_lines(checks, RULE)
    assert head == "interim check: 0 of 1 comparisons decided, 0 open"
    assert "neither reached the threshold on any of 5 seeds" in line
    assert ending(checks) == "unreached"
    (pair,) = checks[0].found.pairs
    assert state_words(pair, RULE) == "neither reached the threshold"
