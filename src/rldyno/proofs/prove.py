"""Prove contestants against the reference, in rig processes, and keep the certificates."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus
from rldyno.processes.rig import Runtime, end, ending, failed, start_rig
from rldyno.proofs import store
from rldyno.proofs.certificate import Certificate, Subject
from rldyno.records import files as records
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import NETWORKS, network_kind
from rldyno_rig.job_files import PROOF_FILE, ProofJob

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.study.plan import Plan

DTYPES = ("float64", "float32")
GPU_DTYPES = (*DTYPES, "tf32")
"""On a GPU the error of TensorFloat-32 is reported too; it has no limit."""
# A cold compiler may take minutes for one network, and one job proves up to eight of them.
TIME_LIMIT_S = 3600.0

Json = dict[str, Any]


def subjects(plan: Plan) -> list[Subject]:
    """What must be proven before the times of a plan are ranked."""
    return sorted(
        {
            Subject.of(cell.contestant, cell.algorithm, network_kind(cell.hyper.convolutions), cell.device)
            for cell in plan.cells
        }
    )


def every_subject(contestants: Iterable[str], device: str) -> list[Subject]:
    """All algorithms, the classifier of `rldyno nets` too, and networks of these contestants."""
    return [
        Subject.of(contestant, algorithm, network, device)
        for contestant in contestants
        for algorithm in LEARNERS
        for network in NETWORKS
    ]


def prove(
    wanted: Iterable[Subject],
    interpreters: Mapping[str, Interpreter],
    on_proven: Callable[[Certificate], None],
    force: bool = False,
) -> list[Certificate]:
    """The certificate of each subject, proving those that have none; contestants side by side.

    Nothing is timed here, so every core may be used. A contestant whose process cannot prove anything does
    not stop the others; a Problem if none of them could.
    """
    certificates: dict[Subject, Certificate] = {}
    missing: dict[tuple[Contestant, str], list[Subject]] = {}
    for subject in wanted:
        found = None if force else store.find(subject, interpreters[subject.framework])
        if found is None:
            missing.setdefault((subject.contestant, subject.device), []).append(subject)
        else:
            certificates[subject] = found
    broken: list[Problem] = []
    for job in _finished_jobs(list(missing.values()), interpreters):
        for certificate in job.certificates():
            store.keep(certificate, job.interpreter)
            certificates[certificate.subject] = certificate
            on_proven(certificate)
        if job.broken:
            broken.append(job.broken)
    if broken and all(certificate.error for certificate in certificates.values()):
        raise broken[0]
    return [certificates[subject] for subject in sorted(certificates)]


def ensure(
    wanted: Sequence[Subject], interpreters: Mapping[str, Interpreter], root: Path, console: Console
) -> None:
    """Prove what has no certificate yet, and keep the certificates beside a study's results."""
    missing = [subject for subject in wanted if store.find(subject, interpreters[subject.framework]) is None]
    if missing:
        names = ", ".join(sorted({str(subject.contestant) for subject in missing}))
        console.print(
            f"proving {names} against the reference (kept until something changes)", highlight=False
        )
    home = root / "certificates"
    home.mkdir(exist_ok=True)

    def print_line(certificate: Certificate) -> None:
        console.print(f"  {certificate.sentence()}", highlight=False, markup=False, soft_wrap=True)

    with console.status("proving") if missing and console.is_terminal else contextlib.nullcontext():
        for certificate in prove(wanted, interpreters, print_line):
            subject = certificate.subject
            name = store.path_of(subject, interpreters[subject.framework]).name
            records.write_json(home / name, certificate.to_json())


def _finished_jobs(
    waiting: list[list[Subject]], interpreters: Mapping[str, Interpreter]
) -> Iterable[_ProofJob]:
    """A job for each list of subjects, as they end; as many at once as there are cores."""
    running: list[_ProofJob] = []
    cores = len(available_cpus() or range(os.cpu_count() or 1))
    try:
        while waiting or running:
            while waiting and len(running) < cores:
                first = waiting.pop(0)
                running.append(_ProofJob(first, interpreters[first[0].framework]))
            time.sleep(0.05)
            for job in [job for job in running if job.ended()]:
                running.remove(job)
                yield job
    finally:
        for job in running:
            job.close()


class _ProofJob:
    """A rig process that climbs the ladder for all the subjects of one contestant."""

    def __init__(self, wanted: list[Subject], interpreter: Interpreter) -> None:
        self.wanted = wanted
        self.interpreter = interpreter
        self.broken: Problem | None = None
        """Why not one proof was made."""
        home = cache_dir() / "proofs"
        home.mkdir(parents=True, exist_ok=True)
        self._home = tempfile.TemporaryDirectory(dir=home)
        self.directory = Path(self._home.name)
        first = wanted[0]
        job = ProofJob(
            backend=toolchain(first.framework).backend,
            mode=first.contestant.mode,
            device=first.device,
            dtypes=DTYPES if first.device == "cpu" else GPU_DTYPES,
            subjects=tuple((subject.algorithm, subject.network) for subject in wanted),
        )
        records.write_json(self.directory / PROOF_FILE, job.to_json())
        self._deadline = time.monotonic() + TIME_LIMIT_S
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("wb") as log:
            return start_rig("prove", self.directory, Runtime.of(self.interpreter, 1), stdout=log)

    def ended(self) -> bool:
        return self._process.poll() is not None or time.monotonic() > self._deadline

    def close(self) -> None:
        end(self._process)
        self._home.cleanup()

    def certificates(self) -> list[Certificate]:
        """Of every subject; those that the process did not reach hold the reason as their error."""
        code = self._process.poll()
        end(self._process)
        log = (self.directory / "log").read_text(encoding="utf-8", errors="replace")
        found = self.directory / "proofs.json"
        report = records.read_json(found) if found.exists() else None
        self._home.cleanup()
        if report is None:
            self.broken = failed(f"proving {self.wanted[0].contestant}", code, log, TIME_LIMIT_S)
            hashes = store.code_hashes(self.wanted[0].framework)
            report = {"python": self.interpreter.python, **hashes, "proofs": []}
        proofs = {(proof["algorithm"], proof["network"]): proof for proof in report.pop("proofs")}
        never: Json = {"error": f"its process ended early: {ending(code, log, TIME_LIMIT_S)}"}
        made_at = records.now_iso()
        return [
            Certificate.from_json(
                {
                    **proofs.get((subject.algorithm, subject.network), never),
                    **report,
                    **subject.to_json(),
                    "made_at": made_at,
                }
            )
            for subject in self.wanted
        ]
