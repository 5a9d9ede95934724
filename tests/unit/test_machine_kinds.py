"""Trials that ran on machines of different kinds are compared kind by kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import synthetic
from rldyno.answers.analysis import Analysis
from rldyno.answers.groups import THROUGHPUT
from synthetic import Shape, write_results

NUMPY, TORCH = synthetic.NUMPY.name, synthetic.TORCH.name


def results_on(folder: Path, numpy_on: str, torch_on: str) -> Analysis:
    """One letter for each trial, by seed: the kind of machine that ran it, or . for none yet."""
    both = (synthetic.NUMPY, synthetic.TORCH)
    shape = Shape(contestants=both, algorithms=["dqn"], seeds=len(numpy_on), sample_hz=2)
    root = write_results(folder / "r", shape)
    left = {"numpy": list(numpy_on), "torch": list(torch_on)}
    for path in sorted(root.glob("trials/*/outcome.json")):
        kind = left[path.parent.name.split("-")[0]].pop(0)
        outcome = json.loads(path.read_text())
        outcome["noise"]["processor"] = kind
        path.write_text(json.dumps(outcome)) if kind != "." else path.unlink()
    return Analysis.load(root)


def test_gpus_of_different_models_make_different_kinds(tmp_path: Path) -> None:
    analysis = results_on(tmp_path, "AAAA", "AAAA")
    paths = sorted(analysis.results.directory.glob("trials/*/outcome.json"))
    for models, kinds in (("XXXX", {"A"}), ("XYXY", {"A, X", "A, Y"})):
        for path, gpu in zip(paths, 2 * models, strict=True):
            outcome = json.loads(path.read_text())
            outcome["noise"]["gpu"] = gpu
            path.write_text(json.dumps(outcome))
        loaded = Analysis.load(analysis.results.directory)
        assert set(loaded.results.trials["processor"]) == kinds
        assert len(loaded.comparisons) == len(kinds)


def test_machines_of_one_kind_are_one_comparison(tmp_path: Path) -> None:
    (group,) = results_on(tmp_path, "AAAA", "AAAA").comparisons
    assert group.trust.about("machines") is None
    assert "on A" not in group.label


def test_each_kind_has_an_answer_of_its_own(tmp_path: Path) -> None:
    analysis = results_on(tmp_path, "AABBB", "AAABB")
    first, second = analysis.comparisons
    assert [group.label for group in (first, second)] == [
        "DQN on CartPole-v1, on A",
        "DQN on CartPole-v1, on B",
    ]
    assert {name: len(runs) for name, runs in first.runs.items()} == {NUMPY: 2, TORCH: 3}
    assert {name: len(runs) for name, runs in second.runs.items()} == {NUMPY: 3, TORCH: 2}
    for group in (first, second):
        found = group.trust.about("machines")
        assert found is not None
        assert not found.bars
        assert found.words == "Trials ran on 2 kinds of machines (A, B): each kind is compared by itself."
        assert "--slurm constraint=KIND" in found.fix
    assert not analysis.axis_answers, "a kind of machine is no setting"
    speeds = {
        trial["trial"]: trial["steps_per_s"]
        for trial in analysis.results.trials.iter_rows(named=True)
        if (trial["contestant"], trial["processor"]) == (NUMPY, "B")
    }
    row = next(row for row in second.rows if row.contestant == NUMPY)
    assert min(speeds.values()) <= row.figures[THROUGHPUT.name].estimate.point <= max(speeds.values())


def test_contestants_on_different_kinds_are_not_compared(tmp_path: Path) -> None:
    groups = results_on(tmp_path, "AAAA", "BBBB").comparisons
    assert [[row.contestant for row in group.rows] for group in groups] == [[NUMPY], [TORCH]]
    for group, missing in zip(groups, (TORCH, NUMPY), strict=True):
        assert group.trust.barred
        found = group.trust.about("machines")
        assert found is not None
        assert found.words.endswith(f"and `{missing}` ran on another kind only.")


@pytest.mark.parametrize("numpy_on", ["AB..", "ABA."])
def test_trials_that_have_not_run_belong_to_every_kind(tmp_path: Path, numpy_on: str) -> None:
    groups = results_on(tmp_path, numpy_on, "ABAB").comparisons
    assert [group.axes["processor"] for group in groups] == ["A", "B"]
    pending = [next(row for row in group.rows if row.contestant == NUMPY).pending for group in groups]
    assert pending == [numpy_on.count(".")] * 2
