"""A certificate as a value: to JSON and back, and whether it holds for what ran."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rldyno.commands.verify import _rung_table
from rldyno.errors import Problem
from rldyno.proofs.certificate import (
    ABSENT,
    FAILED,
    STALE,
    VALID,
    Certificate,
    Code,
    Subject,
    best_validity,
    read_certificate,
    reference_hash,
)
from rldyno.records.files import write_json
from rldyno.records.seal import read_record, write_record
from rldyno_rig.proof.rung import WORST, Rung
from whole_proofs import whole_rungs

ROOT = Path(__file__).parents[2]
OLDER = sorted(ROOT.glob("tests/data/old_sample/certificates/*.json"))
SHIPPED = sorted(ROOT.glob("docs/samples/**/certificates/*.json"))
CODE = Code("b" * 64, "r" * 64, {"torch": "2.5"})
RUNGS = tuple(rung for rung in whole_rungs("dqn", "cnn", "cuda") if rung.dtype != "tf32")
WHOLE = Certificate(
    subject=Subject.of("torch:compile", "dqn", "cnn", "cuda"),
    code=CODE,
    rungs=RUNGS,
    without_limit={"tf32": "ValueError: no"},
    made_at="2026-01-02T03:04:05+00:00",
    circumstances={"python": "3.11.7", "rig_sha256": "x", "backend": {"threads": 1}},
)


def test_a_certificate_survives_json() -> None:
    assert Certificate.from_json(json.loads(json.dumps(WHOLE.to_json()))) == WHOLE


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_certificates_are_read_and_written_unchanged(path: Path) -> None:
    raw = read_record(path)
    certificate = Certificate.from_json(raw)
    assert json.loads(json.dumps(certificate.to_json())) == {"error": None, "not_judged": {}, **raw}
    failed = path.name.startswith("jax-jit-ppo-mlp-cuda-host-")  # docs/gpu.md: two workers, other last bits
    assert certificate.validity(Code.from_json(raw)).state == (FAILED if failed else VALID)


@pytest.mark.parametrize("path", OLDER, ids=lambda path: path.name)
def test_certificates_of_an_earlier_ladder_are_read_and_out_of_date(path: Path) -> None:
    raw = read_record(path)
    certificate = Certificate.from_json(raw)
    assert certificate.to_json() == {"error": None, "not_judged": {}, **raw, "passed": False}
    state, why = certificate.validity(Code.from_json(raw))
    assert state == STALE
    assert "another version of the proofs: it lacks the rung `contract`" in str(why)


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


def altered(place: int, **changes: Any) -> Certificate:
    rungs = [*RUNGS[:place], replace(RUNGS[place], **changes), *RUNGS[place + 1 :]]
    return replace(WHOLE, rungs=tuple(rungs))


def not_valid(certificate: Certificate) -> str:
    """Why it proves nothing, also as a file that says of itself that it passed."""
    assert not certificate.proven
    assert "NOT PROVEN" in certificate.sentence()
    raw = {**certificate.to_json(), "passed": True}
    raw["rungs"] = [{**rung, "passed": True} for rung in raw["rungs"]]
    again = Certificate.from_json(raw).validity(CODE)
    assert again == certificate.validity(CODE)
    assert again.state in (FAILED, STALE)
    return str(again.reason)


places = st.integers(0, len(RUNGS) - 1)
LIMITED = [place for place, rung in enumerate(RUNGS) if rung.tolerance is not None]


@given(place=places)
def test_a_certificate_without_any_one_rung_proves_nothing(place: int) -> None:
    lacking = replace(WHOLE, rungs=RUNGS[:place] + RUNGS[place + 1 :])
    rung = RUNGS[place]
    assert f"lacks the rung `{rung.name}` in {rung.dtype}" in not_valid(lacking)


@given(place=places, error=st.sampled_from([math.nan, math.inf, -1e-300, WORST]))
def test_an_error_that_is_none_proves_nothing(place: int, error: float) -> None:
    assert RUNGS[place].name in not_valid(altered(place, error=error))


@given(place=st.sampled_from(LIMITED), factor=st.floats(1.001, 1e6))
def test_an_error_beyond_our_limit_proves_nothing_whatever_the_limit_of_the_file(
    place: int, factor: float
) -> None:
    limit = RUNGS[place].tolerance
    assert limit is not None
    beyond = limit * factor or 1e-300
    assert RUNGS[place].name in not_valid(altered(place, error=beyond))
    for given_limit in (beyond, None):
        words = not_valid(altered(place, error=beyond, tolerance=given_limit))
        assert f"`{RUNGS[place].name}` in {RUNGS[place].dtype} has a limit that is not ours" in words


@given(place=places, other=st.sampled_from(["float16", "", "tf32"]))
def test_a_rung_of_another_precision_proves_nothing(place: int, other: str) -> None:
    assert "rung `" in not_valid(altered(place, dtype=other))


@given(place=places)
def test_a_rung_that_is_there_twice_or_unknown_proves_nothing(place: int) -> None:
    twice = replace(WHOLE, rungs=(*RUNGS, replace(RUNGS[place], error=0.0)))
    assert f"`{RUNGS[place].name}` in {RUNGS[place].dtype} is there twice" in not_valid(twice)
    assert "lacks" in not_valid(altered(place, name="trust me"))
    more = replace(WHOLE, rungs=(*RUNGS, replace(RUNGS[place], name="trust me")))
    assert "`trust me` in" in not_valid(more)


@pytest.mark.parametrize("error", ["1e-15", True, None, [0.0], {}])
def test_an_error_that_is_no_number_proves_nothing(error: object) -> None:
    raw = WHOLE.to_json()
    raw["rungs"][0]["error"] = error
    assert not Certificate.from_json(raw).proven


def test_a_precision_that_has_a_limit_may_not_be_missing() -> None:
    half = tuple(rung for rung in RUNGS if rung.dtype == "float64")
    for excuse in ({}, {"float32": "not supported"}):
        assert "in float32" in not_valid(replace(WHOLE, rungs=half, without_limit=excuse))
    assert "in tf32" in not_valid(replace(WHOLE, without_limit={}))


@given(place=places)
def test_updates_in_one_call_are_proven_in_every_form_or_in_none(place: int) -> None:
    """And a trial that made them needs the proof: a certificate cannot hide that it lacks the rung."""
    both = whole_rungs("dqn", "cnn", "cuda", many=True)
    certificate = replace(WHOLE, rungs=both, without_limit={})
    assert certificate.validity(CODE, True) == certificate.validity(CODE) == (VALID, None)
    assert replace(certificate, rungs=both[:place] + both[place + 1 :]).validity(CODE, True).state != VALID
    state, why = WHOLE.validity(CODE, many_updates=True)
    assert state != VALID
    assert "`updates in one call`" in str(why)


def test_what_broke_off_or_is_empty_proves_nothing() -> None:
    assert "MemoryError" in not_valid(replace(WHOLE, error="MemoryError"))
    assert "lacks the rung" in not_valid(replace(WHOLE, rungs=()))
    unknown = replace(WHOLE, subject=Subject.of("torch:compile", "sarsa", "cnn", "cuda"))
    assert "`sarsa` is unknown" in not_valid(unknown)


def test_a_whole_one_is_stale_or_failed_by_the_ladder_that_made_it() -> None:
    """One that lacks a rung which came later has not failed."""
    lacking = replace(WHOLE, rungs=RUNGS[1:])
    assert lacking.validity(CODE).state == STALE
    ours = replace(CODE, reference_sha256=reference_hash())
    assert replace(lacking, code=ours).validity(ours).state == FAILED
    wrong = replace(WHOLE, rungs=(replace(RUNGS[0], error=0.5), *RUNGS[1:]))
    assert wrong.validity(CODE).state == FAILED


def test_a_rung_without_a_limit_cannot_fail_it() -> None:
    drifting = [place for place, rung in enumerate(RUNGS) if rung.tolerance is None]
    assert altered(drifting[0], error=0.5).validity(CODE) == (VALID, None)
    assert WHOLE.worst("float64") == 4.1e-15
    assert WHOLE.worst("tf32") is None


@pytest.mark.parametrize("edit", [{"passed": True}, {"made_at": "yesterday"}, {"rungs": []}])
def test_a_certificate_that_was_edited_is_refused(edit: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    write_record(path, replace(WHOLE, rungs=RUNGS[1:]).to_json())
    assert read_certificate(path).rungs == RUNGS[1:]
    write_json(path, json.loads(path.read_text()) | edit)
    with pytest.raises(Problem, match="altered"):
        read_certificate(path)


def test_the_best_of_several_counts() -> None:
    stale = replace(WHOLE, code=replace(CODE, backend_sha256="old"))
    failed = altered(0, error=0.5)
    assert best_validity([stale, failed, WHOLE], CODE).state == VALID
    assert best_validity([stale, failed], CODE).state == FAILED
    assert best_validity([stale], CODE).state == STALE
    assert best_validity([], CODE).state == ABSENT


def test_the_table_of_rungs_cuts_no_word_or_number_off_in_80_columns() -> None:
    long = replace(
        WHOLE,
        subject=Subject.of("pytensor:graph-numba", "classifier", "mlp", "cpu"),
        rungs=(Rung("double dueling 3-step tanh: optimiser after 100", "float64", 1.2e-15, 1e-10),),
    )
    console = Console(width=80, record=True, file=io.StringIO())
    _rung_table([long], console)
    shown = console.export_text()
    assert "…" not in shown
    assert "1.2e-15" in shown
