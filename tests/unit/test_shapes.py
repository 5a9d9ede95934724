"""Shapes of studies: what belongs to one, what its proof finds, and whether trials of it are ranked."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rldyno.proofs.certificate import (
    ABSENT,
    FAILED,
    NO_SHAPE,
    STALE,
    VALID,
    Certificate,
    Code,
    Subject,
    trial_validity,
)
from rldyno.proofs.prove import subjects
from rldyno.study.file import load_study
from rldyno.study.plan import Cell, make_plan
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.backends import numpy_
from rldyno_rig.facts_file import WorkerFacts
from rldyno_rig.job_files import EnvironmentFacts, ProofSubject
from rldyno_rig.proof.forms import LOOP_ONLY, shape_of, shape_spec, variants
from rldyno_rig.proof.ladder import Climb
from rldyno_rig.proof.rung import OWN_STEP
from rldyno_rig.proof.standard import limits
from rldyno_rig.shape import Shape
from rldyno_rig.spec import Spec
from whole_proofs import whole_rungs

RIG = Path(numpy_.__file__).parents[1]
CARTPOLE = EnvironmentFacts("CartPole-v1", None, (4,), "float32", 2)


def shape(algorithm: str, **changes: Any) -> Shape:
    """Of the shipped hyper-parameters on CartPole, with changes."""
    chosen = ALGORITHMS[algorithm]
    values = replace(chosen.defaults("CartPole-v1"), **changes)
    return shape_of(chosen.spec(values, (4,), "float32", 2))


def failed(algorithm: str, ran: Shape, learner: Any, dtype: str = "float64") -> set[str]:
    spec = shape_spec(algorithm, ran)
    return {rung.name for rung in Climb(spec, learner, dtype, "int64", ran).rungs() if not rung.passed}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_shape_survives_json_and_makes_the_same_network(algorithm: str) -> None:
    ran = shape(algorithm)
    again = Shape.from_json(json.loads(json.dumps(ran.to_json())))
    assert (again, again.key) == (ran, ran.key)
    chosen = ALGORITHMS[algorithm]
    right = chosen.spec(chosen.defaults("CartPole-v1"), (4,), "float32", 2)
    assert shape_spec(algorithm, again).network == right.network


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, str):
        return "relu" if value == "tanh" else "tanh"
    return (*value, 7) if isinstance(value, tuple) else value * 2 + 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_hyper_parameter_that_a_learner_may_read_is_part_of_a_shape(algorithm: str) -> None:
    defaults = ALGORITHMS[algorithm].defaults("CartPole-v1")
    for name in {field.name for field in dataclasses.fields(defaults)} - {"convolutions"}:
        changed = shape(algorithm, **{name: other(getattr(defaults, name))})
        if name in LOOP_ONLY:
            assert changed.hyper == shape(algorithm).hyper, name
        else:
            assert changed != shape(algorithm), name
    assert shape(algorithm, environments=64) != shape(algorithm), "rows of act"


def test_no_learner_reads_what_only_loops_use() -> None:
    known = {field.name for chosen in ALGORITHMS.values() for field in dataclasses.fields(chosen.hyper)}
    assert known >= LOOP_ONLY
    read = re.compile(rf"hyper\.({'|'.join(LOOP_ONLY)})\b")
    for path in (*RIG.glob("backends/*.py"), *RIG.glob("reference/*.py"), RIG / "synthetic.py"):
        assert not read.search(path.read_text("utf-8")), path.name


class Guarded:
    """Hyper-parameters whose loop-only fields cannot be read, but for the learning rate, an argument."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        assert name == "learning_rate" or name not in LOOP_ONLY, name
        return getattr(self.values, name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_right_learner_is_proven_in_a_shape(algorithm: str, dtype: str) -> None:
    ran = shape(algorithm)
    spec = shape_spec(algorithm, ran)
    climbed = Climb(replace(spec, hyper=Guarded(spec.hyper)), numpy_.Learner, dtype, "int64", ran)
    found = [(rung.name, rung.tolerance, rung.passed) for rung in climbed.rungs()]
    wanted = limits(ProofSubject(algorithm, "mlp", ran), dtype, many=False)
    assert found == [(name, limit, True) for name, limit in wanted.items()]


class LosesRows(numpy_.Learner):
    """Right for small batches; the rest of a large one is lost, as with a tile that is not full."""

    def update(self, batch: tuple, lr: float) -> tuple:
        rows = len(batch[0]) // 48 * 48 or len(batch[0])
        return super().update(tuple(array[:rows] for array in batch), lr)


class ActsWronglyAlone(numpy_.Learner):
    """Right for several observations; for one, the last action is taken."""

    def act(self, obs: np.ndarray, *noise: np.ndarray) -> tuple:
        action, *rest = super().act(obs, *noise)
        return (np.full_like(action, -1) if len(obs) == 1 else action, *rest)


class EpsilonLost(numpy_.Learner):
    """Right moments, but ε has no effect in float32."""

    def __init__(self, spec: Spec, params: Any, dtype: str) -> None:
        super().__init__(replace(spec, hyper=replace(spec.hyper, adam_eps=0.0)), params, dtype)


def test_mistakes_that_only_the_sizes_of_a_study_show_are_found() -> None:
    small = variants("dqn", "mlp")[0][1]
    for learner, found in ((LosesRows, "optimiser after 1"), (ActsWronglyAlone, "actions")):
        whole = Climb(small, learner, "float64", "int64").rungs()
        assert all(rung.passed for rung in whole), learner
        assert found in failed("dqn", shape("dqn"), learner), learner


def test_the_step_is_compared_in_float32_where_weights_are_not() -> None:
    ran = shape("dqn", adam_eps=1e-3)
    assert failed("dqn", ran, EpsilonLost, "float32") == {OWN_STEP}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_right_learner_is_proven_with_images(algorithm: str, dtype: str) -> None:
    chosen = ALGORITHMS[algorithm]
    values = replace(chosen.defaults("x"), convolutions=((8, 8, 4), (16, 4, 2)), hidden=(64,))
    ran = shape_of(chosen.spec(values, (2, 44, 40), "uint8", 6))
    climbed = Climb(shape_spec(algorithm, ran), numpy_.Learner, dtype, "int64", ran).rungs()
    wanted = limits(ProofSubject(algorithm, "cnn", ran), dtype, many=False)
    assert [(rung.name, rung.passed) for rung in climbed] == [(name, True) for name in wanted]


def test_images_take_one_update_and_vectors_ten() -> None:
    ran = shape("dqn")
    assert "weights after 10" in limits(ProofSubject("dqn", "mlp", ran), "float64", many=False)
    assert "weights after 10" not in limits(ProofSubject("dqn", "cnn", ran), "float64", many=False)
    assert OWN_STEP in limits(ProofSubject("dqn", "cnn", ran), "float32", many=False)
    assert limits(ProofSubject("dqn", "mlp", ran), "tf32", many=False) == {}


SUBJECT = Subject.of("torch:eager", "dqn", "mlp", "cpu")
CODE = Code("b" * 64, "r" * 64, {"torch": "2.5"})
FACTS = WorkerFacts(
    backend_sha256=CODE.backend_sha256, reference_sha256=CODE.reference_sha256, versions=CODE.versions
)


def certified(*shapes: Shape | None) -> dict[Subject, list[Certificate]]:
    made = [replace(SUBJECT, shape=one) for one in shapes]
    return {one: [Certificate(one, CODE, whole_rungs("dqn", shape=one.shape))] for one in made}


def test_a_trial_needs_the_proof_of_its_algorithm_and_of_its_shape() -> None:
    ran = shape("dqn")
    facts = replace(FACTS, shape=ran)
    assert trial_validity(certified(None, ran), SUBJECT, facts) == (VALID, None)
    for proven, state in ((certified(ran), ABSENT), (certified(None, shape("dqn", hidden=(8,))), ABSENT)):
        assert trial_validity(proven, SUBJECT, facts).state == state
    lacking = certified(None, ran)
    (whole,) = lacking[replace(SUBJECT, shape=ran)]
    for place in range(len(whole.rungs)):
        lacking[replace(SUBJECT, shape=ran)] = [
            replace(whole, rungs=whole.rungs[:place] + whole.rungs[place + 1 :])
        ]
        state, reason = trial_validity(lacking, SUBJECT, facts)
        assert state in (STALE, FAILED)
        assert f"in the shape that ran ({ran})" in str(reason)


def test_a_trial_from_before_shapes_were_proven_is_ranked_with_a_doubt() -> None:
    assert trial_validity(certified(None), SUBJECT, FACTS) == (VALID, NO_SHAPE)
    assert trial_validity({}, SUBJECT, FACTS).state == ABSENT
    assert trial_validity(certified(None), SUBJECT, None).state == STALE


def cells(folder: Path, hyper: str) -> tuple[Cell, ...]:
    path = folder / "x.toml"
    path.write_text(
        'contestants = ["numpy:eager", "torch:eager"]\nalgorithms = "dqn"\nenvironments = "CartPole-v1"\n'
        f"seeds = 2\nbudget.steps = 10\n[hyper]\n{hyper}\n"
    )
    return make_plan(load_study(path)).cells


def test_each_shape_of_a_study_is_proven_once(tmp_path: Path) -> None:
    made = {(framework, "CartPole-v1"): CARTPOLE for framework in ("numpy", "torch")}
    planned = cells(tmp_path, "hidden = [[8], [16], [16, 8]]\nlearning_rate = [0.001, 0.002]")
    found = subjects(planned, made)
    assert [str(one.contestant) for one in found].count("torch:eager") == 1 + 3
    assert len({one.shape for one in found if one.shape}) == 3
    assert [one.shape for one in subjects(planned, {})] == [None, None], "the environment is not known"


def test_a_network_that_cannot_see_the_observations_has_no_shape(tmp_path: Path) -> None:
    """Its trials fail, and say why."""
    made = {(framework, "CartPole-v1"): CARTPOLE for framework in ("numpy", "torch")}
    planned = [
        replace(cell, hyper=replace(cell.hyper, convolutions=((16, 8, 4),))) for cell in cells(tmp_path, "")
    ]
    assert {one.shape for one in subjects(planned, made)} == {None}
