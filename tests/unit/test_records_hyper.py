"""Hyper-parameters of a foreign trial.json are checked before anything is computed from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.records.trial_records import read_trial_records
from rldyno.results.load import load_results
from synthetic import NUMPY, Shape, write_results


@pytest.mark.parametrize("value", [{}, "x", [[1]], [None], 128, [2**63]])
def test_a_hyper_parameter_of_the_wrong_kind_is_a_flaw_of_its_trial(value: object, tmp_path: Path) -> None:
    shape = Shape(contestants=[NUMPY], algorithms=("dqn",), seeds=1, steps=2000, limits=True)
    root = write_results(tmp_path / "r", shape)
    (home,) = (root / "trials").iterdir()
    assert read_trial_records(home).flaws == ()
    values = json.loads((home / "trial.json").read_text())
    values["hyper"]["hidden"] = value
    (home / "trial.json").write_text(json.dumps(values))
    assert "`hidden` has a wrong value" in read_trial_records(home).flaws[0]
    with pytest.raises(Problem, match="has records that can be used"):
        load_results(root)
