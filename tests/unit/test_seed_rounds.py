"""Seeds added where comparisons are open: the rounds, the looks they leave, and going on after a kill."""

from __future__ import annotations

import io
import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from rldyno.answers import adaptive
from rldyno.answers.adaptive import latest_checks, status_lines
from rldyno.answers.analysis import Analysis
from rldyno.answers.comparison import compare
from rldyno.answers.ranking import EXPECTED
from rldyno.answers.wording import confidence_words, pick_words, verdict
from rldyno.records.directory import ResultsDirectory
from rldyno.records.files import read_json, write_json
from rldyno.records.manifest import AdaptiveSeeds, Manifest
from rldyno.results.load import Results as LoadedResults
from rldyno.results.load import load_results
from rldyno.session import seed_rounds
from rldyno.session.manifest import adaptive_seeds
from rldyno.study.file import load_study
from rldyno.study.plan import Plan, Trial, make_plan
from rldyno_rig.schema import OUTCOME_FILE, TRIAL_FILE
from synthetic import NUMPY, TORCH, Shape, write_results

STUDY = """
contestants = ["numpy:eager", "torch:eager", "jax:jit"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
seeds = {seeds}
[budget]
steps = 1000
"""
# Steps per second and the spread of one run: two that seven seeds might separate but do not, one far off.
RATES = {"numpy:eager": (1000.0, 0.2), "torch:eager": (1700.0, 0.2), "jax:jit": (9000.0, 0.01)}


class Killed(Exception):
    pass


class FakeRun:
    """A results directory whose trials end at once, with known speeds."""

    def __init__(self, folder: Path, seeds: str, rates: dict[str, tuple[float, float]] = RATES) -> None:
        folder.mkdir(exist_ok=True)
        path = folder / "study.toml"
        path.write_text(STUDY.format(seeds=seeds))
        self.plan = make_plan(load_study(path))
        self.results = ResultsDirectory(folder / "out")
        self.results.trials.mkdir(parents=True, exist_ok=True)
        self.rates = rates
        self.ran: list[str] = []
        self.said = ""

    def go(self, kill_after: int | None = None, hours: float | None = None) -> Plan:
        earlier = self.results.read_manifest() if self.results.manifest.exists() else None
        opening = seed_rounds.current_plan(self.plan, earlier)
        manifest = Manifest(
            adaptive=adaptive_seeds(self.plan.study, earlier),
            trials=tuple(trial.id for trial in opening.trials),
        )
        self.results.write_manifest(manifest)
        stream = io.StringIO()
        console = Console(file=stream, width=200)
        run = self.runner(kill_after)
        clock = seed_rounds.Hours(hours and hours * 3600)
        try:
            seed_rounds.run_opening(opening, run, clock)
            manifest = seed_rounds.add_seeds(self.results, self.plan, manifest, run, clock, console)
            return seed_rounds.current_plan(self.plan, manifest)
        finally:
            self.said = stream.getvalue()

    def runner(self, kill_after: int | None) -> Callable[[Plan], None]:
        def run(part: Plan) -> None:
            for trial in part.trials:
                if (self.results.trial(trial.id) / OUTCOME_FILE).exists():
                    continue
                if kill_after is not None and len(self.ran) >= kill_after:
                    raise Killed
                self.end(trial)
                self.ran.append(trial.id)

        return run

    def end(self, trial: Trial) -> None:
        home = self.results.trial(trial.id)
        home.mkdir(exist_ok=True)
        rate, spread = self.rates[trial.cell.contestant]
        speed = rate * math.exp(spread * random.Random(trial.id).gauss(0, 1))
        (home / TRIAL_FILE).write_text(json.dumps(trial.to_json()))
        result = {"reason": "steps", "steps": 1000, "train_ns": int(1e12 / speed), "train_start_ns": 10**9}
        outcome = {"status": "done", "reason": "steps", "message": "", "wall_s": 2.0, "result": result}
        (home / OUTCOME_FILE).write_text(json.dumps(outcome))

    def seeds(self) -> dict[str, int]:
        trials = load_results(self.results.root).trials
        return dict(trials.group_by("contestant").len().iter_rows())

    def looks(self) -> list[dict[str, Any]]:
        """What the manifest keeps, but for the time of day."""
        adaptive = self.results.read_manifest().to_json()["adaptive"]
        return [{name: value for name, value in look.items() if name != "at"} for look in adaptive["looks"]]


