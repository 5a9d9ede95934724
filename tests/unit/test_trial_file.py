"""trial.json has one way in and one way out, also for files of other versions."""

import json
from pathlib import Path

import pytest

from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, Conditions, TrialFile

SAMPLE = Path(__file__).parents[2] / "tests/data/old_sample/trials"

FULL = TrialFile(
    trial="torch-eager.dqn.CartPole-v1.cpu.s3.0123abcd",
    contestant=Contestant("torch", "eager"),
    algorithm="dqn",
    environment="CartPole-v1",
    seed=3,
    hyper={"gamma": 0.99, "hidden": [64, 64]},
    budget=Budget(steps=500, wall_s=1.5, stop_return=195.0, stop_episodes=10),
    backend="torch_next_",
    max_episode_steps=100,
    device="cuda",
    cores=2,
    workers=2,
    dtype="float64",
    block=3,
    hang_timeout_s=5.0,
    sample_hz=50.0,
    interpreter="/usr/bin/python3",
    isolated=True,
    variables={"OMP_NUM_THREADS": "2"},
    conditions=Conditions("abc", 1.5, {"abc": 3_000_000}),
)


def test_to_json_and_back_is_the_same_trial():
    assert TrialFile.from_json(json.loads(json.dumps(FULL.to_json()))) == FULL


def test_unknown_keys_of_a_newer_version_are_ignored():
    values = FULL.to_json()
    values["budget"]["joules"] = 5
    values["conditions"]["weather"] = "fine"
    assert TrialFile.from_json({**values, "invented": 1}) == FULL


def test_a_file_without_the_optional_keys_gets_their_defaults():
    needed = ("trial", "contestant", "algorithm", "environment", "seed", "hyper", "budget")
    values = FULL.to_json()
    trial = TrialFile.from_json({name: values[name] for name in needed})
    assert (trial.backend, trial.device, trial.cores, trial.interpreter) == ("torch_", "cpu", 1, None)
    assert trial.conditions == Conditions()


@pytest.mark.parametrize("path", sorted(SAMPLE.iterdir()), ids=lambda path: path.name)
def test_the_trials_of_the_sample_directory_load(path):
    trial = TrialFile.read(path)
    assert trial.trial == path.name
    written = json.loads((path / "trial.json").read_text(encoding="utf-8"))
    again = trial.to_json()
    assert {name: again[name] for name in written} == written
    assert trial.backend == trial.framework + "_"
