"""`rldyno hyper`: every hyper-parameter with meaning, unit, value, and whether it was tuned."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.study.hyper_fields import hyper_fields
from rldyno.study.hyper_names import OTHER_NAMES, suggest_hyper
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.hyper import to_json


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["hyper", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_hyper_parameter_has_a_meaning(algorithm: str) -> None:
    fields = hyper_fields(algorithm)
    assert [field.name for field in fields if not field.meaning] == []
    assert all("[" not in field.meaning for field in fields)
    units = {field.name: field.unit for field in fields}
    assert units["schedule_steps"] == "steps"
    assert units["gamma"] == ""


def test_a_subclass_describes_its_field_anew() -> None:
    described = {field.name: field for field in hyper_fields("rainbow")}
    assert described["n_step"].generic == 3
    assert described["n_step"].unit == "steps"


@pytest.mark.parametrize("environment", ["CartPole-v1", "Acrobot-v1"])
def test_the_values_are_those_a_study_gets(environment: str) -> None:
    shown = json.loads(printed("ppo", environment, "--json"))
    ppo = ALGORITHMS["ppo"]
    values = {entry["name"]: entry["value"] for entry in shown["hyper_parameters"]}
    assert values == json.loads(json.dumps(to_json(ppo.defaults(environment))))
    assert shown["tuned"] == (environment in ppo.tuned) == (environment == "CartPole-v1")
    generic = {entry["name"]: entry["generic"] for entry in shown["hyper_parameters"]}
    assert generic == json.loads(json.dumps(to_json(ppo.hyper(**ppo.generic))))


def test_a_person_sees_whether_values_are_tuned() -> None:
    assert "tuned for this environment" in printed("ppo", "CartPole-v1")
    assert "not tuned for Acrobot-v1" in printed("ppo", "Acrobot-v1")
    assert "generic values" in printed("ppo")
    listed = printed()
    assert all(name in listed for name in ALGORITHMS)
    assert json.loads(printed("--json"))[0]["tuned_for"] == ["CartPole-v1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sac"], "unknown algorithm 'sac'; known: a2c, dqn, ppo, rainbow"),
        (["dqm"], "unknown algorithm 'dqm', did you mean 'dqn'?"),
        (["ppo", "CartPol-v1"], "unknown environment 'CartPol-v1', did you mean 'CartPole-v1'?"),
        (["ppo", "cartpole-v1"], "unknown environment 'cartpole-v1', did you mean 'CartPole-v1'?"),
    ],
)
def test_unknown_names(arguments: list[str], message: str) -> None:
    with pytest.raises(Problem) as raised:
        printed(*arguments)
    assert raised.value.message == message


def test_words_of_other_libraries_lead_to_names_that_exist() -> None:
    known = {field.name for algorithm in ALGORITHMS for field in hyper_fields(algorithm)}
    assert set(OTHER_NAMES) <= known
    ppo = [field.name for field in hyper_fields("ppo")]
    assert suggest_hyper("lr", ppo) == ", did you mean 'learning_rate'?"
    assert suggest_hyper("batch", ppo) == ", did you mean 'minibatches'?"
    assert suggest_hyper("n_steps", ppo) == ", did you mean 'rollout_steps'?"
    assert suggest_hyper("learning_rte", ppo) == ", did you mean 'learning_rate'?"
