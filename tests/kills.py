"""Real runs that are killed at random moments, again and again: `python tests/kills.py --help`.

Each case is a tiny study with real workers in a directory of its own. The lab, its process group, a trial
runner or a worker gets SIGKILL after a random time, and the same command goes on. In the end everything must
be there: each trial done, none twice, no record lost or altered, no process and no file left over.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = {seeds}
cores = 1
[budget]
steps = {steps}
"""
LAB, GROUP, RUNNER, WORKER = "lab", "group", "runner", "worker"
KILLS_PER_CASE = 15
PATIENCE_S = 120.0
"""For what takes a second on an idle machine."""
POLL_S = 0.01
TRAINING = 0.6
"""Share of an undisturbed run in which trials run."""


@dataclass
class Report:
    """Counts of all cases; the threads share it."""

    target: int
    kills: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    lives: int = 0
    trials: int = 0
    flaws: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_case(self) -> int | None:
        """Its number; None when enough were killed."""
        with self.lock:
            if self.kills.total() >= self.target:
                return None
            self.cases += 1
            return self.cases

    def add(self, case: Case) -> None:
        with self.lock:
            self.kills += case.kills
            self.lives += case.lives
            self.trials += case.seeds
            self.flaws += [f"case {case.number}: {flaw}" for flaw in case.flaws]

    def __str__(self) -> str:
        victims = ", ".join(f"{count:,} {name}" for name, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total():,} kills ({victims}) in {self.lives:,} runs of {self.cases:,} directories "
            f"with {self.trials:,} trials: {len(self.flaws)} flaws"
        )


