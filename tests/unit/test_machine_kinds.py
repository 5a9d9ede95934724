"""Comparisons whose trials ran on machines of different kinds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldyno.answers.analysis import Analysis
from synthetic import NUMPY, TORCH, Shape, write_results


@pytest.mark.parametrize(
    ("numpy_on", "torch_on", "bars", "words"),
    [
        ("AAAAA", "AAAAA", None, ""),
        ("AAAAA", "BBBBB", True, "some contestants have none in common"),
        ("AABBB", "AABBB", False, "each contestant equally often"),
        ("AAAAB", "ABBBB", False, "contestants not equally often"),
    ],
)
def test_nodes_of_different_kinds_are_different_machines(
    tmp_path: Path, numpy_on: str, torch_on: str, bars: bool | None, words: str
) -> None:
    shape = Shape(contestants=(NUMPY, TORCH), algorithms=["dqn"], seeds=5, sample_hz=2)
    root = write_results(tmp_path / "r", shape)
    left = {"numpy": list(numpy_on), "torch": list(torch_on)}
    for path in sorted(root.glob("trials/*/outcome.json")):
        outcome = json.loads(path.read_text())
        outcome["noise"]["processor"] = left[path.parent.name.split("-")[0]].pop()
        path.write_text(json.dumps(outcome))
    (group,) = Analysis.load(root).comparisons
    found = group.trust.about("machines")
    assert (found.bars if found else None) == bars
    if found is not None:
        assert found.words.startswith("Trials ran on 2 kinds of machines (A, B), ")
        assert words in found.words
        assert "--slurm constraint=KIND" in found.fix
