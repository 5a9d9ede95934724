"""Studies made in code: the keys, checks and messages of study files."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rldyno
from rldyno.api.study import StudyKeys
from rldyno.study.file import StudyFile, load_study

KEYS: dict[str, Any] = {
    "title": 'A "small" study',
    "contestants": ["numpy:eager", "torch:eager"],
    "algorithms": "dqn",
    "environments": ("CartPole-v1",),
    "seeds": range(3),
    "budget": {"steps": 1000, "stop": {"return": 475, "episodes": 20}},
    "hyper": {"dqn": {"batch_size": [32, 64], "CartPole-v1": {"gamma": np.float64(0.98)}}},
}


def test_keyword_arguments_are_the_keys_of_the_file() -> None:
    assert set(StudyKeys.__annotations__) == {*StudyFile.model_fields, "hyper"} - {"adaptive"}


def test_the_file_it_writes_is_the_same_study(tmp_path: Path) -> None:
    study = rldyno.Study(**KEYS)
    path = study.write(tmp_path / "small.toml")
    assert load_study(path).sha256 == study.sha256
    assert rldyno.Study.read(path) == study
    assert study.title == 'A "small" study'
    assert study.trials == 2 * 2 * 3


def test_adaptive_seeds_and_none(tmp_path: Path) -> None:
    keys = KEYS | {"seeds": {"min": 3, "max": 8}, "max_episode_steps": None}
    study = rldyno.Study(**keys)
    assert load_study(study.write(tmp_path / "x.toml")).adaptive is not None


def test_mistakes_have_the_messages_of_a_file(tmp_path: Path) -> None:
    wrong = KEYS | {"contestants": ["numpy:eager", "torch:complie"], "budjet": {}}
    with pytest.raises(rldyno.Problem) as caught:
        rldyno.Study(**wrong)
    path = tmp_path / "wrong.toml"
    text = rldyno.Study(**KEYS).toml.replace("torch:eager", "torch:complie")
    path.write_text(text + "\n[budjet]\n")
    with pytest.raises(rldyno.Problem) as from_file:
        load_study(path)

    def messages(problem: rldyno.Problem, prefix: str) -> set[str]:
        return {line.partition(f"{prefix}")[2] for line in (problem.detail or "").splitlines()}

    in_code = messages(caught.value, "rldyno.Study: ")
    assert len(in_code) == 2
    assert in_code == {line.partition(": ")[2] for line in messages(from_file.value, "wrong.toml:")}
    assert any("did you mean 'torch:compile'" in line for line in in_code)
    assert any("did you mean 'budget'" in line for line in in_code)
    shown = "".join(traceback.format_exception(caught.value))
    assert "did you mean 'torch:compile'" in shown
    assert "fix: " in shown


def test_what_a_file_cannot_hold_is_a_problem() -> None:
    with pytest.raises(rldyno.Problem, match="cannot hold None"):
        rldyno.Study(**(KEYS | {"max_episode_steps": [None, 100]}))


def test_shipped_studies_are_read_by_name() -> None:
    study = rldyno.Study.read("quickstart")
    assert study.name == "quickstart"
    assert study.contestants == ("numpy:eager", "torch:eager", "torch:compile")
    assert "<strong>Quickstart</strong>" in study._repr_html_()


def test_its_html_is_escaped() -> None:
    assert "<script>" not in rldyno.Study(**(KEYS | {"title": "<script>"}))._repr_html_()
