"""The prove job: what stops it, what does not, and when a framework reports its versions."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rldyno_rig import identity
from rldyno_rig.backends import numpy_
from rldyno_rig.job_files import PROOF_FILE, ProofJob
from rldyno_rig.proof import job
from rldyno_rig.spec import Params, Spec


def backend(broken: str) -> Any:
    """NumPy, but one precision fails as a GPU's library may."""

    def make(spec: Spec, params: Params, mode: str, device: str, dtype: str) -> numpy_.Learner:
        if dtype == broken:
            raise RuntimeError("not supported\nat length")
        return numpy_.Learner(spec, params, "float32" if dtype == "tf32" else dtype)

    return SimpleNamespace(make=make, INDEX_DTYPE="int64")


JOB = ProofJob("numpy_", "eager", "cuda", ("float64", "float32", "tf32"), (("classifier", "mlp"),))


def test_what_is_not_judged_cannot_fail_a_proof() -> None:
    proof = job._prove(backend(broken="tf32"), JOB, "classifier", "mlp")
    assert proof["passed"]
    assert proof["error"] is None
    assert proof["not_judged"] == {"tf32": "RuntimeError: not supported"}
    assert {rung["dtype"] for rung in proof["rungs"]} == {"float64", "float32"}


def test_what_is_judged_does() -> None:
    proof = job._prove(backend(broken="float32"), JOB, "classifier", "mlp")
    assert not proof["passed"]
    assert proof["error"] == "RuntimeError: not supported"
    assert {rung["dtype"] for rung in proof["rungs"]} == {"float64"}


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
    requested = ProofJob("numpy_", "eager", "cpu", ("float64",), (("dqn", "mlp"),))
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
