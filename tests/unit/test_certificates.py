"""Proof jobs against a rig that is not there to prove anything: what is kept, and what is reported."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.proofs import prove, store
from rldyno.proofs.certificate import Certificate, Code, Subject
from rldyno.proofs.display import ProofDisplay
from rldyno.proofs.jobs import Part, log_path
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import identity
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.proof.forms import shape_of
from whole_proofs import whole_proof, whole_rungs

WANTED = [Subject.of("numpy:eager", algorithm, "mlp", "cpu") for algorithm in ("dqn", "ppo")]
PROOF = whole_proof()
LOSS = ("loss", "float64")


@pytest.fixture
def interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Interpreter]:
    """An "interpreter" that writes the given proofs, prints a last line and dies."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path / "python"
    return {"numpy": Interpreter("numpy", script, "given", "3.11.7", {"numpy": "2.0"}, None)}


def dies_after(interpreters: dict[str, Interpreter], proofs: list[dict[str, object]] | None) -> None:
    report = json.dumps({"versions": {}, "proofs": proofs})
    body = [f"#!{sys.executable}", "import os, sys", "print('out of luck')"]
    if proofs is not None:
        body.append(f"open(sys.argv[-1] + '/partial', 'w').write({report!r})")
        body.append("os.replace(sys.argv[-1] + '/partial', sys.argv[-1] + '/proofs.json')")
    script = interpreters["numpy"].path
    script.write_text("\n".join(body) + "\n")
    script.chmod(0o755)


def test_a_process_that_dies_midway_files_only_what_it_proved(interpreters: dict[str, Interpreter]) -> None:
    dies_after(interpreters, [PROOF])
    dqn, ppo = prove.prove(WANTED, interpreters, lambda _: None)
    assert dqn.proven
    assert not ppo.proven
    assert "out of luck" in ppo.sentence()
    assert store.find(WANTED[0], interpreters["numpy"]) is not None
    assert store.find(WANTED[1], interpreters["numpy"]) is None


def test_a_process_that_proves_nothing_is_a_problem(interpreters: dict[str, Interpreter]) -> None:
    dies_after(interpreters, None)
    with pytest.raises(Problem, match="proving numpy:eager failed: out of luck") as caught:
        prove.prove(WANTED, interpreters, lambda _: None)
    assert "out of luck" in str(caught.value.detail)


def test_a_process_that_proves_nothing_does_not_keep_others_from_it(
    interpreters: dict[str, Interpreter], tmp_path: Path
) -> None:
    dies_after(interpreters, [PROOF])
    broken = tmp_path / "broken"
    broken.write_text(f"#!{sys.executable}\nprint('Illegal instruction')\n")
    broken.chmod(0o755)
    interpreters["torch"] = Interpreter("torch", broken, "given", "3.11.7", {"torch": "2.0"}, None)
    wanted = [WANTED[0], Subject.of("torch:eager", "dqn", "mlp", "cpu")]
    proven, failed = prove.prove(wanted, interpreters, lambda _: None)
    assert proven.proven
    assert not failed.proven
    assert "Illegal instruction" in failed.sentence()
    assert store.find(wanted[1], interpreters["torch"]) is None


def test_a_failed_proof_is_filed_and_says_where(interpreters: dict[str, Interpreter]) -> None:
    rungs = [
        rung | ({"error": 0.5} if (rung["rung"], rung["dtype"]) == LOSS else {}) for rung in PROOF["rungs"]
    ]
    dies_after(interpreters, [{**PROOF, "rungs": rungs}])
    lines: list[str] = []
    prove.prove(WANTED[:1], interpreters, lambda made: lines.append(made.sentence()))
    assert lines == [
        "numpy:eager dqn mlp: NOT PROVEN, loss is off by 5.0e-01 in float64 (1 of 76 rungs failed)"
    ]
    again: list[str] = []
    prove.prove(WANTED[:1], interpreters, lambda made: again.append(made.sentence()))
    assert again == []


def test_a_proof_that_broke_off_is_tried_again(interpreters: dict[str, Interpreter]) -> None:
    """A GPU may have been taken, memory short: that is no verdict on the contestant."""
    dies_after(interpreters, [{**PROOF, "passed": False, "error": "RuntimeError: out of memory"}])
    (broken,) = prove.prove(WANTED[:1], interpreters, lambda _: None)
    assert broken.sentence() == "numpy:eager dqn mlp: NOT PROVEN, RuntimeError: out of memory"
    assert store.find(WANTED[0], interpreters["numpy"]) is None
    dies_after(interpreters, [PROOF])
    (proven,) = prove.prove(WANTED[:1], interpreters, lambda _: None)
    assert proven.proven


def test_a_part_of_a_proof_makes_no_certificate(interpreters: dict[str, Interpreter]) -> None:
    dies_after(interpreters, [PROOF])
    part = Part(dtypes=("float64",))
    (made,) = prove.prove(WANTED[:1], interpreters, lambda _: None, part=part)
    assert "makes no certificate" in made.part_sentence()
    assert store.find(WANTED[0], interpreters["numpy"]) is None
    prove.prove(WANTED[:1], interpreters, lambda _: None)
    assert store.find(WANTED[0], interpreters["numpy"]) is not None


