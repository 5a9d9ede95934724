"""Proof jobs against a rig that is not there to prove anything: what is kept, and what is reported."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.proofs import prove, store
from rldyno.proofs.certificate import Subject
from rldyno.toolchains.resolve import Interpreter

WANTED = [Subject.of("numpy:eager", algorithm, "mlp", "cpu") for algorithm in ("dqn", "ppo")]
RUNG = {"rung": "loss", "dtype": "float64", "error": 1e-15, "tolerance": 1e-10, "passed": True}
PROOF = {"algorithm": "dqn", "network": "mlp", "passed": True, "error": None, "rungs": [RUNG]}


@pytest.fixture
def interpreters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Interpreter]:
    """An "interpreter" that writes the given proofs, prints a last line and dies."""
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    script = tmp_path / "python"
    return {"numpy": Interpreter("numpy", script, "given", "3.11.7", {"numpy": "2.0"}, None)}


def dies_after(interpreters: dict[str, Interpreter], proofs: list[dict[str, object]] | None) -> None:
    report = json.dumps({"versions": {}, "proofs": proofs})
    body = [f"#!{sys.executable}", "import sys", "print('out of luck')"]
    if proofs is not None:
        body.append(f"open(sys.argv[-1] + '/proofs.json', 'w').write({report!r})")
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
    rung = {"rung": "loss", "dtype": "float64", "error": 0.5, "tolerance": 1e-10, "passed": False}
    dies_after(interpreters, [{**PROOF, "passed": False, "rungs": [rung]}])
    lines: list[str] = []
    prove.prove(WANTED[:1], interpreters, lambda made: lines.append(made.sentence()))
    assert lines == [
        "numpy:eager dqn mlp: NOT PROVEN, loss is off by 5.0e-01 in float64 (1 of 1 rungs failed)"
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
