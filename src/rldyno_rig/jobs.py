"""The jobs of a rig process."""

from __future__ import annotations

from pathlib import Path
from typing import List


def run(arguments: List[str], started_ns: int) -> int:
    """`JOB DIR` with one of the jobs below; the exit code of the process."""
    job, directory = arguments[0], Path(arguments[1])
    if job == "train":
        from rldyno_rig.training import train

        return train(directory, started_ns)
    if job == "guest":
        from rldyno_rig.guest.job import run_guest

        return run_guest(directory, started_ns)
    if job == "fill":
        from rldyno_rig.training import fill

        return fill(directory, started_ns)
    if job == "environments":
        from rldyno_rig.envs.job import try_all

        return try_all(directory)
    if job == "prove":
        from rldyno_rig.proof.job import prove

        return prove(directory)
    if job == "prove-team":
        from rldyno_rig.proof.team_job import prove_team

        return prove_team(directory)
    if job == "time":
        from rldyno_rig.timing import serve

        return serve(directory, started_ns)
    if job == "limits":
        from rldyno_rig.limits.job import find

        return find(directory)
    if job == "usability":
        from rldyno_rig.usability.job import answer

        return answer(directory, started_ns)
    if job == "open":
        from rldyno_rig.open.job import serve as serve_open

        return serve_open(directory)
    raise SystemExit("unknown job {!r}".format(job))