def test_only_open_comparisons_get_more_seeds_up_to_the_most(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    part = fake.go()
    assert fake.seeds() == {"numpy:eager": 7, "torch:eager": 7, "jax:jit": 5}
    manifest = fake.results.read_manifest().to_json()
    assert manifest["trials"] == [trial.id for trial in part.trials]
    assert manifest["adaptive"]["ended"] == "max"
    assert [look["added"] for look in fake.looks()] == [2, 2, 0]
    states = {
        (pair.first, pair.second): pair.state
        for pair in latest_checks(fake.results.read_manifest())["DQN on CartPole-v1"].pairs
    }
    assert len(states) == 2
    assert {pair for pair, state in states.items() if state == "different"} == {
        pair for pair in states if pair[0] == "jax:jit"
    }
    assert "1 of 2 comparisons decided, 1 open" in fake.said
    assert "adding 2 trials, seed 5" in fake.said
    assert "no more seeds: the maximum number of seeds of the study has run" in fake.said


def test_rounds_keep_the_order_of_the_plan(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    fake.go()
    place = {trial.id: index for index, trial in enumerate(fake.plan.trials)}
    assert fake.ran == sorted(fake.ran, key=place.__getitem__)


def test_a_clear_ranking_takes_the_fewest(tmp_path: Path) -> None:
    clear = {"numpy:eager": (100.0, 0.02), "torch:eager": (300.0, 0.02), "jax:jit": (900.0, 0.02)}
    fake = FakeRun(tmp_path, "{ min = 5, max = 30 }", clear)
    fake.go()
    assert fake.seeds() == dict.fromkeys(clear, 5)
    assert fake.results.read_manifest().to_json()["adaptive"]["ended"] == "resolved"
    (line,) = status_lines(fake.results.read_manifest())
    assert line.endswith("2 comparisons decided, 0 open; stopped: every comparison is decided")


def test_until_the_winner_is_known_the_rest_may_stay_open(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 30, until = 'winner' }")
    fake.go()
    assert fake.seeds() == dict.fromkeys(RATES, 5)
    assert fake.results.read_manifest().to_json()["adaptive"]["ended"] == "resolved"


@pytest.mark.parametrize("kill_after", [3, 15, 16, 18])
def test_killed_anywhere_the_same_command_ends_with_the_same_looks(tmp_path: Path, kill_after: int) -> None:
    whole = FakeRun(tmp_path / "whole", "{ min = 5, max = 7 }")
    whole.go()
    broken = FakeRun(tmp_path / "broken", "{ min = 5, max = 7 }")
    with pytest.raises(Killed):
        broken.go(kill_after)
    broken.go()
    assert broken.looks() == whole.looks()
    assert sorted(broken.ran) == sorted(whole.ran)
    assert broken.ran[:kill_after] == whole.ran[:kill_after]


def test_a_finished_fake_adds_neither_trials_nor_looks(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 6 }")
    fake.go()
    ran, looks = list(fake.ran), fake.looks()
    fake.go()
    assert (fake.ran, fake.looks()) == (ran, looks)


def test_more_seeds_may_be_allowed_later(tmp_path: Path) -> None:
    """The tests hold at any number of seeds, so that raising the most is no second attempt."""
    FakeRun(tmp_path, "{ min = 5, max = 7 }").go()
    fake = FakeRun(tmp_path, "{ min = 5, max = 8 }")
    fake.go()
    assert fake.seeds()["numpy:eager"] == 8
    assert [look["added"] for look in fake.looks()] == [2, 2, 0, 2, 0]


HARDLY = RATES | {"torch:eager": (1030.0, 0.2)}


def test_a_hopeless_comparison_gets_no_more_seeds_and_is_called_so(tmp_path: Path) -> None:
    """A gap of a tenth of its spread: thirty seeds show neither a difference nor equality within 2 %."""
    fake = FakeRun(tmp_path, "{ min = 5, max = 30 }", HARDLY)
    fake.go()
    assert max(fake.seeds().values()) < 15
    manifest = fake.results.read_manifest()
    assert manifest.adaptive is not None
    assert manifest.adaptive.ended == "hopeless"
    (open_pair,) = [
        pair for pair in latest_checks(manifest)["DQN on CartPole-v1"].pairs if pair.state == "open"
    ]
    assert open_pair.hope is not None
    assert open_pair.hope < adaptive.HOPELESS
    assert "30 seeds would hardly decide it" in status_lines(manifest)[1]
    assert "would hardly decide" in fake.said


def test_more_seeds_revive_a_hopeless_comparison(tmp_path: Path) -> None:
    """Which one is hopeless depends on the seeds that the study allows."""
    FakeRun(tmp_path, "{ min = 5, max = 7 }", HARDLY).go()
    fake = FakeRun(tmp_path, "{ min = 5, max = 40 }", HARDLY)
    before = fake.results.read_manifest().adaptive
    assert before is not None
    assert before.ended == "hopeless"
    fake.go()
    assert fake.seeds()["torch:eager"] > 7


def test_the_check_and_the_answer_show_the_same_ratio(tmp_path: Path) -> None:
    """And it is the ratio of the values that stand beside it, though their seeds differ in number."""
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    fake.go()
    (group,) = compare(certified(fake))
    first, second, third = group.ranked
    (checked, _) = latest_checks(fake.results.read_manifest())["DQN on CartPole-v1"].pairs
    figure = second.figures["steps_per_s"]
    assert figure.ratio is not None
    assert checked.ratio == pytest.approx(figure.ratio.point)
    for row in (second, third):
        ratio = row.figures["steps_per_s"].ratio
        values = [found.figures["steps_per_s"].estimate.point for found in (first, row)]
        assert ratio is not None
        assert ratio.point == pytest.approx(values[0] / values[1])


def test_checks_of_older_versions_are_read() -> None:
    """They have no chance of being decided, and null for what was not known."""
    pair = {
        "first": "a",
        "second": "b",
        "seeds": 5,
        "ratio": None,
        "low": 0.0,
        "high": None,
        "chance": 1.0,
        "state": "open",
        "more_seeds": None,
    }
    group = {"label": "DQN", "order": ["a", "b"], "left_out": {}, "duels": [pair]}
    look = {"at": "now", "added": 0, "groups": [group]}
    rule = {"min": 5, "max": 9, "until": "resolved", "within": 0.02, "looks": [look], "ended": "max"}
    manifest = Manifest.from_json({"adaptive": rule})
    (found,) = latest_checks(manifest)["DQN"].pairs
    assert math.isnan(found.ratio)
    assert found.high == math.inf
    assert "1 open; stopped" in status_lines(manifest)[0]
    written = manifest.to_json()["adaptive"]["looks"][0]["groups"][0]["duels"][0]
    assert written == pair | {"hope": None}


def test_the_check_ranks_by_the_figure_of_the_answer(tmp_path: Path) -> None:
    """Contestants that learn alike: expected times to the threshold, not the steps that seeds differ by."""
    root = write_results(tmp_path / "r", Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=6))
    rule = AdaptiveSeeds(min=5, max=9, until="resolved", within=0.02)
    results = load_results(root)
    results = replace(results, manifest=replace(results.manifest, adaptive=rule))
    (group,) = compare(results)
    assert group.primary is EXPECTED
    (check,) = adaptive.interim_checks(results, rule)
    (pair,) = check.found.pairs
    assert check.found.order == tuple(row.contestant for row in group.ranked)
    figure = group.ranked[1].figures[EXPECTED.name]
    assert figure.ratio is not None
    assert (pair.ratio, pair.low, pair.high) == pytest.approx(
        (figure.ratio.point, figure.ratio.low, figure.ratio.high)
    )
    assert pair.chance == figure.chance


def test_no_block_begins_that_would_not_end_in_time(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    part = fake.go(hours=1e-12)
    assert fake.ran == []
    assert len(part.trials) == 15


def test_hours_that_end_after_the_opening_leave_comparisons_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    monkeypatch.setattr(seed_rounds.Hours, "spent", lambda _: len(fake.ran) >= 15)
    fake.go(hours=1.0)
    assert len(fake.ran) == 15
    assert fake.results.read_manifest().to_json()["adaptive"]["ended"] == "hours"
    lines = status_lines(fake.results.read_manifest())
    assert "1 open; stopped: the time limit is reached" in lines[0]
    assert "open: neither clearly different nor within 2 %" in lines[1]


def test_hours_that_end_within_the_opening_resolve_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The five blocks that ran tell all apart, but the study asks for seven."""
    clear = {"numpy:eager": (100.0, 0.01), "torch:eager": (300.0, 0.01), "jax:jit": (900.0, 0.01)}
    fake = FakeRun(tmp_path, "{ min = 7, max = 9 }", clear)
    monkeypatch.setattr(seed_rounds.Hours, "spent", lambda _: len(fake.ran) >= 15)
    fake.go(hours=1.0)
    assert len(fake.ran) == 15
    assert fake.results.read_manifest().to_json()["adaptive"]["ended"] == "hours"


def test_a_contestant_that_fails_gets_no_more_seeds(tmp_path: Path) -> None:
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    first = next(trial for trial in fake.plan.trials if trial.cell.contestant == "torch:eager")
    fake.end(first)
    home = fake.results.trial(first.id)
    failed = {
        **read_json(home / OUTCOME_FILE),
        "status": "failed",
        "reason": "crashed",
        "result": None,
    }
    write_json(home / OUTCOME_FILE, failed)
    fake.go()
    assert fake.seeds()["torch:eager"] == 5
    group = latest_checks(fake.results.read_manifest())["DQN on CartPole-v1"]
    assert list(group.left_out) == ["torch:eager"]
    assert "failed" in group.left_out["torch:eager"]


def certified(fake: FakeRun) -> LoadedResults:
    results = load_results(fake.results.root)
    proven = {"certificate": pl.lit("valid"), "certificate_detail": pl.lit(None, pl.String)}
    return replace(results, trials=results.trials.with_columns(**proven))


def test_equal_within_the_margin_is_said(tmp_path: Path) -> None:
    alike = {"numpy:eager": (1000.0, 0.003), "torch:eager": (1000.0, 0.003), "jax:jit": (100.0, 0.003)}
    fake = FakeRun(tmp_path, "{ min = 5, max = 30 }", alike)
    fake.go()
    results = certified(fake)
    (group,) = compare(results)
    assert "`numpy:eager` are equal within 2 %" in verdict(group)
    (advice,) = Analysis(results).advice()
    (pick,) = advice.picks
    assert "`numpy:eager` are equal within 2 %. Take either." in confidence_words(pick)
    assert "equal" in {objection.kind for objection in group.trust.objections}
    assert "chance" not in {objection.kind for objection in group.trust.objections}
    assert pick.confidence != "low"
    assert pick_words(pick).endswith(": they are equal.")
    assert not any(row.figures["steps_per_s"].best for row in group.rows)


def test_the_answer_uses_what_holds_at_any_time(tmp_path: Path) -> None:
    """Beside the plain tests of the same records, read as if their number had been fixed."""
    fake = FakeRun(tmp_path, "{ min = 5, max = 7 }")
    fake.go()
    results = certified(fake)
    fixed = replace(results, manifest=replace(results.manifest, adaptive=None))
    (group,), (naive,) = compare(results), compare(fixed)
    at_any_time, once = (found.ranked[1].figures["steps_per_s"] for found in (group, naive))
    assert at_any_time.chance is not None
    assert once.chance is not None
    assert at_any_time.chance > once.chance
    assert at_any_time.ratio is not None
    assert once.ratio is not None
    assert at_any_time.ratio.low is not None
    assert once.ratio.low is not None
    assert at_any_time.ratio.low < once.ratio.low
    assert verdict(group).startswith("`jax:jit` ran CartPole-v1 with DQN fastest")
