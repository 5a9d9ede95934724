"""Searching for the release that made a figure move, with measurements made up here."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rldyno.bisection import index, record, show
from rldyno.bisection.measuring import ProcessMeasurer, SkippedError
from rldyno.bisection.question import STARTUP, Question
from rldyno.bisection.run import search
from rldyno.bisection.search import MOVED, NOT_SHOWN, UNCHANGED, Evidence, Finding, Round, compare, next_pair
from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.nets.timer import TimerGone
from rldyno.toolchains.catalogue import toolchain
from rldyno.usability.index import Indexes, IndexFile, index_file

RELEASES = tuple(f"1.{number}" for number in range(9))
QUESTION = Question("numpy", "eager")


class FakeMeasurer:
    """Releases of known speed, measured with noise; some cannot be measured."""

    def __init__(
        self, times: Mapping[str, float], noise: float, seed: int, broken: tuple[str, ...] = ()
    ) -> None:
        self.times, self.noise, self.broken = times, noise, broken
        self.source = np.random.default_rng(seed)
        self.rounds = 0

    def round(self, old: str, new: str, number: int) -> Round:
        for release in (old, new):
            if release in self.broken:
                raise SkippedError(release, "it does not install")
        self.rounds += 1
        spread = self.source.normal(0, self.noise, 2)
        return Round(
            old, new, *(self.times[name] * math.exp(s) for name, s in zip((old, new), spread, strict=True))
        )


def slower_from(release: str, by: float) -> dict[str, float]:
    at = RELEASES.index(release)
    return {name: 1e-4 * (by if number >= at else 1.0) for number, name in enumerate(RELEASES)}


def solve(measurer: FakeMeasurer, question: Question = QUESTION) -> tuple[Evidence, Finding]:
    """The search without its files."""
    evidence = Evidence(question, RELEASES, (), {})
    while not isinstance(pair := next_pair(evidence), Finding):
        try:
            evidence = replace(
                evidence, rounds=(*evidence.rounds, measurer.round(*pair, len(evidence.rounds)))
            )
        except SkippedError as skipped:
            evidence = replace(
                evidence, skipped={**(evidence.skipped or {}), skipped.release: skipped.reason}
            )
    return evidence, pair


# --- deciding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", RELEASES[1:])
def test_the_release_that_moved_is_found_wherever_it_is(release: str) -> None:
    evidence, finding = solve(FakeMeasurer(slower_from(release, 1.3), 0.02, seed=1))
    assert finding.found
    assert finding.step is not None
    assert finding.step.new == release
    assert finding.step.old == RELEASES[RELEASES.index(release) - 1]
    assert finding.step.low < 1.3 < finding.step.high
    assert f"moved from {finding.step.old} to {release}" in show.sentence(evidence, finding)


def test_a_release_that_became_faster_is_found_too() -> None:
    _, finding = solve(FakeMeasurer(slower_from("1.4", 0.7), 0.02, seed=1))
    assert finding.found
    assert finding.step is not None
    assert (finding.step.old, finding.step.new) == ("1.3", "1.4")
    assert finding.step.high < 1


def test_no_change_is_shown_to_be_none_and_needs_no_other_release() -> None:
    evidence, finding = solve(FakeMeasurer(dict.fromkeys(RELEASES, 1e-4), 0.01, seed=1))
    assert finding.ends is not None
    assert finding.ends.verdict == UNCHANGED
    assert {(one.old, one.new) for one in evidence.rounds} == {("1.0", "1.8")}
    assert "did not change by more than 5%" in show.sentence(evidence, finding)


def test_noise_that_hides_everything_ends_after_the_most_rounds() -> None:
    evidence, finding = solve(FakeMeasurer(dict.fromkeys(RELEASES, 1e-4), 1.0, seed=1))
    assert finding.ends is not None
    assert finding.ends.verdict == NOT_SHOWN
    assert finding.ends.rounds == QUESTION.most_rounds
    assert "no change of one update is shown" in show.sentence(evidence, finding)
    assert f"--rounds {2 * QUESTION.most_rounds}" in show.sentence(evidence, finding)


def test_a_change_below_the_threshold_does_not_count() -> None:
    _, finding = solve(FakeMeasurer(slower_from("1.4", 1.02), 0.002, seed=1))
    assert not finding.found


def test_a_slow_drift_is_blamed_on_no_single_release() -> None:
    drifting = {name: 1e-4 * 1.02**number for number, name in enumerate(RELEASES)}
    evidence, finding = solve(FakeMeasurer(drifting, 0.002, seed=1))
    assert finding.ends is not None
    assert finding.ends.verdict == MOVED
    assert not finding.found
    assert "in no single release" in show.sentence(evidence, finding)


def test_releases_that_cannot_be_measured_are_left_out_and_named() -> None:
    measurer = FakeMeasurer(slower_from("1.4", 1.4), 0.01, seed=1, broken=("1.0", "1.4", "1.8"))
    evidence, finding = solve(measurer)
    assert finding.ends is not None
    assert finding.step is not None
    assert (finding.ends.old, finding.ends.new) == ("1.1", "1.7")
    assert (finding.step.old, finding.step.new) == ("1.3", "1.5")
    assert "(1.4 between them could not be measured)" in show.sentence(evidence, finding)


def test_nothing_to_measure_is_said() -> None:
    evidence, finding = solve(FakeMeasurer({}, 0.01, seed=1, broken=RELEASES))
    assert "nothing can be said" in show.sentence(evidence, finding)


@pytest.mark.slow
def test_a_change_that_does_not_exist_is_rarely_reported() -> None:
    """All releases equal: over whole searches that look after every round, at most the error of 5 %, and of
    the first comparison at most its share of that error.
    """
    searches = 300
    same = dict.fromkeys(RELEASES, 1e-4)
    question = replace(QUESTION, most_rounds=20)
    findings = [solve(FakeMeasurer(same, 0.1, seed), question)[1] for seed in range(searches)]
    moved = [one for one in findings if one.ends is not None and one.ends.verdict == MOVED]
    for error, reported in (
        (question.error, sum(one.found for one in findings)),
        (question.error_of_each(len(RELEASES)), len(moved)),
    ):
        # Three standard deviations above: chance alone fails it about once in 700 times.
        assert reported / searches <= error + 3 * math.sqrt(error * (1 - error) / searches)


@pytest.mark.slow
def test_a_change_well_above_the_noise_is_found_almost_always() -> None:
    found = [solve(FakeMeasurer(slower_from("1.5", 1.3), 0.05, seed))[1] for seed in range(40)]
    right = [one for one in found if one.found and one.step is not None and one.step.new == "1.5"]
    assert len(right) >= 38


def test_the_error_is_divided_among_all_comparisons() -> None:
    """Nine releases: the two ends, at most four halvings, the neighbours."""
    assert QUESTION.error_of_each(9) == pytest.approx(0.05 / 6)
    pairs = {(one.old, one.new) for one in solve(FakeMeasurer(slower_from("1.5", 1.3), 0.02, 0))[0].rounds}
    assert len(pairs) <= 6


# --- files --------------------------------------------------------------------------------------------------


class StopError(Exception):
    pass


class Interrupted(FakeMeasurer):
    def round(self, old: str, new: str, number: int) -> Round:
        if self.rounds == 5:
            raise StopError
        return super().round(old, new, number)


def test_an_interrupted_search_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "there" / record.BISECT_FILE
    times, shown = slower_from("1.4", 1.3), []
    with pytest.raises(StopError):
        search(
            record.resume(path, QUESTION, RELEASES),
            Interrupted(times, 0.02, seed=1),
            path,
            shown.append,
            lambda release, reason: None,
        )
    assert len(shown) == 5
    kept = record.resume(path, QUESTION, RELEASES)
    assert len(kept.rounds) == 5
    evidence, finding = search(kept, FakeMeasurer(times, 0.02, seed=2), path, shown.append, lambda *_: None)
    assert evidence.rounds[:5] == kept.rounds
    assert finding.found
    assert record.resume(path, QUESTION, RELEASES) == evidence
    again, _ = search(evidence, Interrupted({}, 0.0, seed=0), path, shown.append, lambda *_: None)
    assert again == evidence


def test_another_search_is_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / record.BISECT_FILE
    record.write(path, Evidence(QUESTION, RELEASES, (), {}))
    assert record.resume(path, replace(QUESTION, most_rounds=80), RELEASES).question.most_rounds == 80
    with pytest.raises(Problem, match="something else"):
        record.resume(path, replace(QUESTION, metric="act"), RELEASES)
    with pytest.raises(Problem, match="something else"):
        record.resume(path, QUESTION, RELEASES[1:])
    monkeypatch.setattr(record, "host_sha256", lambda: "other")
    with pytest.raises(Problem, match="another machine"):
        record.resume(path, QUESTION, RELEASES)
    path.write_text('{"host": "other", "rounds": 3}')
    with pytest.raises(Problem, match="damaged"):
        record.resume(path, QUESTION, RELEASES)


def test_the_answer_as_json_is_json() -> None:
    evidence, finding = solve(FakeMeasurer(slower_from("1.4", 1.3), 0.02, seed=1, broken=("1.2",)))
    raw = json.loads(json.dumps(show.as_json(evidence, finding), allow_nan=False))
    assert (raw["found"], raw["old"], raw["new"]) == (True, "1.3", "1.4")
    assert raw["skipped"] == {"1.2": "it does not install"}
    assert len(raw["comparisons"]) == len(finding.comparisons)
    one = compare(replace(evidence, rounds=evidence.rounds[:1]), ("1.0", "1.8"))
    assert show._finite({"high": one.high}) == {"high": None}


# --- the index ----------------------------------------------------------------------------------------------


FILES = (
    "numpy-2.1.0.tar.gz",
    "numpy-2.2.0-cp311-cp311-any.whl",
    "numpy-2.2.1-cp39-cp39-any.whl",
    "numpy-2.2.2-py3-none-any.whl",
    "numpy-2.3.0rc1.tar.gz",
    "numpy-2.3.0.tar.gz",
    "numpy-2.3.1.tar.gz",
)


@pytest.fixture
def numpy_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(indexes: Indexes, address: str, project: str) -> list[IndexFile]:
        assert project == "numpy"
        found = [index_file(name, None, yanked=False) for name in FILES]
        withdrawn = index_file("numpy-2.2.9.tar.gz", None, yanked=True)
        return [file for file in (*found, withdrawn) if file]

    monkeypatch.setattr(index, "project_files", files)
    monkeypatch.setattr(index, "pip_indexes", lambda python, pip_args: Indexes(("http://index",)))
    monkeypatch.setattr(index, "python_tags", lambda python: frozenset({"cp311", "py3"}))


def test_the_releases_of_a_range_are_those_that_can_be_installed(numpy_index: None) -> None:
    chain = toolchain("numpy")
    assert index.releases_between(chain, "cpu", "2.2..2.3", ()) == ["2.2.0", "2.2.2", "2.3.0"]
    assert "2.3.0rc1" in index.releases_between(chain, "cpu", "2.2..2.3", (), pre=True)
    with pytest.raises(Problem, match=r"fewer than two releases of numpy in 2\.3\.\.2\.3\.0\.1"):
        index.releases_between(chain, "cpu", "2.3..2.3.0.1", ())


def test_without_an_index_the_releases_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> list[IndexFile]:
        raise OSError("connection refused")

    monkeypatch.setattr(index, "project_files", silent)
    for addresses, words in ((("http://index",), "index did not answer"), ((), "pip uses no index here")):
        monkeypatch.setattr(index, "pip_indexes", lambda python, args, found=addresses: Indexes(found))
        with pytest.raises(Problem, match=words) as caught:
            index.releases_between(toolchain("numpy"), "cpu", "2.2..2.3", ())
        assert "--releases" in (caught.value.fix or "")
    assert index.given_releases(["2.3.0", " 2.2.0"]) == ["2.3.0", "2.2.0"]
    with pytest.raises(Problem, match="two releases"):
        index.given_releases(["2.3.0"])


# --- measuring ----------------------------------------------------------------------------------------------


class FakeTimer:
    def __init__(self, release: str, calls: list[str]) -> None:
        self.release, self.calls = release, calls

    def ready(self) -> dict[str, object]:
        if self.release == "0.2":
            raise TimerGone("it crashed")
        return {"startup_ns": {"import": 2_000_000_000, "first_call": 1_000_000_000}}

    def measure(self, kind: object, seconds: float) -> dict[str, int]:
        self.calls.append(self.release)
        return {"median_ns": 1000 * len(self.calls)}

    def close(self) -> None:
        self.calls.append(f"closed {self.release}")


def fake_measurer(metric: str, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> ProcessMeasurer:
    measurer = ProcessMeasurer(replace(QUESTION, metric=metric), None, print, lambda _: None)
    monkeypatch.setattr(measurer, "prepare", lambda release: None)
    monkeypatch.setattr(measurer, "_start", lambda release, _: FakeTimer(release, calls))
    return measurer


def test_old_and_new_are_measured_in_turns_in_fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    made = fake_measurer("update", calls, monkeypatch).round("0.1", "0.3", number=0)
    measured, closed = calls[:4], calls[4:]
    assert measured == measured[::-1]
    assert set(measured) == {"0.1", "0.3"}
    assert sorted(closed) == ["closed 0.1", "closed 0.3"]
    assert {made.old_s, made.new_s} == {1e-6, 2e-6}


def test_start_up_is_measured_by_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fake_measurer(STARTUP, [], monkeypatch).round("0.1", "0.3", number=0)
    assert made == Round("0.1", "0.3", 3.0, 3.0)


def test_a_release_that_does_not_start_is_skipped_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    with pytest.raises(SkippedError, match="it crashed") as caught:
        fake_measurer("update", calls, monkeypatch).round("0.1", "0.2", number=0)
    assert caught.value.release == "0.2"
    assert "closed 0.2" in calls


def test_a_release_that_does_not_build_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(*_: object, **__: object) -> None:
        raise Problem("pip finds no numpy 9.9")

    monkeypatch.setattr("rldyno.bisection.measuring.ensure", ensure)
    with pytest.raises(SkippedError, match=r"pip finds no numpy 9\.9"):
        ProcessMeasurer(QUESTION, None, print, lambda _: None).prepare("9.9")


# --- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nump", "1..2"], "did you mean `numpy`"),
        (["numpy", "1..2"], "no mode is given"),
        (["numpy", "1..2", "--mode", "jit"], "has no mode 'jit'"),
        (["numpy", "1..2", "--mode", "eager", "--metric", "speed"], "unknown metric"),
        (["numpy", "1..2", "--mode", "eager", "--algorithm", "pppo"], "unknown algorithm"),
        (["numpy", "2..1", "--mode", "eager"], "is empty"),
        (["numpy", "2", "--mode", "eager"], "not a range"),
        (["numpy", "--mode", "eager"], "either a range or --releases"),
        (["numpy", "1..2", "--mode", "eager", "--threshold", "0"], "above 0"),
        (["numpy", "--releases", "1.0,new", "--mode", "eager"], "neither a version"),
    ],
)
def test_wrong_input_is_one_message(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["bisect", *arguments])
    assert isinstance(result.exception, Problem)
    assert words in result.exception.message
    assert result.exception.fix
