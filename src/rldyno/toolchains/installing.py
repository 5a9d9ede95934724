"""What every build has in common: one process at a time, progress, a log, `ready.json` as its last file."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

from rldyno.errors import Problem
from rldyno.records.locks import LockedError, locked
from rldyno.toolchains.store import READY_FILE, lock_file, size_of, stop, toolchains_dir
from rldyno_rig.contestant import RELEASE_SIGN

_TAIL_LINES = 15
# How many versions on each side of one that does not exist are offered.
_NEAREST = 3
_NO_SUCH_VERSION = re.compile(
    r"satisfies the requirement ([\w.-]+)(?:\[[^]]*\])?==(\S+) .*\(from versions: (?!none\))(.+)\)"
)
# "from versions: none": pip reached no index that knows the package at all.
_NO_NETWORK = ("NewConnectionError", "NameResolutionError", "Max retries exceeded", "(from versions: none)")


@dataclass(frozen=True)
class Progress:
    """What a build is doing: sent about five times a second."""

    name: str
    step: str
    line: str
    """The last line pip wrote."""
    seconds: float
    size_bytes: int
    note: str = ""
    """What the user should still see when the build has ended."""


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Place:
    """Where something is built, and what people call it."""

    name: str
    """Of the toolchain."""
    title: str
    """`the torch toolchain`."""
    setup: str
    """The command that builds it."""
    directory: Path
    log: Path
    has_packages: bool = False
    """Whether the user has added packages."""


class Installation:
    """Runs the commands of one build, and reports at a pace that costs nothing: measuring the size takes at
    most 5 % of the time.
    """

    def __init__(self, place: Place, on_progress: OnProgress) -> None:
        self.place = place
        self.on_progress = on_progress
        self.started = time.monotonic()
        self.size_bytes = 0
        self.measure_at = self.started

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def run(self, command: list[str], step: str, variables: Mapping[str, str] | None = None) -> None:
        place = self.place
        with place.log.open("ab") as log:
            log.write(f"$ {shlex.join(command)}\n".encode())
            log.flush()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PIP_USER": "0", "PYTHONUNBUFFERED": "1", **(variables or {})},
            )
            try:
                while process.poll() is None:
                    self._report(step)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(0.2)
            finally:
                if process.poll() is None:
                    stop(process.pid)
                process.wait()
        if process.returncode != 0:
            raise _failure(place, step)

    def _report(self, step: str) -> None:
        now = time.monotonic()
        if now >= self.measure_at:
            self.size_bytes = size_of(self.place.directory)
            after = time.monotonic()
            self.measure_at = after + max(1.0, 20 * (after - now))
        line = (_tail(self.place.log, 1) or [""])[0].strip()
        self.on_progress(Progress(self.place.name, step, line, self.seconds, self.size_bytes))


def _failure(place: Place, step: str) -> Problem:
    log = place.log.read_text(errors="replace")
    whole = f"whole log: {place.log}"
    unknown = _NO_SUCH_VERSION.search(log)
    if unknown:
        name, version, known = unknown.groups()
        return Problem(
            f"{place.title} could not be built: pip finds no {name} {version} for this Python and machine",
            detail=whole,
            fix=f"choose from: {', '.join(_around(version, known.split(', ')))}; "
            "if it needs an older Python, install that, too",
            code=1,
        )
    return Problem(
        f"{place.title} could not be built: {step} failed",
        detail="\n".join([*_tail(place.log, _TAIL_LINES), whole]),
        fix=fix_for(log, place),
        code=1,
    )


def _around(version: str, known: list[str]) -> list[str]:
    """Of the versions that an index has, in its order, the nearest on both sides."""
    numbers = [(Version(text), text) for text in known]
    below = [text for number, text in numbers if number < Version(version)]
    above = [text for number, text in numbers if number > Version(version)]
    return [*below[-_NEAREST:], *above[:_NEAREST]]


def fix_for(log: str, place: Place) -> str:
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return "free some disk space, or set RLDYNO_CACHE_DIR to a directory on a larger disk"
    if "ensurepip" in log and "pip install" not in log:
        return "install Python's venv module (Debian, Ubuntu: apt install python3-venv)"
    if "is not a supported wheel on this platform" in log:
        return "give a wheel that was built for this Python, operating system and processor"
    if "ResolutionImpossible" in log and RELEASE_SIGN in place.name:
        return (
            "this release needs other versions than the pins: add a rule to `[versions]` (docs/versions.md)"
        )
    if "ResolutionImpossible" in log and place.has_packages:
        return "choose versions of your packages that work with the pins of this toolchain"
    if any(sign in log for sign in _NO_NETWORK):
        return (
            "check the network or the proxy, or install from a directory of wheels: "
            f'{place.setup} --pip-args "--no-index --find-links DIR"'
        )
    return (
        f"read the lines above; `{place.setup}` tries again, --pip-args passes arguments on, "
        f"--toolchain {place.name}=PYTHON uses an interpreter that has it already"
    )


def write_ready(directory: Path, ready: Mapping[str, Any]) -> None:
    """The last step: from now on the build counts."""
    partial = directory / (READY_FILE + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        json.dump(ready, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(directory / READY_FILE)


@contextlib.contextmanager
def sole_builder(place: Place, on_progress: OnProgress) -> Iterator[None]:
    """Hold the lock of what is built; while another process holds it, say that this one waits."""
    started = time.monotonic()
    with _problems_of_the_disk(place), contextlib.ExitStack() as held:
        place.log.parent.mkdir(parents=True, exist_ok=True)
        place.directory.parent.mkdir(parents=True, exist_ok=True)
        while True:
            try:
                held.enter_context(locked(lock_file(place.directory), patience_s=0.2))
                break
            except LockedError as busy:
                waited = time.monotonic() - started
                builder = f"waiting: another process builds it ({busy})"
                on_progress(Progress(place.name, builder, "", waited, 0))
        yield


@contextlib.contextmanager
def _problems_of_the_disk(place: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise Problem(
            f"cannot build {place.title} in {toolchains_dir()}: {error.strerror or error}",
            fix="set RLDYNO_CACHE_DIR to a directory "
            + ("on a disk with more space" if full else "you can write to"),
            code=1,
        ) from error


def _tail(path: Path, lines: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.replace("\r", "\n").splitlines() if line.strip()][-lines:]
