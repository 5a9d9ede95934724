"""Rig processes that climb the ladder, as many at once as there are cores, and what they have found."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus
from rldyno.processes.rig import Runtime, end, ending, failed, start_rig
from rldyno.proofs import store
from rldyno.proofs.certificate import Certificate, Subject
from rldyno.records import files as records
from rldyno.records.scratch import remove_abandoned_scratch, scratch_directory
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.job_files import PROOF_FILE, ProofJob
from rldyno_rig.proof.job import PROOFS_FILE
from rldyno_rig.proof.standard import precisions

# A cold compiler may take minutes for one network, and one job proves up to eight of them.
TIME_LIMIT_S = 3600.0
_TICK_S = 0.05

Json = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """What is proven of each subject; all of it makes a certificate."""

    dtypes: tuple[str, ...] = ()
    """Empty: all of the device."""
    rungs: tuple[str, ...] = ()
    """Empty: all."""

    @property
    def whole(self) -> bool:
        return not (self.dtypes or self.rungs)


def log_path(subject: Subject) -> Path:
    """What the last process of this contestant and network printed in which a proof failed."""
    words = (subject.contestant.file_name, subject.network, subject.device, subject.collective)
    name = "-".join(filter(None, words))
    return cache_dir() / "proofs" / f"{name}.log"


def keep_log(subject: Subject, log: str) -> None:
    path = log_path(subject)
    path.unlink(missing_ok=True)
    if log.strip():
        records.write_atomically(path, log)


def remove_leftovers() -> None:
    """What proofs whose process was killed left in the cache."""
    remove_abandoned_scratch(cache_dir() / "proofs")
    for folder in ("proofs", "certificates"):
        records.remove_abandoned(cache_dir() / folder)


class Climbing(Protocol):
    """Processes that prove subjects, one after the other."""

    interpreter: Interpreter
    broken: Problem | None
    """Why not one proof was made."""
    closed: bool

    @property
    def subject(self) -> Subject | None:
        """The one that is being proven."""

    @property
    def subject_s(self) -> float:
        """How long it has been."""

    def made(self) -> list[Certificate]:
        """Since the last call; once it has ended, of every subject that is left."""

    def close(self) -> None:
        """End what still runs."""


def run_jobs(
    waiting: list[list[Subject]], interpreters: Mapping[str, Interpreter], part: Part
) -> Iterator[list[Climbing]]:
    """A process for each list of subjects, or a team of them. Yields what runs or has just ended, many times
    a second.
    """
    from rldyno.proofs.team_jobs import ClimbingTeam

    running: list[Climbing] = []
    cores = len(available_cpus() or range(os.cpu_count() or 1))
    try:
        while waiting or running:
            # A team runs alone: its workers wait for each other, some of them without giving way.
            while waiting and (not running or (len(running) < cores and not _has_team(waiting[0], running))):
                first = waiting.pop(0)
                kind = ClimbingProcess if first[0].collective is None else ClimbingTeam
                running.append(kind(first, interpreters[first[0].framework], part))
            time.sleep(_TICK_S)
            yield list(running)
            running = [job for job in running if not job.closed]
    finally:
        for job in running:
            job.close()


def _has_team(subjects: list[Subject], running: list[Climbing]) -> bool:
    busy = (job.subject for job in running)
    return any(subject.collective is not None for subject in (subjects[0], *filter(None, busy)))


class ClimbingProcess:
    """Climbs the ladder for all the subjects of one contestant and network, one after the other."""

    def __init__(self, wanted: list[Subject], interpreter: Interpreter, part: Part) -> None:
        self.wanted = wanted
        self.interpreter = interpreter
        self.broken: Problem | None = None
        """Why not one proof was made."""
        self.closed = False
        self._made = 0
        self._home = scratch_directory(cache_dir() / "proofs")
        self.directory = Path(self._home.name)
        first = wanted[0]
        job = ProofJob(
            backend=toolchain(first.framework).backend,
            mode=first.contestant.mode,
            device=first.device,
            dtypes=part.dtypes or precisions(first.device),
            subjects=tuple(subject.proof for subject in wanted),
            rungs=part.rungs,
        )
        records.write_json(self.directory / PROOF_FILE, job.to_json())
        self._began = self._subject_began = time.monotonic()
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("wb") as log:
            runtime = Runtime.of(self.interpreter, 1, self.wanted[0].network)
            return start_rig("prove", self.directory, runtime, stdout=log)

    @property
    def subject(self) -> Subject | None:
        """The one that is being proven."""
        return self.wanted[self._made] if self._made < len(self.wanted) else None

    @property
    def subject_s(self) -> float:
        """How long it has been."""
        return time.monotonic() - self._subject_began

    def made(self) -> list[Certificate]:
        """Since the last call. Once the process has ended, of every subject that is left: those that it did
        not reach hold the reason as their error.
        """
        ended = self._process.poll() is not None or time.monotonic() > self._began + TIME_LIMIT_S
        found = self.directory / PROOFS_FILE
        report = records.read_json(found) if found.exists() else None
        if report is not None:
            proofs = report.pop("proofs")
            new = self._certificates(proofs[self._made :], report)
        else:
            new = []
        return [*new, *self._left(report)] if ended else new

    def _certificates(self, proofs: list[Json], report: Json) -> list[Certificate]:
        subjects = self.wanted[self._made : self._made + len(proofs)]
        self._made += len(proofs)
        if proofs:
            self._subject_began = time.monotonic()
        made_at = records.now_iso()
        return [
            Certificate.from_json({**proof, **report, **subject.to_json(), "made_at": made_at})
            for subject, proof in zip(subjects, proofs, strict=True)
        ]

    def _left(self, report: Json | None) -> list[Certificate]:
        """Of the subjects that an ended process did not reach."""
        code = self._process.poll()
        end(self._process)
        log = (self.directory / "log").read_text(encoding="utf-8", errors="replace")
        if report is None:
            self.broken = failed(f"proving {self.wanted[0].contestant}", code, log, TIME_LIMIT_S)
            hashes = store.code_hashes(self.wanted[0].framework)
            report = {"python": self.interpreter.python, **hashes}
        never: Json = {"error": f"its process ended early: {ending(code, log, TIME_LIMIT_S)}"}
        left = self._certificates([never] * (len(self.wanted) - self._made), report)
        keep_log(self.wanted[0], log)
        self.close()
        return left

    def close(self) -> None:
        end(self._process)
        self._home.cleanup()
        self.closed = True
