"""Certificates in the cache.

A certificate is filed under a hash of everything it is about: contestant, algorithm, network, shape, device,
the backend's files, the reference, each package version of the interpreter, and the variables that the
toolchain sets for that network. If one changes, it is not found.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.processes.rig import RIG
from rldyno.proofs.certificate import ABSENT, FAILED, VALID, Certificate, Subject, read_certificate
from rldyno.records.seal import write_record
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import identity


def find(subject: Subject, interpreter: Interpreter) -> Certificate | None:
    """The certificate that holds for this subject now. A proof that broke off or lacks rungs is none."""
    try:
        found = read_certificate(path_of(subject, interpreter))
    except Problem:  # none, or a damaged one: it is made anew
        return None
    return None if found.error or found.incomplete else found


def state(subject: Subject, interpreter: Interpreter) -> str:
    """valid, failed or absent: whether this very code was proven."""
    found = find(subject, interpreter)
    if found is None:
        return ABSENT
    return VALID if found.proven else FAILED


def keep(certificate: Certificate, interpreter: Interpreter) -> None:
    """One whose proof broke off is not kept: memory or a device may have been short, so it is tried again."""
    if not certificate.error:
        path = path_of(certificate.subject, interpreter)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, certificate.to_json())


def code_hashes(framework: str) -> dict[str, str]:
    """Fingerprints of the backend, the reference and the rig as they are now."""
    return identity.hashes(str(RIG / "backends" / f"{toolchain(framework).backend}.py"))


def _part_versions(subject: Subject, interpreter: Interpreter) -> dict[str, str]:
    """Of what a collective adds to the toolchain."""
    part = interpreter.part_for(subject.collective) if subject.collective else None
    return {} if part is None else part.versions


def path_of(subject: Subject, interpreter: Interpreter) -> Path:
    hashes = code_hashes(subject.framework)
    content = {
        **subject.to_json(),
        "backend": hashes["backend_sha256"],
        "reference": hashes["reference_sha256"],
        "python": interpreter.python,
        "versions": {**interpreter.versions, **_part_versions(subject, interpreter)},
        "variables": toolchain(subject.framework).own_variables(subject.network),
    }
    key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    kind = (subject.collective, subject.shape.key if subject.shape else None)
    words = (subject.contestant.file_name, subject.algorithm, subject.network, subject.device, *kind)
    name = "-".join(filter(None, words))
    return cache_dir() / "certificates" / f"{name}-{key}.json"
