"""Teams of rig processes that climb the ladder of a collective, one team after the other."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus
from rldyno.machine.devices import HIDDEN, gpu_names
from rldyno.processes.children import signal_group
from rldyno.processes.rig import Runtime, end, ending, failed
from rldyno.processes.team import Post, group_below_mpi, noted_exit, start_team
from rldyno.proofs import store
from rldyno.proofs.certificate import Certificate, Subject
from rldyno.proofs.jobs import TIME_LIMIT_S, Part, keep_log
from rldyno.records import files as records
from rldyno.records.scratch import scratch_directory
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.job_files import PROOF_FILE, ProofJob
from rldyno_rig.proof.job import PROOFS_FILE
from rldyno_rig.proof.standard import TEAM_PRECISIONS, team_sizes
from rldyno_rig.team.names import LOST, home

_GRACE_S = 10.0
"""In which the others say why they end, too, after one has failed."""

Json = dict[str, Any]


class ClimbingTeam:
    """Proves all the subjects of one contestant and collective: a team of each size climbs for all of them.

    An error ends a team, because its workers no longer make the same updates: the next one goes on with the
    subject after it.
    """

    def __init__(self, wanted: list[Subject], interpreter: Interpreter, part: Part) -> None:
        self.wanted, self.interpreter, self._part = wanted, interpreter, part
        self.broken: Problem | None = None
        self.closed = False
        self._home = scratch_directory(cache_dir() / "proofs")
        self._proofs: dict[Subject, list[Json]] = {subject: [] for subject in wanted}
        self._report: Json = {}
        self._log = ""
        self._waiting = [(size, list(wanted)) for size in team_sizes(wanted[0].device)]
        self._count = 0
        self._team = self._next()

    def _next(self) -> _Team:
        size, subjects = self._waiting.pop(0)
        self._count += 1
        directory = Path(self._home.name) / str(self._count)
        directory.mkdir()
        self._began = time.monotonic()
        return _Team(directory, size, subjects, self.interpreter, self._part)

    @property
    def subject(self) -> Subject | None:
        return None if self.closed else self._team.subject

    @property
    def subject_s(self) -> float:
        return time.monotonic() - self._began

    def made(self) -> list[Certificate]:
        """All of them, once the last team has ended."""
        if not self._team.ended():
            return []
        self._take()
        if self._waiting:
            self._team = self._next()
            return []
        certificates = self._certificates()
        keep_log(self.wanted[0], self._log)
        self.close()
        return certificates

    def _take(self) -> None:
        """What the team that has ended leaves, and what the next ones still have to do."""
        team = self._team
        self._report |= team.report()
        proofs = team.proofs()
        for subject, proof in zip(team.subjects, proofs, strict=False):
            self._proofs[subject].append(proof)
        left = team.subjects[len(proofs) :]
        if left or any(proof["error"] for proof in proofs):
            self._log += team.log()
            if left and not (proofs and proofs[-1]["error"]):
                # It failed without a word of rank 0 about this subject.
                self._proofs[left[0]].append({"error": team.failure()})
                left = left[1:]
            if left:
                self._waiting.insert(0, (team.size, left))
        refuted = {subject for subject, found in self._proofs.items() if any(one["error"] for one in found)}
        waiting = ((size, [one for one in some if one not in refuted]) for size, some in self._waiting)
        self._waiting = [(size, some) for size, some in waiting if some]
        team.close()

    def _certificates(self) -> list[Certificate]:
        first = self.wanted[0]
        if not self._report:
            self.broken = failed(f"proving {first.contestant} in a team", 1, self._log, TIME_LIMIT_S)
            self._report = {"python": self.interpreter.python, **store.code_hashes(first.framework)}
        made_at = records.now_iso()
        return [
            Certificate.from_json(
                {**self._report, **_joined(self._proofs[subject]), **subject.to_json(), "made_at": made_at}
            )
            for subject in self.wanted
        ]

    def close(self) -> None:
        self._team.close()
        self._home.cleanup()
        self.closed = True


def _joined(proofs: list[Json]) -> Json:
    """Of teams of several sizes."""
    return {
        "error": next((one["error"] for one in proofs if one["error"]), None),
        "rungs": [rung for one in proofs for rung in one.get("rungs", ())],
    }


class _Team:
    """The processes of one team."""

    def __init__(
        self, directory: Path, size: int, subjects: list[Subject], interpreter: Interpreter, part: Part
    ) -> None:
        self.directory, self.size, self.subjects = directory, size, subjects
        first = subjects[0]
        assert first.collective is not None
        self._deadline = time.monotonic() + TIME_LIMIT_S
        job = ProofJob(
            backend=toolchain(first.framework).backend,
            mode=first.contestant.mode,
            device=first.device,
            dtypes=part.dtypes or TEAM_PRECISIONS,
            subjects=tuple(subject.proof for subject in subjects),
            rungs=part.rungs,
            workers=size,
        )
        records.write_json(directory / PROOF_FILE, job.to_json())
        runtime = Runtime.of(interpreter, 1, first.network, first.collective)
        self._below_mpi = runtime.mpiexec is not None
        cpus = available_cpus()
        # Nothing is timed: workers may share a core.
        places = [None if cpus is None else (cpus[rank % len(cpus)],) for rank in range(size)]
        self._logs = [directory / f"{rank}.log" for rank in range(size)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._absent = ""
        """Why none was started."""
        own: list[dict[str, str]] = [{} for _ in range(size)]
        if first.own_gpus:
            visible = gpu_names(runtime.environment())
            own = [{HIDDEN: name} for name in visible[:size]]
            if len(own) < size:
                self._absent = f"{size} workers need a GPU each, {len(own)} can be seen"
                return
        posts = [Post(rank, self._logs[rank], places[rank], own[rank]) for rank in range(size)]
        self._processes = start_team("prove-team", directory, runtime, posts)

    @property
    def subject(self) -> Subject | None:
        made = len(self.proofs())
        return self.subjects[made] if made < len(self.subjects) else None

    def ended(self) -> bool:
        """All have, or one has failed and the others had time to say why."""
        if all(process.poll() is not None for process in self._processes):
            return True
        if any(self._code(rank) for rank in range(self.size)):
            self._deadline = min(self._deadline, time.monotonic() + _GRACE_S)
        return time.monotonic() > self._deadline

    def report(self) -> Json:
        """What rank 0 says of itself and its code; empty if it said nothing."""
        found = self._said(0)
        found.pop("proofs", None)
        return found

    def proofs(self) -> list[Json]:
        """Those that rank 0 has made. One that it had to give up names who made it do so."""
        proofs: list[Json] = self._said(0).get("proofs", [])
        if proofs and proofs[-1]["error"]:
            proofs[-1]["error"] = self.failure()
        return proofs

    def failure(self) -> str:
        """Of the rank that failed first: the others lost it, or still wait for it."""
        if self._absent:
            return self._absent
        errors: dict[int, tuple[int, str]] = {}
        for rank in range(self.size):
            code, proofs = self._code(rank), self._said(rank).get("proofs") or [{"error": None}]
            error = proofs[-1]["error"] or ending(code, self._printed(rank), TIME_LIMIT_S)
            if code != 0:
                errors[rank] = 2 if code is None else int(LOST in error), error
        first = min(errors, key=lambda rank: errors[rank][0], default=0)
        words = errors[first][1] if errors else "they proved too little"
        return f"with {self.size} workers, worker {first}: {words}"

    def log(self) -> str:
        return self._absent or "".join(
            f"worker {rank} of {self.size}\n{text}\n"
            for rank in range(self.size)
            if (text := self._printed(rank).strip())
        )

    def close(self) -> None:
        if self._below_mpi:
            for rank in range(self.size):
                group = group_below_mpi(self.directory, rank)
                if group is not None and self._code(rank) is None:
                    signal_group(group, 9)
        for process in self._processes:
            end(process)

    def _code(self, rank: int) -> int | None:
        """Exit code of a rank that has ended."""
        if self._below_mpi:
            return noted_exit(self.directory, rank)
        return self._processes[rank].poll()

    def _said(self, rank: int) -> Json:
        path = home(self.directory, rank) / PROOFS_FILE
        return dict(records.read_json(path)) if path.exists() else {}

    def _printed(self, rank: int) -> str:
        log = self._logs[rank]
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
