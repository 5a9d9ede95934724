"""The `prove` job: climb the ladder for a list of specs inside a toolchain, leave the rungs as JSON."""

from __future__ import annotations

import dataclasses
import math
import platform
import traceback
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np

from rldyno_rig import identity
from rldyno_rig.backends import contract
from rldyno_rig.backends.contract import Backend
from rldyno_rig.job_files import PROOF_FILE, ProofJob, ProofSubject, read_json
from rldyno_rig.loading import load_backend
from rldyno_rig.proof.forms import forms
from rldyno_rig.proof.ladder import Climb, summary
from rldyno_rig.proof.rung import WORST
from rldyno_rig.proof.standard import GATE, limits
from rldyno_rig.spec import Params, Spec
from rldyno_rig.training import write_json

PROOFS_FILE = "proofs.json"
BACKENDS = Path(contract.__file__).parent


def prove(directory: Path) -> int:
    """Reads job.json, a `ProofJob`; writes proofs.json."""
    job = ProofJob.from_json(read_json(directory / PROOF_FILE))
    backend = load_backend(job.backend)
    report = Report(directory, backend)
    for subject in job.subjects:
        report.add(_prove(backend, job, subject))
    return 0


class Report:
    """proofs.json, which grows by one proof at a time."""

    def __init__(self, directory: Path, backend: Backend) -> None:
        self._directory, self._backend = directory, backend
        self._content: Dict[str, Any] = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            **identity.hashes(backend.__file__),
            "proofs": [],
        }

    def add(self, proof: Dict[str, Any]) -> None:
        self._content["proofs"].append(proof)
        # Only now: a framework names the libraries of a GPU once it has used it.
        described = self._backend.facts()
        self._content.update(versions=described.pop("versions"), backend=described)
        write_json(self._directory / PROOFS_FILE, self._content)


def _prove(backend: Backend, job: ProofJob, subject: ProofSubject) -> Dict[str, Any]:
    proof: Dict[str, Any] = {**subject.to_json(), "error": None, "not_judged": {}}
    rungs: List[Any] = []
    for dtype in (dtype for dtype in job.dtypes if limits(subject, dtype, many=False)):
        problem = _climb(backend, job, subject, dtype, rungs)
        if problem and GATE[dtype] is None:
            proof["not_judged"][dtype] = problem
        elif problem:
            proof["error"] = problem
            break
    proof.update(summary(rungs))
    proof["passed"] = proof["passed"] and proof["error"] is None and bool(rungs)
    return proof


def _climb(
    backend: Backend, job: ProofJob, subject: ProofSubject, dtype: str, rungs: List[Any]
) -> Optional[str]:
    """Adds the rungs of one precision; what stopped the climb, if something did."""

    def make(spec: Spec, params: Params, dtype: str) -> Any:
        return backend.make(spec, params, job.mode, job.device, dtype)

    climb: Optional[Climb] = None
    last = "none"
    try:
        for variant, spec in forms(subject):
            climb = None
            climb = Climb(spec, make, dtype, backend.INDEX_DTYPE, subject.shape)
            for rung in climb.rungs():
                last = variant + rung.name
                if job.rungs and rung.name not in job.rungs:
                    continue
                rungs.append(dataclasses.replace(rung, name=last, error=written(rung.error)))
    except Exception as problem:
        traceback.print_exc()
        broken = climb.promises.broken if climb else []
        return "; ".join([stopped(problem, dtype, last), *broken])
    return None


def written(error: float) -> float:
    """As JSON can hold it."""
    return error if math.isfinite(error) else WORST


def stopped(problem: Exception, dtype: str, last: str) -> str:
    """What stopped a climb in this precision, after the rung `last`."""
    words = "{}: {}".format(type(problem).__name__, str(problem).strip().split("\n")[0])
    return "{} ({}, last rung reached: {}{})".format(words, dtype, last, _own_frame(problem))


def _own_frame(problem: Exception) -> str:
    """The last line of a backend that the exception passed through: the frames below are the framework's."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == BACKENDS]
    return (
        ", {} line {} in {}".format(Path(own[-1].filename).name, own[-1].lineno, own[-1].name) if own else ""
    )