class Case:
    """A results directory, and the command that fills it."""

    def __init__(self, number: int, seed: int, home: Path, cpus: Sequence[int], life_s: float) -> None:
        self.number, self.home, self.cpus, self.life_s = number, home, cpus, life_s
        self.random = random.Random(f"{seed} {number}")
        self.out, self.temporary = home / "out", home / "tmp"
        self.temporary.mkdir(parents=True)
        self.seeds = self.random.randint(6, 10)
        self.study = home / "study.toml"
        self.study.write_text(STUDY.format(seeds=self.seeds, steps=300))
        self.repeats = self.random.random() < 0.2
        self.proves = self.random.random() < 0.2
        self.kills: Counter[str] = Counter()
        self.lives = 0
        self.last_run_s = 0.0
        self.flaws: list[str] = []
        self.seen: dict[str, str] = {}
        """Trial → hash of its outcome, once it was done."""

    def start(self) -> subprocess.Popen[bytes]:
        self.lives += 1
        known = (self.out / "manifest.json").exists()
        study = self.out if known and self.random.random() < 0.5 else self.study
        command = [sys.executable, "-m", "rldyno", "run", str(study), "--out", str(self.out)]
        command += ["--no-limits", "--no-report", "--toolchain", f"numpy={sys.executable}"]
        command += ["--max-noise", "0.0001", "--noise-attempts", "2"] if self.repeats else []
        command += [] if self.proves else ["--no-verify"]
        with (self.home / f"life-{self.lives}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self.home,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: os.sched_setaffinity(0, self.cpus),  # noqa: PLW1509 (before exec)
            )

    def environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.temporary), "RLDYNO_CACHE_DIR": str(self.home / "cache")}
        return {**os.environ, **own}

    def run(self, most: int) -> None:
        """Kill it until all is done or it was killed often enough, then let it end, and judge."""
        while self.kills.total() < most and not self.complete():
            self.live(most)
            self.look_after()
        began = time.monotonic()
        code = self.start().wait(PATIENCE_S)
        self.last_run_s = time.monotonic() - began
        if code != 0:
            log = (self.home / f"life-{self.lives}.log").read_text(errors="replace")
            self.flaws.append(f"the last run ended with {code}: {log[-1500:]}")
        self.look_after()
        self.judge()

    def live(self, most: int) -> None:
        """One run, until it is killed or ends by itself; the deaths of runners and workers it outlives."""
        lab = self.start()
        while self.kills.total() < most and lab.poll() is None:
            victim = self.random.choice((LAB, GROUP, RUNNER, WORKER))
            if victim in (LAB, GROUP):
                self.wait(lab, self.random.uniform(0, self.expected_s))
                if lab.poll() is None:
                    (os.kill if victim == LAB else os.killpg)(lab.pid, signal.SIGKILL)
                    self.kills[victim] += 1
                    break
            else:
                self.kill_descendant(lab, victim)
        self.wait(lab, PATIENCE_S)
        if lab.poll() is None:
            self.flaws.append(f"run {self.lives} did not end within {PATIENCE_S:g} s")
            os.killpg(lab.pid, signal.SIGKILL)
            lab.wait()

    def kill_descendant(self, lab: subprocess.Popen[bytes], victim: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while lab.poll() is None and time.monotonic() < deadline:
            found = list(runners_of(lab.pid))
            if victim == WORKER:
                found = [worker for runner in found for worker in children(runner)]
            if found:
                trial_s = self.life_s * TRAINING / self.seeds
                time.sleep(self.random.uniform(0, trial_s / (2 if victim == WORKER else 1)))
                if is_running(found[0]):
                    found[0].kill()
                    self.kills[victim] += 1
                return
            time.sleep(POLL_S)

    @property
    def expected_s(self) -> float:
        """How long the next run would take: its trials, and what comes before and after them."""
        left = 1 - len(self.seen) / self.seeds
        return self.life_s * (1 - TRAINING + TRAINING * left)

    def wait(self, lab: subprocess.Popen[bytes], seconds: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            lab.wait(seconds)

    def complete(self) -> bool:
        return len(self.seen) == self.seeds

    def look_after(self) -> None:
        """What must hold after each run, however it ended."""
        deadline = time.monotonic() + PATIENCE_S / 4
        while (left := processes_of(self.home)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for process in left:
            self.flaws.append(f"after run {self.lives} process {process.pid} still runs")
            process.kill()
        for trial, digest in self.seen.items():
            if digest not in self.digests(trial):
                self.flaws.append(f"after run {self.lives} the outcome of {trial} is lost or another one")
        for file in self.out.glob("trials/*/outcome.json"):
            if json.loads(file.read_bytes())["status"] == "done":
                self.seen.setdefault(file.parent.name, digest_of(file))

    def digests(self, trial: str) -> set[str]:
        """Of the outcome that counts and, where trials are repeated, of those put aside."""
        home = self.out / "trials" / trial
        aside = home.glob("attempts/*/outcome.json") if self.repeats else ()
        return {digest_of(file) for file in (home / "outcome.json", *aside) if file.exists()}

    def judge(self) -> None:
        if len(self.seen) != self.seeds:
            self.flaws.append(f"{len(self.seen)} of {self.seeds} trials are done")
        for file in self.out.glob("trials/*/attempts/*/outcome.json"):
            if json.loads(file.read_bytes())["status"] == "done" and not self.repeats:
                self.flaws.append(f"{file.parents[2].name} was run twice to its end")
        command = [sys.executable, "-m", "rldyno", "check", str(self.out)]
        checked = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            self.flaws.append(f"rldyno check: {checked.stdout}{checked.stderr}")
        hidden = [*self.out.rglob(".*"), *(self.home / "cache").rglob(".*.tmp")]
        hidden += [*self.temporary.glob("rldyno-*/*"), *(self.home / "cache").glob("[np]*/**/work.*")]
        self.flaws += [f"left over: {path.relative_to(self.home)}" for path in hidden]


def digest_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children()
    except psutil.NoSuchProcess:
        return []


def runners_of(lab: int) -> Iterator[psutil.Process]:
    try:
        for child in psutil.Process(lab).children():
            if "rldyno.trial.entry" in child.cmdline():
                yield child
    except psutil.Error:
        return


def is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def processes_of(home: Path) -> list[psutil.Process]:
    """Those that were started for this directory or work in it."""
    found = []
    for process in psutil.process_iter():
        try:
            about = [process.cwd(), *process.cmdline()]
            if any(text.startswith(str(home)) for text in about) and is_running(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill_many(kills: int, jobs: int, seed: int, folder: Path) -> Report:
    """At least so many kills, in `jobs` directories at a time, each on CPUs of its own."""
    report = Report(kills)
    cpus = sorted(os.sched_getaffinity(0))
    own = [cpus[slot::jobs] or [cpus[slot % len(cpus)]] for slot in range(jobs)]

    def work(slot: int) -> None:
        unkilled = Case(-slot, seed, folder / f"unkilled-{slot}", own[slot], 0.0)
        unkilled.run(0)
        report.add(unkilled)
        while (number := report.next_case()) is not None:
            case = Case(number, seed, folder / str(number), own[slot], unkilled.last_run_s)
            left = report.target - report.kills.total()
            case.run(min(KILLS_PER_CASE, max(1, left)))
            report.add(case)
            if not case.flaws:
                shutil.rmtree(case.home)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, range(jobs)))
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=100)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    report = kill_many(given.kills, given.jobs, given.seed, folder)
    print(f"kills: {report}, {time.monotonic() - began:.0f} s")
    for flaw in report.flaws[:50]:
        print(f"  {flaw}")
    if report.flaws:
        print(f"  the directories are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
