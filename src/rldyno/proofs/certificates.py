"""Certificates: the proof that a contestant computes what the reference computes, kept as long as it is true.

A certificate is filed under a hash of everything it speaks of: contestant, algorithm, network, device, the
backend's file, the reference, and every package version of the interpreter. Change one and it is not found.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rldyno_rig
from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus
from rldyno.processes.rig import Runtime, end, job_content, start_rig
from rldyno.records import files as records
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import identity
from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.hyper import NETWORKS, network_kind

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.study.plan import Plan

DTYPES = ("float64", "float32")
GPU_DTYPES = (*DTYPES, "tf32")
"""On a GPU it is also shown, not judged, what TensorFloat-32 costs."""
# A cold compiler may take minutes for one network, and one job proves up to eight of them.
TIMEOUT_S = 3600.0

Json = dict[str, Any]


@dataclass(frozen=True, order=True)
class Subject:
    """What one certificate speaks of."""

    contestant: str
    algorithm: str
    network: str
    device: str

    @property
    def framework(self) -> str:
        return self.contestant.partition(":")[0]

    @property
    def mode(self) -> str:
        return self.contestant.partition(":")[2]


def subjects(plan: Plan) -> list[Subject]:
    """What must be proven for a plan's times to be published."""
    return sorted(
        {
            Subject(cell.contestant, cell.algorithm, network_kind(cell.hyper.convolutions), cell.device)
            for cell in plan.cells
        }
    )


def every_subject(contestants: Iterable[str], device: str) -> list[Subject]:
    """All algorithms, the classifier of `rldyno nets` too, and networks of these contestants."""
    return [
        Subject(contestant, algorithm, network, device)
        for contestant in contestants
        for algorithm in LEARNERS
        for network in NETWORKS
    ]


def find(subject: Subject, interpreter: Interpreter) -> Json | None:
    """The certificate that is true of this subject now. A proof that broke off is none."""
    path = _path(subject, interpreter)
    found = records.read_json(path) if path.exists() else None
    return None if found is None or found.get("error") else found


def prove(
    wanted: Iterable[Subject],
    interpreters: Mapping[str, Interpreter],
    on_proven: Callable[[Json], None],
    force: bool = False,
) -> list[Json]:
    """The certificate of each subject, proving those that have none; contestants side by side.

    Nothing is timed here, so every core may be used. One whose process cannot prove anything does not keep
    the others from it, unless there are none.
    """
    certificates: dict[Subject, Json] = {}
    missing: dict[tuple[str, str], list[Subject]] = {}
    for subject in wanted:
        found = None if force else find(subject, interpreters[subject.framework])
        if found is None:
            missing.setdefault((subject.contestant, subject.device), []).append(subject)
        else:
            certificates[subject] = found
    waiting = list(missing.values())
    running: list[_ProofJob] = []
    broken: list[Problem] = []
    cores = len(available_cpus() or range(os.cpu_count() or 1))
    try:
        while waiting or running:
            while waiting and len(running) < cores:
                first = waiting.pop(0)
                running.append(_ProofJob(first, interpreters[first[0].framework]))
            time.sleep(0.05)
            for job in [job for job in running if job.ended()]:
                running.remove(job)
                for subject, certificate in job.certificates():
                    certificates[subject] = certificate
                    on_proven(certificate)
                if job.broken:
                    broken.append(job.broken)
    finally:
        for job in running:
            job.close()
    if broken and all(certificate["error"] for certificate in certificates.values()):
        raise broken[0]
    return [certificates[subject] for subject in sorted(certificates)]


def ensure(
    wanted: Sequence[Subject], interpreters: Mapping[str, Interpreter], root: Path, console: Console
) -> None:
    """Prove what has no certificate yet, and keep the certificates beside a study's results."""
    open_ = [subject for subject in wanted if find(subject, interpreters[subject.framework]) is None]
    if open_:
        names = ", ".join(sorted({subject.contestant for subject in open_}))
        console.print(
            f"proving {names} against the reference (kept until something changes)", highlight=False
        )
    home = root / "certificates"
    home.mkdir(exist_ok=True)

    def tell(certificate: Json) -> None:
        console.print(f"  {sentence(certificate)}", highlight=False, markup=False, soft_wrap=True)

    with console.status("proving") if open_ and console.is_terminal else contextlib.nullcontext():
        for certificate in prove(wanted, interpreters, tell):
            subject = subject_of(certificate)
            name = _path(subject, interpreters[subject.framework]).name
            records.write_json(home / name, certificate)