def test_one_algorithm_and_network_is_a_whole_proof(
    interpreters: dict[str, Interpreter], monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_after(interpreters, [PROOF])
    script = interpreters["numpy"].path
    monkeypatch.setattr("rldyno.commands.verify._chosen", lambda *arguments: (["numpy:eager"], interpreters))
    result = CliRunner().invoke(app, ["verify", "numpy", "--algorithm", "dqn", "--network", "mlp"])
    assert result.exit_code == 0, result.output
    assert "[1/1, " in result.output
    assert "numpy:eager dqn mlp: proven" in result.output
    assert store.find(WANTED[0], interpreters["numpy"]) is not None
    assert script.exists()


STUDY = """
contestants = ["numpy:eager", "torch:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
budget.steps = 10
"""


def test_the_shapes_of_a_study_are_proven_beside_its_algorithms(
    interpreters: dict[str, Interpreter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dqn = ALGORITHMS["dqn"]
    shape = shape_of(dqn.spec(dqn.defaults("CartPole-v1"), (4,), "float32", 2))
    dies_after(interpreters, [PROOF, whole_proof(shape=shape)])
    found = (
        interpreters,
        {"torch": Problem("the toolchain of torch is not built", fix="rldyno setup torch")},
    )
    monkeypatch.setattr("rldyno.session.preparation.find_interpreters", lambda *arguments: found)
    study = tmp_path / "x.toml"
    study.write_text(STUDY)
    result = CliRunner().invoke(app, ["verify", "--study", str(study)])
    assert result.exit_code == 0, result.output
    assert "left out: the toolchain of torch is not built" in result.output
    assert "[2/2, " in result.output
    assert f"numpy:eager dqn {shape}: proven" in result.output
    kept = store.find(replace(WANTED[0], shape=shape), interpreters["numpy"])
    assert kept is not None
    assert kept.subject.shape == shape
    assert store.find(WANTED[0], interpreters["numpy"]) is not None
    result = CliRunner().invoke(app, ["verify", "jax:jit", "--study", str(study)])
    assert "unknown contestant of this study 'jax:jit'" in str(result.exception)


@pytest.mark.parametrize("damage", [b"{", b"not json", b""])
def test_a_damaged_certificate_in_the_cache_is_made_anew(
    damage: bytes, interpreters: dict[str, Interpreter]
) -> None:
    dies_after(interpreters, [PROOF])
    prove.prove(WANTED[:1], interpreters, lambda _: None)
    store.path_of(WANTED[0], interpreters["numpy"]).write_bytes(damage)
    (again,) = prove.prove(WANTED[:1], interpreters, lambda _: None)
    assert again.proven
    assert store.find(WANTED[0], interpreters["numpy"]) is not None


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [("--algorithm", "dqm", "dqn"), ("--rung", "gradient", "gradients"), ("--network", "cnm", "cnn")],
)
def test_a_misspelt_part_is_refused_with_a_suggestion(option: str, value: str, meant: str) -> None:
    result = CliRunner().invoke(app, ["verify", "numpy", option, value])
    assert result.exit_code != 0
    assert isinstance(result.exception, Problem)
    assert f"did you mean '{meant}'" in result.exception.message


def test_progress_counts_the_proofs_and_says_what_is_proven_now(
    interpreters: dict[str, Interpreter],
) -> None:
    dies_after(interpreters, [PROOF, whole_proof("ppo")])
    seen: list[prove.Progress] = []
    prove.prove(WANTED, interpreters, lambda _: None, on_progress=seen.append)
    assert {one.total for one in seen} == {2}
    assert seen[-1] == prove.Progress(2, 2, ())
    now = prove.Progress(1, 2, ((WANTED[1], 12.3),))
    assert now.sentence() == "proving 2 of 2: numpy:eager ppo mlp (12 s)"


def test_what_a_failed_proof_printed_is_kept_and_named(interpreters: dict[str, Interpreter]) -> None:
    dies_after(interpreters, [{**PROOF, "passed": False, "error": "ValueError: no"}])
    console = Console(file=io.StringIO(), width=200)
    with ProofDisplay(console, 1) as display:
        prove.prove(WANTED[:1], interpreters, display.proven)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert str(log_path(WANTED[0])) in printed
    assert log_path(WANTED[0]).read_text() == "out of luck\n"


def test_a_certificate_of_a_shorter_ladder_is_out_of_date_and_says_why() -> None:
    """Rungs are part of the reference: a certificate made without one of them has another hash."""
    assert "proof" in identity.REFERENCE
    now, before = Code("b", "with the rung", {}), Code("b", "without it", {})
    validity = Certificate(WANTED[0], before, whole_rungs()).validity(now)
    assert validity == ("stale", "the reference or the ladder changed after it was proven")
