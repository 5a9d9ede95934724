"""Measuring two releases side by side: both are built and proven first, then timed in fresh processes.

A process keeps what chance gave it, such as where its memory lies, and that may change its speed by percents:
hence one round is one new process of each release, timed in turns.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rldyno.bisection.question import STARTUP, Question
from rldyno.bisection.search import Round
from rldyno.errors import Problem
from rldyno.nets.record import Kind
from rldyno.nets.timer import Timer, TimerGone
from rldyno.nets.work import PAGEABLE
from rldyno.nets.workers import start
from rldyno.proofs.certificate import Subject
from rldyno.proofs.prove import prove
from rldyno.toolchains.installing import OnProgress
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import network_kind

PrintLine = Callable[[str], None]


class SkippedError(Exception):
    """A release that cannot be measured, with the reason."""

    def __init__(self, release: str, reason: str) -> None:
        super().__init__(reason)
        self.release = release
        self.reason = reason


class Measurer(Protocol):
    """What a search needs to measure."""

    def round(self, old: str, new: str, number: int) -> Round:
        """Raises SkippedError for a release that cannot be measured."""


class ProcessMeasurer:
    def __init__(
        self,
        question: Question,
        cpus: tuple[int, ...] | None,
        print_line: PrintLine,
        on_progress: OnProgress,
        *,
        verify: bool = True,
    ) -> None:
        self.question = question
        self.benchmark = question.benchmark()
        self.cpus = cpus
        self.print_line = print_line
        self.on_progress = on_progress
        self.verify = verify
        self.ready: dict[str, Interpreter] = {}

    def round(self, old: str, new: str, number: int) -> Round:
        """Old and new in turns, each twice, the one that starts drawn by lot: old, new, new, old."""
        interpreters = {release: self.prepare(release) for release in (old, new)}
        order = [old, new] if random.Random(number).random() < 0.5 else [new, old]
        timers: dict[str, Timer] = {}
        spent: dict[str, list[float]] = {old: [], new: []}
        try:
            for release in order:
                timers[release] = self._start(release, interpreters[release])
                spent[release] += self._warm(release, timers[release])
            if self.question.metric != STARTUP:
                for release in (*order, *reversed(order)):
                    spent[release].append(self._measure(release, timers[release]))
        finally:
            for timer in timers.values():
                timer.close()
        # Of two measurements of one process the shorter one: what interrupts it only adds.
        return Round(old, new, min(spent[old]), min(spent[new]))

    def prepare(self, release: str) -> Interpreter:
        """Its toolchain, built and proven; once for a search."""
        if release not in self.ready:
            contestant = self.question.contestant(release)
            framework = Contestant.parse(contestant).framework
            try:
                self.ready[release] = ensure([framework], on_progress=self.on_progress)[framework]
                if self.verify:
                    self._prove(contestant, release)
            except Problem as problem:
                self.ready.pop(release, None)
                raise SkippedError(release, problem.message) from problem
        return self.ready[release]

    def _prove(self, contestant: str, release: str) -> None:
        kind = network_kind(self.benchmark.nets[0].convolutions)
        subject = Subject.of(contestant, self.question.algorithm, kind, self.question.device)
        interpreter = self.ready[release]
        for made in prove([subject], {interpreter.framework: interpreter}, lambda made: None):
            self.print_line(made.sentence())
            if not made.proven:
                raise SkippedError(release, made.sentence())

    def _start(self, release: str, interpreter: Interpreter) -> Timer:
        (net,) = self.benchmark.nets
        return start(self.benchmark, self.question.contestant(release), net, interpreter, self.cpus)

    def _warm(self, release: str, timer: Timer) -> list[float]:
        """Wait until it is warm; the seconds that took, where they are what is asked for."""
        try:
            ready = timer.ready()
        except TimerGone as gone:
            raise SkippedError(release, str(gone)) from gone
        return [sum(ready["startup_ns"].values()) / 1e9] if self.question.metric == STARTUP else []

    def _measure(self, release: str, timer: Timer) -> float:
        question = self.question
        kind = Kind(question.net, question.metric, question.rows, PAGEABLE)
        try:
            answer = timer.measure(kind, question.seconds)
        except TimerGone as gone:
            raise SkippedError(release, str(gone)) from gone
        if "error" in answer:
            raise SkippedError(release, answer["error"])
        return float(answer["median_ns"]) / 1e9


def default_directory(question: Question, releases: tuple[str, ...]) -> Path:
    """The same for the same question, so that the same command goes on."""
    words = (
        question.framework,
        question.mode,
        question.algorithm,
        question.metric,
        releases[0],
        releases[-1],
    )
    return Path("results") / "-".join(["bisect", *words]).replace("#", "-")
