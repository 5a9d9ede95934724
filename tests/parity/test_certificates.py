"""Every contestant climbs the ladder, and a certificate dies with what it speaks of."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from closed_runs import CONTESTANTS, EVERYTHING, SLOW_TO_COMPILE
from rldyno.proofs import prove, store
from rldyno.proofs.certificate import Subject
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import identity
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.proof.forms import shape_of
from rldyno_rig.shape import Shape

LESS = {("dqn", "mlp"), ("ppo", "mlp")}
# One file, one graph, compilers that take minutes: half of it each.
HALF = {
    "pytensor:graph-numba": {("dqn", "mlp")},
    "pytensor:graph-c": {("ppo", "mlp")},
    "pytensor:graph-jax": {("rainbow", "mlp")},
    "torch:aot": {("ppo", "mlp")},
}


def shape(algorithm: str) -> Shape:
    """Of the quickstart."""
    chosen = ALGORITHMS[algorithm]
    return shape_of(chosen.spec(chosen.defaults("CartPole-v1"), (4,), "float32", 2))


def subjects(contestant: str) -> list[Subject]:
    every = prove.every_subject([contestant], "cpu")
    every += [
        dataclasses.replace(one, shape=shape(one.algorithm))
        for one in every
        if (one.algorithm, one.network) in LESS
    ]
    if EVERYTHING or contestant not in SLOW_TO_COMPILE:
        return every
    fewer = HALF.get(contestant, LESS)
    return [one for one in every if one.shape is None and (one.algorithm, one.network) in fewer]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("contestant", CONTESTANTS)
def test_a_contestant_is_proven(contestant: str, interpreters: dict[str, Interpreter]) -> None:
    wanted = subjects(contestant)
    proven = prove.prove(wanted, interpreters, lambda _: None)
    assert len(proven) == len(wanted) > 0
    assert [made.sentence() for made in proven if not made.proven] == []


@pytest.fixture
def proven(
    interpreters: dict[str, Interpreter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Subject, Interpreter]:
    """A fresh proof of one subject, kept where no other test finds it."""
    subject = Subject.of("numpy:eager", "dqn", "mlp", "cpu")
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path))
    assert store.find(subject, interpreters["numpy"]) is None
    prove.prove([subject], interpreters, lambda _: None)
    made = store.find(subject, interpreters["numpy"])
    assert made is not None
    assert made.proven
    return subject, interpreters["numpy"]


@pytest.mark.parametrize("changed", ["backend_sha256", "reference_sha256"])
def test_changed_code_has_no_certificate(
    changed: str, proven: tuple[Subject, Interpreter], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = identity.hashes
    monkeypatch.setattr(identity, "hashes", lambda path: {**right(path), changed: "0" * 64})
    assert store.find(*proven) is None


def test_changed_versions_have_no_certificate(proven: tuple[Subject, Interpreter]) -> None:
    subject, interpreter = proven
    newer = dataclasses.replace(interpreter, versions={**interpreter.versions, "numpy": "99.0"})
    assert store.find(subject, newer) is None
    other_python = dataclasses.replace(interpreter, python="3.99.0")
    assert store.find(subject, other_python) is None


def test_a_rig_hash_follows_every_file(tmp_path: Path) -> None:
    path = tmp_path / "x_.py"
    path.write_text("a = 1")
    before = identity.hashes(str(path))["backend_sha256"]
    path.write_text("a = 2")
    assert identity.hashes(str(path))["backend_sha256"] != before
