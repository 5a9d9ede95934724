"""The `prove-team` job: climb the ladder of a team, in one process for each rank; rank 0 leaves the rungs."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Optional

from rldyno_rig.backends.contract import Backend
from rldyno_rig.clock import Clock
from rldyno_rig.job_files import PROOF_FILE, ProofJob, ProofSubject, read_json
from rldyno_rig.loading import load_backend
from rldyno_rig.proof.job import Report, stopped, written
from rldyno_rig.proof.ladder import summary
from rldyno_rig.proof.rung import Rung
from rldyno_rig.proof.standard import TEAM_PRECISIONS
from rldyno_rig.proof.team import TeamClimb
from rldyno_rig.spec import Params, Spec
from rldyno_rig.team.names import home
from rldyno_rig.team.team import PATIENCE_S, Team, join


def prove_team(directory: Path) -> int:
    """Reads job.json, a `ProofJob`; each rank writes proofs.json in its home, where those of rank 0 count.

    The first error ends it: the ranks would no longer make the same updates.
    """
    job = ProofJob.from_json(read_json(directory / PROOF_FILE))
    collective = job.subjects[0].collective
    assert collective is not None
    backend = load_backend(job.backend)
    team = join(job.workers, collective, Clock(), PATIENCE_S)
    report = Report(home(directory, team.rank), backend)
    for subject in job.subjects:
        proof = climb(backend, job, subject, team)
        report.add(proof)
        if proof["error"]:
            return 1
    team.finish()
    return 0


def climb(backend: Backend, job: ProofJob, subject: ProofSubject, team: Team) -> Dict[str, Any]:
    proof: Dict[str, Any] = {**subject.to_json(), "error": None, "not_judged": {}}
    rungs: List[Rung] = []
    for dtype in (dtype for dtype in job.dtypes if dtype in TEAM_PRECISIONS):
        proof["error"] = _climb(backend, job, subject, team, dtype, rungs)
        if proof["error"]:
            break
    proof.update(summary(rungs))
    proof["passed"] = proof["passed"] and proof["error"] is None and bool(rungs)
    return proof


def _climb(
    backend: Backend, job: ProofJob, subject: ProofSubject, team: Team, dtype: str, rungs: List[Rung]
) -> Optional[str]:
    """Adds the rungs of one precision; what stopped this rank, if something did."""

    def make(spec: Spec, params: Params, dtype: str) -> Any:
        return backend.make(spec, params, job.mode, job.device, dtype)

    last = "none"
    try:
        for rung in TeamClimb(subject.algorithm, make, dtype, backend.INDEX_DTYPE, team).rungs():
            last = rung.name
            if not job.rungs or last.rpartition(": ")[2] in job.rungs:
                rungs.append(replace(rung, error=written(rung.error)))
    except Exception as problem:
        traceback.print_exc()
        return stopped(problem, dtype, last)
    return None
