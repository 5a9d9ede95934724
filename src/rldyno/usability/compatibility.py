"""Backward compatibility: which earlier releases of a framework still run the same code, its backend."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from rldyno.errors import Problem
from rldyno.proofs.certificate import Subject
from rldyno.proofs.prove import prove
from rldyno.toolchains.catalogue import Toolchain, toolchain
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno.usability.index import Indexes, IndexFile, all_files, python_tags
from rldyno.usability.process import first_mode, rig
from rldyno.usability.releases import date
from rldyno_rig.contestant import RELEASE_SIGN, Contestant
from rldyno_rig.hyper import MLP
from rldyno_rig.job_files import UsabilityJob

Json = dict[str, Any]
ALGORITHM = "dqn"
ROUNDS = 3
"""Each times the release and the installed one."""

State = Literal["runs", "does not install", "does not run", "computes something else"]
RUNS: State = "runs"


@dataclass(frozen=True)
class TriedRelease:
    version: str
    released: str | None
    state: State
    reason: str | None = None
    """Why it does not run."""
    update_s: float | None = None
    """Of one update on one core, warm."""
    beside_s: float | None = None
    """Of the installed release, measured in turn with it."""

    @staticmethod
    def from_json(values: Json) -> TriedRelease:
        return TriedRelease(**values)

    def to_json(self) -> Json:
        return asdict(self)


def measure(
    chain: Toolchain,
    interpreter: Interpreter,
    package: tuple[str, str],
    indexes: Indexes,
    count: int,
    work: Path,
    say: Callable[[str], None],
) -> Json:
    """`package`: name and installed version. The newest release of each of the `count` series before it."""
    name, installed = package[0], Version(package[1])
    mode = first_mode(chain)
    found: Json = {"asked": count, "mode": mode, "update_s": None, "releases": [], "reason": None}
    files, reason = all_files(indexes, name)
    versions = earlier(files, installed, interpreter.python, count)
    if not versions:
        return {**found, "reason": reason or f"no earlier release of {name} has a file for this Python"}
    installed_s = partial(update_s, interpreter, chain, mode, work)
    tried = []
    for version in versions:
        say(f"{name} {version}")
        released = date(file for file in files if file.version == version)
        tried.append(attempt(chain, version, released, installed_s, work))
    beside = [one.beside_s for one in tried if one.beside_s is not None]
    return {
        **found,
        "update_s": statistics.median(beside) if beside else None,
        "releases": [one.to_json() for one in tried],
        "reason": reason if len(versions) < count else None,
    }


def earlier(files: Sequence[IndexFile], installed: Version, python: str, count: int) -> list[Version]:
    """The newest version of each series (major.minor) before the installed one's, the newest series first.

    Wheels for this Python; source archives where the package has nothing else.
    """
    tags = python_tags(python)
    wheels = [file for file in files if file.pythons is not None and file.pythons & tags]
    newest: dict[tuple[int, ...], Version] = {}
    for version in _final(wheels or [file for file in files if file.pythons is None]):
        series = version.release[:2]
        if series < installed.release[:2]:
            newest[series] = max(version, newest.get(series, version))
    return [newest[series] for series in sorted(newest, reverse=True)[:count]]


def _final(files: Iterable[IndexFile]) -> set[Version]:
    return {file.version for file in files if not file.yanked and not file.version.is_prerelease}


def attempt(
    chain: Toolchain,
    version: Version,
    released: str | None,
    installed_s: Callable[[], float],
    work: Path,
) -> TriedRelease:
    """Install, import and prove it, and time an update, in turn with one of the installed release."""
    name, mode = f"{chain.framework}{RELEASE_SIGN}{version}", first_mode(chain)

    def failed(state: State, reason: str) -> TriedRelease:
        return TriedRelease(str(version), released, state, reason)

    try:
        interpreter = ensure([name])[name]
    except Problem as problem:
        return failed("does not install", problem.message)
    try:
        subject = Subject.of(str(Contestant(name, mode)), ALGORITHM, MLP, "cpu")
        (certificate,) = prove([subject], {name: interpreter}, lambda made: None)
    except Problem as problem:
        return failed("does not run", problem.message)
    if not certificate.proven:
        state: State = "does not run" if certificate.error else "computes something else"
        return failed(state, certificate.sentence())
    rounds = []
    for _ in range(ROUNDS):
        try:
            own_s = update_s(interpreter, toolchain(name), mode, work)
        except RuntimeError as error:
            return failed("does not run", str(error))
        rounds.append((own_s, installed_s()))
    return TriedRelease(
        str(version), released, RUNS, None, *map(statistics.median, zip(*rounds, strict=True))
    )


def update_s(interpreter: Interpreter, chain: Toolchain, mode: str, work: Path) -> float:
    """In a fresh process, on one core."""
    answer = rig(interpreter, chain, UsabilityJob(chain.backend, "update", mode), work, cores=1)
    if answer["error"]:
        raise RuntimeError(answer["error"])
    return float(answer["update_s"])
