"""A certificate as a value: to JSON and back, and whether it holds for what ran."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from rldyno.commands.verify import _rung_table
from rldyno.proofs.certificate import (
    ABSENT,
    FAILED,
    STALE,
    VALID,
    Certificate,
    Code,
    Subject,
    best_validity,
)
from rldyno.records.seal import read_record
from rldyno_rig.proof.rung import Rung

ROOT = Path(__file__).parents[2]
OLDER = sorted(ROOT.glob("tests/data/old_sample/certificates/*.json"))
SHIPPED = sorted(ROOT.glob("docs/samples/**/certificates/*.json"))
CODE = Code("b" * 64, "r" * 64, {"torch": "2.5"})
GOOD = Rung("loss", "float64", 1e-15, 1e-10, True)
DRIFT = Rung("weights after 100", "float32", 0.5, None, True)
WHOLE = Certificate(
    subject=Subject.of("torch:compile", "dqn", "cnn", "cuda"),
    code=CODE,
    passed=True,
    rungs=(GOOD, DRIFT),
    without_limit={"tf32": "ValueError: no"},
    made_at="2026-01-02T03:04:05+00:00",
    circumstances={"python": "3.11.7", "rig_sha256": "x", "backend": {"threads": 1}},
)


def test_a_certificate_survives_json() -> None:
    assert Certificate.from_json(json.loads(json.dumps(WHOLE.to_json()))) == WHOLE


@pytest.mark.parametrize("path", [*SHIPPED, *OLDER], ids=lambda path: path.name)
def test_shipped_certificates_are_read_and_written_unchanged(path: Path) -> None:
    raw = read_record(path)
    certificate = Certificate.from_json(raw)
    assert certificate.to_json() == {"error": None, "not_judged": {}, **raw}
    assert certificate.validity(Code.from_json(raw)) == (VALID, None)


@pytest.mark.parametrize(
    ("ran", "reason"),
    [
        (None, "no facts"),
        (replace(CODE, backend_sha256="other"), "backend changed"),
        (replace(CODE, reference_sha256="other"), "reference or the ladder changed"),
        (replace(CODE, versions={"torch": "2.6"}), "torch 2.5, ran with 2.6"),
        (replace(CODE, versions={**CODE.versions, "cudnn": "9"}), "cudnn (none), ran with 9"),
    ],
)
def test_other_code_makes_it_stale(ran: Code | None, reason: str) -> None:
    state, why = WHOLE.validity(ran)
    assert state == STALE
    assert reason in str(why)


@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (replace(WHOLE, passed=False, error="MemoryError"), "MemoryError"),
        (replace(WHOLE, rungs=(GOOD, replace(GOOD, name="gradients", passed=False))), "gradients"),
        (replace(WHOLE, rungs=(replace(GOOD, error=1e-9),)), "loss"),
        (replace(WHOLE, rungs=(replace(GOOD, error=float("nan")),)), "loss"),
        (replace(WHOLE, rungs=()), "no passed rungs"),
        (replace(WHOLE, passed=False), "no passed rungs"),
    ],
)
def test_the_mark_alone_does_not_make_it_valid(certificate: Certificate, reason: str) -> None:
    """A certificate is valid when its mark and the numbers of its rungs agree."""
    state, why = certificate.validity(CODE)
    assert state == FAILED
    assert reason in str(why)
    assert "NOT PROVEN" in certificate.sentence()


def test_a_rung_without_a_limit_cannot_fail_it() -> None:
    assert WHOLE.validity(CODE) == (VALID, None)
    assert WHOLE.worst("float64") == 1e-15
    assert WHOLE.worst("float32") is None


def test_the_best_of_several_counts() -> None:
    stale = replace(WHOLE, code=replace(CODE, backend_sha256="old"))
    failed = replace(WHOLE, passed=False)
    assert best_validity([stale, failed, WHOLE], CODE).state == VALID
    assert best_validity([stale, failed], CODE).state == FAILED
    assert best_validity([stale], CODE).state == STALE
    assert best_validity([], CODE).state == ABSENT


def test_the_table_of_rungs_cuts_no_word_or_number_off_in_80_columns() -> None:
    long = replace(
        WHOLE,
        subject=Subject.of("pytensor:graph-numba", "classifier", "mlp", "cpu"),
        rungs=(Rung("double dueling 3-step tanh: optimiser after 100", "float64", 1.2e-15, 1e-10, True),),
    )
    console = Console(width=80, record=True, file=io.StringIO())
    _rung_table([long], console)
    shown = console.export_text()
    assert "…" not in shown
    assert "1.2e-15" in shown
