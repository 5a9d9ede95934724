"""One command in this process, as a user starts it, and what was wrong with how it ended."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import typer.main

from rldyno import cli
from rldyno.bisection.measuring import ProcessMeasurer
from rldyno.bisection.search import Round
from rldyno.errors import Problem
from rldyno.launch import local
from rldyno.processes.rig import Runtime
from rldyno.session import session
from rldyno.toolchains import catalogue

TOO_LONG_S = 5.0
"""Of CPU time, which a busy machine does not stretch."""
PICTURE_S = 0.3
"""More of it, for every picture that `report --figures` draws."""
BLOCKED_S = 120.0
"""A command that waits for so long, whatever else the machine does, waits for something that never comes."""
PLAIN_CONTROLS = "\n\t\r"
STUDY = """
title = "Fuzz"
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 2
cores = 1
[budget]
steps = 300
"""


@dataclass
class Report:
    cases: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    """By command."""
    endings: Counter[str] = field(default_factory=Counter)
    """By exit code of a command."""
    verdicts: Counter[str] = field(default_factory=Counter)
    """What became of the alterations."""
    slowest_s: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.cases += other.cases
        for mine, others in (
            (self.calls, other.calls),
            (self.endings, other.endings),
            (self.verdicts, other.verdicts),
        ):
            mine.update(others)
        self.slowest_s = max(self.slowest_s, other.slowest_s)
        self.failures += other.failures

    def __str__(self) -> str:
        calls = f"{sum(self.calls.values()):,} calls, slowest {self.slowest_s:.1f} s of CPU time"
        counts = {"alterations": self.verdicts, "calls ended": self.endings, "commands": self.calls}
        lines = [f"{self.cases:,} cases, {calls}, {len(self.failures)} failures"]
        lines += [f"  {title}: {_counted(found)}" for title, found in counts.items() if found]
        return "\n".join(lines)


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))


class BlockedError(BaseException):
    """The command did not end. Not an Exception: no code may take it for its own."""


@dataclass(frozen=True)
class Ended:
    code: int
    output: str


def call(
    arguments: Sequence[str], report: Report, what: str, *, encoding: str = "utf-8", columns: int = 80
) -> Ended:
    """Run a command; a traceback, control characters on the terminal and a long wait are failures."""
    name = " ".join([arguments[0], *(part for part in arguments if part.startswith("-"))])
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True)
    began, code = _cpu_s(), 0
    try:
        with _alone(stream, columns, ["rldyno", *arguments]), _time_limit():
            cli.main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BlockedError:
        code = -1
        report.failures.append(f"{what}: {name}: did not end within {BLOCKED_S:.0f} s")
    except BaseException as error:  # native panics are no Exception
        code = -1
        place = traceback.extract_tb(error.__traceback__)[-1]
        report.failures.append(f"{what}: {name}: {error!r} at {place.filename}:{place.lineno}")
    seconds = _cpu_s() - began
    written: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]  # a BytesIO
    output = written.decode(encoding, errors="replace")
    if output.encode(encoding, errors="replace") != written:
        report.failures.append(f"{what}: {name}: bytes that are no {encoding} reached the terminal")
    report.calls[arguments[0]] += 1
    report.endings["with a traceback" if code < 0 else f"with {code}"] += 1
    report.slowest_s = max(report.slowest_s, seconds)
    if any(not c.isprintable() and ord(c) < 0xA0 and c not in PLAIN_CONTROLS for c in output):
        report.failures.append(f"{what}: {name}: a control character reached the terminal")
    if seconds > TOO_LONG_S + PICTURE_S * _pictures(arguments, output):
        report.failures.append(f"{what}: {name}: took {seconds:.1f} s of CPU time")
    return Ended(code, output)


def _pictures(arguments: Sequence[str], output: str) -> int:
    return sum(map(int, re.findall(r"(\d+) files", output))) if "svg" in arguments else 0


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextlib.contextmanager
def _alone(stream: io.TextIOWrapper, columns: int, argv: list[str]) -> Iterator[None]:
    """Nothing that a command changes in this process lasts."""
    affinity = os.sched_getaffinity(0)
    with (
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ, {"COLUMNS": str(columns)}),
        mock.patch.object(os, "nice"),
    ):
        try:
            yield
        finally:
            os.sched_setaffinity(0, affinity)


@contextlib.contextmanager
def _time_limit() -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise BlockedError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, BLOCKED_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def without_training() -> Iterator[None]:
    """Trials end at once and leave nothing. Interpreters are asked for their packages once only, the command
    line is built and toolchains are read once only: most of the time of a call. Nothing waits for the disk.
    """
    find: Callable[..., Any] = session.find_interpreters
    known: dict[str, Any] = {}

    def find_once(frameworks: Any, overrides: Any, *others: Any) -> Any:
        """Only what was given: nothing is built."""
        names = set(frameworks)
        needs = others[2] if len(others) > 2 else None
        key = str((overrides, needs and {name: sorted(used) for name, used in sorted(needs.items())}))
        if key not in known:
            known[key] = find(overrides or (), overrides, *others)
        found, absent = known[key]
        missing = {name: Problem(f"no {name} here") for name in names - found.keys()}
        return {name: found[name] for name in names & found.keys()}, {**absent, **missing}

    with (
        mock.patch.object(local.LocalLauncher.__init__, "__defaults__", (lambda *_: ["/bin/true"],)),
        mock.patch.object(Runtime, "command", return_value=["/bin/true"]),
        mock.patch.object(
            ProcessMeasurer, "round", lambda _, old, new, number: Round(old, new, 1.0, 1.5 + number % 2)
        ),
        mock.patch.object(session, "find_interpreters", find_once),
        mock.patch.object(cli, "app", typer.main.get_command(cli.app)),
        mock.patch.object(catalogue, "_read_file", functools.cache(catalogue._read_file)),
        mock.patch.object(os, "fsync"),
    ):
        yield
