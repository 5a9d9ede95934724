"""Ensembles of DQNs: masks, votes, what a loop hands to members, and what studies may ask for."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closed_runs import trial
from rldyno.errors import Problem
from rldyno.proofs.certificate import ABSENT, VALID, Certificate, Code, Subject, trial_validity
from rldyno.records.trial_id import trial_id
from rldyno.study.file import load_study
from rldyno_rig import schema, training
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.algorithms.ensemble import MAJORITY, MEAN, Ensemble, majority, mean
from rldyno_rig.backends import numpy_
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.job_files import ProofSubject
from rldyno_rig.open.problem import Problem as OpenProblem
from rldyno_rig.open.problem import Unsupported, shipped
from rldyno_rig.parts.masks import Masks
from rldyno_rig.parts.replay import Replay
from rldyno_rig.parts.streams import streams
from rldyno_rig.proof.ensemble import by_majority, by_mean
from rldyno_rig.proof.forms import shape_of, shape_spec
from rldyno_rig.proof.ladder import Climb
from rldyno_rig.proof.rung import CONTRACT, ENSEMBLE
from rldyno_rig.proof.standard import limits, required
from rldyno_rig.shape import Shape
from rldyno_rig.spec import Params, Spec, draw_params
from rldyno_rig.trial_file import TrialFile
from whole_proofs import whole_rungs

DQN = ALGORITHMS["dqn"]


def cartpole(**changes: Any) -> Spec:
    values = replace(DQN.defaults("CartPole-v1"), **changes)
    return DQN.spec(values, (4,), "float32", 2)


# --- masks --------------------------------------------------------------------------------------------------


def filled(capacity: int, stored: int) -> Replay:
    """The reward of a transition is its number."""
    memory = Replay(capacity, 1, (1,), "float32", np.dtype("float64"), np.dtype("int64"))
    for number in range(stored):
        memory.add_one(np.float32([number]).tobytes(), 0, float(number), 1.0, np.float32([0]).tobytes())
    return memory


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 5), st.floats(0.05, 1.0), st.integers(1, 60), st.integers(1, 150), st.integers(0, 2**32)
)
def test_members_learn_from_all_of_their_own_transitions_and_no_others(
    members: int, share: float, capacity: int, stored: int, seed: int
) -> None:
    masks = Masks(members, share, capacity, np.random.default_rng(seed))
    sample = masks.sampler(filled(capacity, stored), np.random.default_rng(seed + 1), 64)
    rounds = [sample() for _ in range(40)]
    for member, own in enumerate(masks.positions):
        drawn = {int(reward) for batches in rounds for reward in batches[member][2]}
        newest = range(max(0, stored - capacity), stored)
        allowed = {number for number in newest if number % capacity in set(own.tolist())}
        assert drawn == allowed


def test_a_member_draws_uniformly_from_its_own() -> None:
    masks = Masks(1, 0.5, 40, np.random.default_rng(3))
    sample = masks.sampler(filled(40, 30), np.random.default_rng(4), 1_000)
    drawn = np.concatenate([sample()[0][2] for _ in range(100)]).astype(int)
    own = masks.positions[0][masks.positions[0] < 30]
    counts = np.bincount(drawn, minlength=30)[own]
    expected = len(drawn) / len(own)
    # χ² of len(own) − 1 degrees of freedom has this variance: six standard deviations above its mean.
    chi2 = float(np.sum((counts - expected) ** 2 / expected))
    assert chi2 < (len(own) - 1) + 6 * np.sqrt(2 * (len(own) - 1))


def test_members_have_different_masks_of_the_right_share() -> None:
    first, second = Masks(2, 0.8, 50_000, streams(0).masks).positions
    assert len(first) / 50_000 == pytest.approx(0.8, abs=0.01)
    shared = np.intersect1d(first, second)
    assert len(shared) / 50_000 == pytest.approx(0.64, abs=0.01), "bits of members are independent"
    (everything,) = Masks(1, 1.0, 9, streams(0).masks).positions
    assert everything.tolist() == list(range(9))


# --- votes --------------------------------------------------------------------------------------------------


def test_the_mean_of_values_decides() -> None:
    values = [
        np.array([[1.0, 0.9], [0.0, 5.0]]),
        np.array([[1.0, 0.9], [1.0, 0.0]]),
        np.array([[0.0, 0.5]] * 2),
    ]
    assert mean(values).tolist() == [1, 1], "the first member alone would choose otherwise"


def test_the_majority_decides_and_ties_go_to_the_lower_action() -> None:
    choices = [np.array([2, 1, 0]), np.array([2, 0, 1]), np.array([0, 2, 2]), np.array([1, 1, 1])]
    assert majority(choices, 3).tolist() == [2, 1, 1]
    assert majority([np.array([2]), np.array([1])], 3).tolist() == [1]


@given(st.integers(1, 7), st.integers(0, 2**32))
def test_votes_are_those_that_the_proof_counts_one_by_one(members: int, seed: int) -> None:
    values = list(np.random.default_rng(seed).integers(0, 3, (members, 20, 4)).astype(float))
    assert mean(values).tolist() == by_mean(values).tolist()
    assert majority([own.argmax(1) for own in values], 4).tolist() == by_majority(values).tolist()


# --- the ensemble -------------------------------------------------------------------------------------------


def ensemble(spec: Spec, vote: str = MEAN, count: int = 3) -> Ensemble:
    rng = np.random.default_rng(0)
    members = [numpy_.Learner(spec, draw_params(spec, rng), "float64") for _ in range(count)]
    return Ensemble(members, vote, spec.network.actions, "int32")


def test_state_and_load_are_of_all_members() -> None:
    one, other = ensemble(cartpole()), ensemble(cartpole())
    state = one.state()
    assert {name.partition(".")[0] for name in state["params"]} == {"0", "1", "2"}
    other.members[1].flat += 1
    other.load(state)
    for mine, theirs in zip(one.members, other.members, strict=True):
        assert np.array_equal(mine.flat, theirs.flat)


@pytest.mark.parametrize("vote", [MEAN, MAJORITY])
def test_actions_have_the_type_that_the_backend_asks_for(vote: str) -> None:
    agent = ensemble(cartpole(), vote)
    (actions,) = agent.act(*agent.put(np.zeros((5, 4), np.float32)))
    assert (actions.dtype, actions.shape) == (np.dtype("int32"), (5,))


# --- a run --------------------------------------------------------------------------------------------------


def run(home: Path, **hyper: Any) -> dict[str, Any]:
    home.mkdir()
    given = trial("numpy", "eager", "dqn", "float64", 2_000)
    given["hyper"] |= {"train_every": 1, **hyper}
    (home / schema.TRIAL_FILE).write_text(json.dumps(given))
    assert training.train(home, time.perf_counter_ns()) == 0
    result: dict[str, Any] = json.loads((home / schema.RESULT_FILE).read_text())
    return result | {"actions": (home / schema.ACTIONS_FILE).read_bytes()}


@pytest.mark.slow
def test_every_member_makes_its_updates_and_they_are_counted(tmp_path: Path) -> None:
    one, three = run(tmp_path / "1"), run(tmp_path / "3", members=3)
    assert three["steps"] == one["steps"]
    assert three["updates"] == 3 * one["updates"]
    calls, alone = three["calls"], one["calls"]
    assert calls["update"] == 3 * alone["update"]
    assert calls["act"] == 3 * alone["act"], "exploration draws the same steps"
    assert calls["transfer"] == calls["act"] + calls["update"]
    assert calls["environment"] == alone["environment"]
    assert three["memory"]["replay_bytes"] > one["memory"]["replay_bytes"]
    assert three["actions"] != one["actions"]


@pytest.mark.slow
def test_votes_and_masks_change_what_is_learned(tmp_path: Path) -> None:
    first = run(tmp_path / "a", members=3)["actions"]
    assert first == run(tmp_path / "b", members=3)["actions"]
    assert first != run(tmp_path / "c", members=3, vote=MAJORITY)["actions"]
    assert first != run(tmp_path / "d", members=3, mask=0.3)["actions"]


@pytest.mark.slow
def test_one_member_ignores_vote_and_mask(tmp_path: Path) -> None:
    assert run(tmp_path / "a")["actions"] == run(tmp_path / "b", vote=MAJORITY, mask=0.1)["actions"]


def test_the_first_member_has_the_weights_of_an_agent_alone(tmp_path: Path) -> None:
    values = trial("numpy", "eager", "dqn", "float64", 100)
    agents = []
    for members in (1, 3):
        file = TrialFile.from_json(values | {"hyper": values["hyper"] | {"members": members}})
        recorder = training._recorder(tmp_path, file, 0)
        agents.append(training.build(file, numpy_, recorder).learner)
    alone, together = agents
    first, second, _ = together.members
    assert np.array_equal(first.flat, alone.flat)
    assert not np.array_equal(first.flat, second.flat)


# --- proof --------------------------------------------------------------------------------------------------


def failed(learner: Any, dtype: str = "float64") -> dict[str, str]:
    ran = shape_of(cartpole(members=3))
    rungs = Climb(shape_spec("dqn", ran), learner, dtype, "int64", ran).rungs()
    return {rung.name: rung.detail for rung in rungs if not rung.passed}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_ensemble_of_right_learners_is_proven(dtype: str) -> None:
    assert failed(numpy_.Learner, dtype) == {}


class SharesItsMoments(numpy_.Learner):
    """Right alone; members that learn side by side disturb each other."""

    moments: ClassVar[dict[str, np.ndarray]] = {}

    def __init__(self, spec: Spec, params: Params, dtype: str) -> None:
        super().__init__(spec, params, dtype)
        self.m = self.moments.setdefault(dtype, self.m)
        self.m[...] = 0


class ValuesOfTarget(numpy_.Learner):
    def values(self, obs: np.ndarray) -> tuple:
        online, self.weights = self.weights, self.target_weights
        found = super().values(obs)
        self.weights = online
        return found


class ValuesInFloat32(numpy_.Learner):
    def values(self, obs: np.ndarray) -> tuple:
        return (super().values(obs)[0].astype(np.float32),)


def test_mistakes_that_only_an_ensemble_shows_are_found() -> None:
    assert set(failed(SharesItsMoments)) == {ENSEMBLE}
    assert "values of member" in failed(ValuesOfTarget)[ENSEMBLE]
    assert set(failed(ValuesInFloat32)) == {ENSEMBLE, CONTRACT}


def test_only_trials_of_several_members_need_the_rung() -> None:
    alone, together = shape_of(cartpole()), shape_of(cartpole(members=5))
    assert alone == shape_of(cartpole(vote=MAJORITY, mask=0.5))
    assert "members" not in dict(alone.hyper)
    assert together != alone
    assert "× 5 members" in str(together)
    assert Shape.from_json(json.loads(json.dumps(together.to_json()))).members == 5
    for shape, wanted in ((alone, False), (together, True)):
        subject = ProofSubject("dqn", "mlp", shape)
        assert (ENSEMBLE in limits(subject, "float64", many=False)) is wanted
        assert any(name == ENSEMBLE for _, name in required(subject, "cpu")) is wanted
    assert not any(name.endswith(ENSEMBLE) for _, name in required(ProofSubject("dqn", "mlp"), "cpu"))


def test_a_trial_of_several_members_is_ranked_only_with_the_rung() -> None:
    subject, code = Subject.of("torch:eager", "dqn", "mlp", "cpu"), Code("b" * 64, "r" * 64, {"torch": "2.5"})
    alone, together = shape_of(cartpole()), shape_of(cartpole(members=3))
    facts = WorkerFacts(
        backend_sha256=code.backend_sha256, reference_sha256=code.reference_sha256, versions=code.versions
    )
    proven = {
        one: [Certificate(one, code, whole_rungs("dqn", shape=one.shape))]
        for one in (subject, replace(subject, shape=alone), replace(subject, shape=together))
    }
    assert trial_validity(proven, subject, replace(facts, shape=together)).state == VALID
    of_ensemble = replace(subject, shape=together)
    (whole,) = proven[of_ensemble]
    without = tuple(rung for rung in whole.rungs if rung.name != ENSEMBLE)
    assert len(without) < len(whole.rungs)
    lacking = {**proven, of_ensemble: [replace(whole, rungs=without)]}
    assert trial_validity(lacking, subject, replace(facts, shape=together)).state != VALID
    assert trial_validity(lacking, subject, replace(facts, shape=alone)).state == VALID
    del lacking[of_ensemble]
    assert trial_validity(lacking, subject, replace(facts, shape=together)).state == ABSENT


# --- studies ------------------------------------------------------------------------------------------------


def study(home: Path, hyper: str, keys: str = "") -> Path:
    path = home / "s.toml"
    path.write_text(
        'contestants = ["numpy:eager"]\nalgorithms = ["dqn"]\nenvironments = ["CartPole-v1"]\n'
        f"seeds = 2\n{keys}\n"
        f"[hyper.dqn]\n{hyper}\n[budget]\nsteps = 1000\n"
    )
    return path


def test_several_workers_and_members_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="an ensemble has one worker") as caught:
        load_study(study(tmp_path, "members = [1, 3]", 'workers = [1, 2]\ncollective = "host"'))
    assert "use `workers = 1`, or members = 1" in str(caught.value.message) + str(caught.value.fix)
    load_study(study(tmp_path, "members = 1", 'workers = [1, 2]\ncollective = "host"'))
    load_study(study(tmp_path, "members = [1, 3]"))


@pytest.mark.parametrize(
    ("hyper", "message"),
    [
        ("members = 0", "must be at least 1"),
        ('vote = "median"', "must be 'mean' or 'majority'"),
        ("mask = 0.0", "must be above 0 and at most 1"),
        ("mask = 1.5", "must be above 0 and at most 1"),
    ],
)
def test_wrong_values_are_refused(hyper: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Problem) as caught:
        load_study(study(tmp_path, hyper))
    assert message in str(caught.value)


def test_the_open_division_refuses_ensembles() -> None:
    with pytest.raises(Unsupported, match="no ensembles"):
        OpenProblem("dqn", "CartPole-v1", shipped("dqn", "CartPole-v1", members=5))


def test_a_trial_of_one_member_keeps_the_id_of_versions_without_ensembles() -> None:
    file = TrialFile.from_json(trial("numpy", "eager", "dqn", "float32", 100))
    older = {name: file.hyper[name] for name in file.hyper if name not in ("members", "vote", "mask")}
    assert trial_id(replace(file, hyper=older)) == trial_id(file)
    several = {"members": 3}
    assert trial_id(replace(file, hyper={**file.hyper, **several})) != trial_id(file)


def test_records_of_before_are_those_of_one_member() -> None:
    values = DQN.completed({"hidden": [64, 64]})
    assert (values["hidden"], values["members"]) == ([64, 64], 1)