def sentence(certificate: Json) -> str:
    """One line: what was proven, and how closely."""
    what = f"{certificate['contestant']} {certificate['algorithm']} {certificate['network']}"
    if certificate["passed"]:
        return (
            f"{what}: proven, worst float64 error {worst(certificate, 'float64'):.1e}{tf32_cost(certificate)}"
        )
    if certificate["error"]:
        return f"{what}: NOT PROVEN, {certificate['error']}"
    broken = [rung for rung in certificate["rungs"] if not rung["passed"]]
    first = broken[0]
    return (
        f"{what}: NOT PROVEN, {first['rung']} is off by {first['error']:.1e} in {first['dtype']}"
        f" ({len(broken)} rungs of {len(certificate['rungs'])} failed)"
    )


def tf32_cost(certificate: Json) -> str:
    """How far TensorFloat-32 is from the reference, where that was tried."""
    failure = certificate.get("not_judged", {}).get("tf32")
    if failure:
        return f"; TF32 does not work here: {failure[:120]}"
    errors = {rung["rung"]: rung["error"] for rung in certificate["rungs"] if rung["dtype"] == "tf32"}
    if not errors:
        return ""
    forward, trained = errors["forward"], errors["weights after 100"]
    return f"; TF32 is off by {forward:.0e} forward, {trained:.0e} after 100 updates"


def worst(certificate: Json, dtype: str) -> float:
    """Largest error of the rungs that are judged."""
    errors = [
        rung["error"]
        for rung in certificate["rungs"]
        if rung["dtype"] == dtype and rung["tolerance"] is not None
    ]
    return max(errors, default=float("nan"))


def subject_of(certificate: Json) -> Subject:
    return Subject(*(certificate[key] for key in ("contestant", "algorithm", "network", "device")))


class _ProofJob:
    """A rig process that climbs the ladder for all the subjects of one contestant."""

    def __init__(self, wanted: list[Subject], interpreter: Interpreter) -> None:
        self.wanted = wanted
        self.interpreter = interpreter
        self.broken: Problem | None = None
        home = cache_dir() / "proofs"
        home.mkdir(parents=True, exist_ok=True)
        self._home = tempfile.TemporaryDirectory(dir=home)
        self.directory = Path(self._home.name)
        first = wanted[0]
        job = {
            "mode": first.mode,
            "device": first.device,
            "dtypes": DTYPES if first.device == "cpu" else GPU_DTYPES,
            "subjects": [[subject.algorithm, subject.network] for subject in wanted],
        }
        records.write_json(self.directory / "job.json", job_content(first.framework, job))
        self._deadline = time.monotonic() + TIMEOUT_S
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.directory / "log").open("wb") as log:
            return start_rig("prove", self.directory, Runtime.of(self.interpreter, 1), stdout=log)

    def ended(self) -> bool:
        return self._process.poll() is not None or time.monotonic() > self._deadline

    def close(self) -> None:
        end(self._process)
        self._home.cleanup()

    def certificates(self) -> list[tuple[Subject, Json]]:
        """What was proven or refuted, filed.

        What the process never got to, or failed on, is not proven, but tried again the next time: memory or a
        device may have been wanting.
        """
        end(self._process)
        log = (self.directory / "log").read_text(encoding="utf-8", errors="replace")
        found = self.directory / "proofs.json"
        report = records.read_json(found) if found.exists() else None
        self._home.cleanup()
        if report is None:
            self.broken = Problem(
                f"{self.wanted[0].contestant} could not be proven: its process ended before the first proof",
                detail="\n".join(log.splitlines()[-15:]),
                fix="look at the lines above; `rldyno doctor` shows what the toolchain misses",
                code=1,
            )
            hashes = code_hashes(self.wanted[0].framework)
            report = {"python": self.interpreter.python, **hashes, "proofs": []}
        proofs = {(proof["algorithm"], proof["network"]): proof for proof in report.pop("proofs")}
        never = {"passed": False, "rungs": [], "error": "its process ended early: " + _last_line(log)}
        made = []
        for subject in self.wanted:
            proof = proofs.get((subject.algorithm, subject.network), never)
            certificate = {**proof, **report, **subject.__dict__, "made_at": records.now_iso()}
            if not proof["error"]:
                path = _path(subject, self.interpreter)
                path.parent.mkdir(parents=True, exist_ok=True)
                records.write_json(path, certificate)
            made.append((subject, certificate))
        return made


def code_hashes(framework: str) -> dict[str, str]:
    """Fingerprints of the backend, the reference and the rig as they are now."""
    backend = Path(rldyno_rig.__file__).parent / "backends" / f"{toolchain(framework).backend}.py"
    return identity.hashes(str(backend))


def _path(subject: Subject, interpreter: Interpreter) -> Path:
    hashes = code_hashes(subject.framework)
    content = {
        **subject.__dict__,
        "backend": hashes["backend_sha256"],
        "reference": hashes["reference_sha256"],
        "python": interpreter.python,
        "versions": interpreter.versions,
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    name = "-".join(
        (subject.contestant.replace(":", "-"), subject.algorithm, subject.network, subject.device)
    )
    return cache_dir() / "certificates" / f"{name}-{key}.json"


def _last_line(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it printed nothing"
