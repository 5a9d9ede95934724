"""The rules by which games were played are part of the setting: trials with other rules are never pooled."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rldyno.answers.changes import by_setting
from rldyno.claims.evidence import gather, run_groups
from rldyno.results.columns import COLUMNS
from rldyno.results.load import load_results
from rldyno.results.trial_columns import ATARI
from rldyno_rig.envs.atari_rules import AtariRules
from synthetic import TORCH, Shape, write_results

GAME = {"algorithms": ["dqn"], "environments": ["ALE/Pong-v5"], "seeds": 2, "sample_hz": 2}


def played(root: Path, rules: AtariRules | None) -> Path:
    write_results(root, Shape(contestants=[TORCH], **GAME))  # type: ignore[arg-type]
    for path in root.glob("trials/*/trial.json"):
        trial: dict[str, Any] = json.loads(path.read_text())
        path.write_text(json.dumps(trial | {"atari": None if rules is None else rules.to_json()}))
    return root


def test_every_rule_is_a_column() -> None:
    assert [column.name for column in ATARI] == [f"atari_{field.name}" for field in fields(AtariRules)]
    assert {column.name for column in ATARI} <= set(COLUMNS)


def test_the_table_has_the_rules_of_each_trial(tmp_path: Path) -> None:
    rules = AtariRules(sticky=0.0, life_loss=True, no_ops=0, frame_limit=18_000)
    row = load_results(played(tmp_path / "r", rules)).trials.row(0, named=True)
    assert {name: row[f"atari_{name}"] for name in asdict(rules)} == asdict(rules)
    other = load_results(write_results(tmp_path / "cartpole", Shape(seeds=1))).trials
    assert other["atari_sticky"].to_list() == [None] * len(other)


@pytest.mark.parametrize("changed", [{"sticky": 0.0}, {"life_loss": True}, {"frame_limit": 18_000}])
def test_other_rules_are_another_setting(tmp_path: Path, changed: dict[str, Any]) -> None:
    roots = [played(tmp_path / "a", AtariRules()), played(tmp_path / "b", AtariRules(**changed))]
    several = [load_results(root) for root in roots]
    evidence = gather(several)
    groups = run_groups(evidence, evidence.rows, "throughput", np.random.default_rng(0))
    assert [group.n for group in groups] == [2, 2]
    assert not by_setting(several[0]).keys() & by_setting(several[1]).keys()


def test_the_same_rules_are_pooled(tmp_path: Path) -> None:
    several = [load_results(played(tmp_path / name, AtariRules())) for name in "ab"]
    evidence = gather(several)
    (group,) = run_groups(evidence, evidence.rows, "throughput", np.random.default_rng(0))
    assert group.n == 4
    assert by_setting(several[0]).keys() == by_setting(several[1]).keys()
