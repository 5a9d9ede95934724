"""The prove job: what stops it, what does not, and when a framework reports its versions."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rldyno_rig import identity
from rldyno_rig.backends import numpy_
from rldyno_rig.job_files import PROOF_FILE, ProofJob, ProofSubject
from rldyno_rig.proof import job
from rldyno_rig.proof.rung import Rung, largest
from rldyno_rig.reference.learner import ReferenceLearner
from rldyno_rig.spec import Params, Spec


def backend(broken: str) -> Any:
    """NumPy, but one precision fails as a GPU's library may."""

    def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> numpy_.Learner:
        if dtype == broken:
            raise RuntimeError("not supported\nat length")
        return numpy_.Learner(spec, params, "float32" if dtype == "tf32" else dtype)

    return SimpleNamespace(make=make, INDEX_DTYPE="int64")


JOB = ProofJob(
    "numpy_", "eager", "cuda", ("float64", "float32", "tf32"), (ProofSubject("classifier", "mlp"),)
)


def test_what_is_not_judged_cannot_fail_a_proof() -> None:
    proof = job._prove(backend(broken="tf32"), JOB, ProofSubject("classifier", "mlp"))
    assert proof["passed"]
    assert proof["error"] is None
    assert proof["not_judged"] == {"tf32": "RuntimeError: not supported (tf32, last rung reached: none)"}
    assert {rung["dtype"] for rung in proof["rungs"]} == {"float64", "float32"}


def test_what_is_judged_does() -> None:
    proof = job._prove(backend(broken="float32"), JOB, ProofSubject("classifier", "mlp"))
    assert not proof["passed"]
    assert proof["error"] == "RuntimeError: not supported (float32, last rung reached: none)"
    assert {rung["dtype"] for rung in proof["rungs"]} == {"float64"}


@pytest.mark.parametrize("rung", ["loss", "weights after 100"])
def test_a_nan_is_a_failing_rung_that_survives_json(
    rung: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where an error has no limit, and where the NaN is the reference's own."""

    def poisoned(learner: Any) -> Any:
        learner.grads = lambda batch: (math.nan, *numpy_.Learner.grads(learner, batch)[1:])
        return learner

    def poisoned_reference(self: ReferenceLearner) -> Any:
        state = right_state(self)
        params = {name: p * (math.nan if self.t == 100 else 1) for name, p in state["params"].items()}
        return {**state, "params": params}

    right_make, right_state = numpy_.make, ReferenceLearner.state
    if rung == "loss":
        monkeypatch.setattr(numpy_, "make", lambda *args: poisoned(right_make(*args)))
    else:
        monkeypatch.setattr(ReferenceLearner, "state", poisoned_reference)
    requested = ProofJob("numpy_", "eager", "cpu", ("float32",), (ProofSubject("dqn", "mlp"),))
    job.write_json(tmp_path / PROOF_FILE, requested.to_json())
    job.prove(tmp_path)
    (proof,) = json.loads((tmp_path / job.PROOFS_FILE).read_text())["proofs"]
    assert not proof["passed"]
    failing = [one for one in proof["rungs"] if not one["passed"]]
    assert {one["rung"].rpartition(": ")[2] for one in failing} == {rung}
    assert {one["error"] for one in failing} == {sys.float_info.max}
    assert not any(Rung.from_json(one).passed for one in failing)


@pytest.mark.parametrize("errors", [(math.nan, 1.0), (1.0, math.nan), (math.inf, math.nan)])
def test_the_largest_of_errors_keeps_a_nan(errors: tuple[float, ...]) -> None:
    assert math.isnan(largest(*errors))
    assert largest(1.0, math.inf, 2.0) == math.inf


def test_versions_are_read_after_the_device_was_used(tmp_path: Path, monkeypatch: Any) -> None:
    used: list[str] = []
    right = numpy_.make

    def make(*args: Any) -> Any:
        used.append("cuda")
        return right(*args)

    def facts() -> dict[str, Any]:
        return {"versions": {"numpy": np.__version__, **dict.fromkeys(used, "13.0")}}

    monkeypatch.setattr(numpy_, "make", make)
    monkeypatch.setattr(numpy_, "facts", facts)
    requested = ProofJob("numpy_", "eager", "cpu", ("float64",), (ProofSubject("dqn", "mlp"),))
    job.write_json(tmp_path / PROOF_FILE, requested.to_json())
    job.prove(tmp_path)
    assert '"cuda": "13.0"' in (tmp_path / job.PROOFS_FILE).read_text()


def test_a_backend_is_its_file_and_those_it_imports_beside_it(tmp_path: Path) -> None:
    main, beside = tmp_path / "fast_.py", tmp_path / "copies.py"
    beside.write_text("x = 1\n")
    main.write_text("import os\nfrom rldyno_rig.backends.copies import x\n")
    assert identity.backend_files(main) == [main, beside]
    before = identity.hashes(str(main))["backend_sha256"]
    beside.write_text("x = 2\n")
    assert identity.hashes(str(main))["backend_sha256"] != before


def test_files_beside_a_backend_are_followed_to_the_last_and_taken_once(tmp_path: Path) -> None:
    main, maths, copies = (tmp_path / name for name in ("fast_.py", "maths.py", "copies.py"))
    main.write_text("from rldyno_rig.backends.maths import (\n    y,\n)\n")
    maths.write_text("from rldyno_rig.backends.copies import x\nfrom rldyno_rig.backends.maths import y\n")
    copies.write_text("from rldyno_rig.backends.maths import y\n")
    assert identity.backend_files(main) == [main, maths, copies]


def test_an_exception_names_the_rung_before_it_and_the_backends_own_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bad_clip(model: Any, gradient: Any) -> None:
        np.reshape(gradient, (3, -5))

    monkeypatch.setattr(numpy_, "clip", bad_clip)
    proof = job._prove(numpy_, dataclasses.replace(JOB, device="cpu"), ProofSubject("classifier", "mlp"))
    assert proof["error"].startswith("ValueError: ")
    assert "float64, last rung reached: forward, numpy_.py line" in proof["error"]
    assert "in grads" in proof["error"]


def test_an_exception_does_not_hide_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    right = numpy_.Learner.grads
    monkeypatch.setattr(numpy_.Learner, "grads", lambda self, batch: right(self, batch)[:2])
    proof = job._prove(numpy_, dataclasses.replace(JOB, device="cpu"), ProofSubject("classifier", "mlp"))
    assert "not a tuple of loss, gradients and clipped gradients" in proof["error"]


def test_a_rung_is_json_also_where_its_error_is_a_number_of_numpy() -> None:
    rung = Rung("loop", "float64", np.float64(0.0), 1e-10)
    assert json.loads(json.dumps(rung.to_json()))["passed"] is True


def test_a_proof_may_be_narrowed_to_some_rungs() -> None:
    narrow = dataclasses.replace(JOB, device="cpu", dtypes=("float64",), rungs=("forward", "contract"))
    proof = job._prove(numpy_, narrow, ProofSubject("dqn", "mlp"))
    assert {one["rung"].rpartition(": ")[2] for one in proof["rungs"]} == {"forward", "contract"}
    assert proof["passed"]
