"""Runs on a private Slurm of which parts are killed at random: `python tests/slurm_kills.py --help`.

The lab, a node with its jobs, the controller, a single job or the process of a trial ends at a random moment.
A dead node or controller comes back soon, and the same command goes on. In the end everything must be there:
each trial done, none twice, no record lost or altered, no process and no file left over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from kills import POLL_S, STUDY, digest_of, processes_of
from private_slurm import COMMAND, REBOOTED, PrivateSlurm, fetch

LAB, NODE, CONTROLLER, CANCEL, RUNNER = "lab", "node", "controller", "cancelled job", "trial process"
VICTIMS = (LAB, NODE, CONTROLLER, CANCEL, RUNNER)
KILLS_PER_CASE = 10
PATIENCE_S = 400.0
"""For the last run of a case: a lost node is noticed after 20 seconds, a requeued job waits longer."""
LONGEST_PAUSE_S = 4.0
LONGEST_LIFE_S = 15.0
"""Of a lab that is to be killed: it takes seconds to submit anything."""
SETTINGS = ("probe_cpu=false", "lost_after_s=1", "poll_s=0.5", "attempts=50", "time=00:30:00")


@dataclass
class Report:
    kills: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    lives: int = 0
    trials: int = 0
    again: int = 0
    """Attempts that were interrupted."""
    flaws: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        victims = ", ".join(f"{count} {name}" for name, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({victims}) in {self.lives} runs of {self.cases} directories with "
            f"{self.trials} trials, {self.again} attempts interrupted: {len(self.flaws)} flaws"
        )


class Case:
    """A results directory on the private cluster."""

    def __init__(self, number: int, seed: int, home: Path, slurm: PrivateSlurm, report: Report) -> None:
        self.number, self.home, self.slurm, self.report = number, home, slurm, report
        self.random = random.Random(f"{seed} {number}")
        self.out = home / "out"
        self.seeds = self.random.randint(6, 10)
        self.study = home / "study.toml"
        home.mkdir(parents=True)
        self.study.write_text(STUDY.format(seeds=self.seeds, steps=5000))
        self.lives = 0
        self.seen: dict[str, str] = {}
        """Trial → hash of its outcome, once it was done."""

    def start(self, *, detach: bool = False) -> subprocess.Popen[bytes]:
        self.lives += 1
        known = (self.out / "manifest.json").exists()
        study = self.out if known and self.random.random() < 0.5 else self.study
        command = [sys.executable, "-m", "rldyno", "run", str(study), "--out", str(self.out), "--no-verify"]
        command += ["--launcher", "slurm", "--no-report", "--toolchain", f"numpy={sys.executable}"]
        command += [word for setting in SETTINGS for word in ("--slurm", setting)]
        command += ["--detach"] if detach else []
        with (self.home / f"life-{self.lives}.log").open("wb") as log:
            return subprocess.Popen(
                command,
                cwd=self.home,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def environment(self) -> dict[str, str]:
        own = {"TMPDIR": str(self.home / "tmp"), "RLDYNO_CACHE_DIR": str(self.home / "cache")}
        (self.home / "tmp").mkdir(exist_ok=True)
        return {**self.slurm.environment, **own}

    def run(self, most: int) -> int:
        """Kill until all is done or enough was killed, then let it end, and judge; how often was killed."""
        killed = 0
        lab = self.start()
        while killed < most and len(self.seen) < self.seeds:
            time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))
            if lab.poll() is not None:
                lab = self.start(detach=self.random.random() < 0.3)
                continue
            killed += self.kill(self.random.choice(VICTIMS), lab)
            self.look()
        self.finish(lab)
        self.judge()
        self.report.lives += self.lives
        self.report.trials += self.seeds
        return killed

    def kill(self, victim: str, lab: subprocess.Popen[bytes]) -> bool:
        """Whether there was something to kill."""
        if victim == LAB:
            with contextlib.suppress(subprocess.TimeoutExpired):
                lab.wait(self.random.uniform(0, LONGEST_LIFE_S))
                return False
            os.killpg(lab.pid, signal.SIGKILL)
            lab.wait()
        elif victim == NODE:
            node = self.random.choice(self.slurm.nodes)
            self.slurm.kill_node(node)
            time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))
            self.slurm.start_node(node, REBOOTED)
        elif victim == CONTROLLER:
            self.slurm.kill_controller()
            time.sleep(self.random.uniform(0, LONGEST_PAUSE_S))
            self.slurm.start_controller()
        else:
            runners = self.wait_for_trials(lab)
            if not runners:
                return False
            time.sleep(self.random.uniform(0, LONGEST_PAUSE_S / 2))
            chosen = self.random.choice(runners)
            with contextlib.suppress(psutil.Error, RuntimeError, subprocess.SubprocessError):
                if victim == RUNNER:
                    chosen.kill()
                else:
                    variables = chosen.environ()
                    job = f"{variables['SLURM_ARRAY_JOB_ID']}_{variables['SLURM_ARRAY_TASK_ID']}"
                    self.slurm.run([self.slurm.program("scancel"), job])
        self.report.kills[victim] += 1
        return True

    def wait_for_trials(self, lab: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """Processes of trials; none where the lab ends before there are any."""
        deadline = time.monotonic() + LONGEST_LIFE_S
        while lab.poll() is None and time.monotonic() < deadline:
            found = [one for one in self.slurm.processes() if is_trial_of(one, self.out)]
            if found:
                return found
            time.sleep(0.1)
        return []

    def finish(self, lab: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                code = lab.wait(max(1.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(lab.pid, signal.SIGKILL)
                lab.wait()
                self.flaw(f"run {self.lives} did not end within {PATIENCE_S:g} s")
                return
            self.look()
            if (code == 0 and len(self.seen) == self.seeds) or time.monotonic() > deadline:
                break
            time.sleep(1.0)  # the controller may still be starting, or a job of ours may be going on
            lab = self.start()
        if code != 0:
            log = (self.home / f"life-{self.lives}.log").read_text(errors="replace")
            self.flaw(f"the last run ended with {code}: {log[-1500:]}")

    def flaw(self, words: str) -> None:
        self.report.flaws.append(f"case {self.number}: {words}")

    def look(self) -> None:
        """What was done once must stay as it is."""
        for trial, digest in self.seen.items():
            file = self.out / "trials" / trial / "outcome.json"
            if not file.exists() or digest_of(file) != digest:
                self.flaw(f"after run {self.lives} the outcome of {trial} is lost or another one")
        for file in self.out.glob("trials/*/outcome.json"):
            if json.loads(file.read_bytes())["status"] == "done":
                self.seen.setdefault(file.parent.name, digest_of(file))

    def judge(self) -> None:
        self.look()
        if len(self.seen) != self.seeds:
            self.flaw(f"{len(self.seen)} of {self.seeds} trials are done")
        attempts = list(self.out.glob("trials/*/attempts/*"))
        self.report.again += len(attempts)
        for attempt in attempts:
            file = attempt / "outcome.json"
            if file.exists() and json.loads(file.read_bytes())["status"] == "done":
                self.flaw(f"{attempt.parents[1].name} was run twice to its end")
        command = [sys.executable, "-m", "rldyno", "check", str(self.out)]
        checked = subprocess.run(command, env=self.environment(), capture_output=True, text=True, check=False)
        if checked.returncode != 0:
            self.flaw(f"rldyno check: {checked.stdout}{checked.stderr}")
        self.wait_for_processes()
        hidden = [*self.out.rglob(".*"), *(self.home / "cache").rglob(".*.tmp")]
        for path in hidden:
            self.flaw(f"left over: {path.relative_to(self.home)}")

    def wait_for_processes(self) -> None:
        deadline = time.monotonic() + 60.0
        while (left := processes_of(self.home)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for process in left:
            with contextlib.suppress(psutil.Error):
                self.flaw(f"process {process.pid} still runs: {' '.join(process.cmdline())}")
                process.kill()


def is_trial_of(process: psutil.Process, out: Path) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return "rldyno.trial.entry" in words and any(word.startswith(f"{out}/") for word in words)


def kill_many(kills: int, seed: int, folder: Path, slurm: PrivateSlurm) -> Report:
    report = Report()
    done = 0
    while done < kills and len(report.flaws) < 10:
        report.cases += 1
        case = Case(report.cases, seed, folder / f"case-{report.cases}", slurm, report)
        before = len(report.flaws)
        done += case.run(min(KILLS_PER_CASE, kills - done))
        print(f"{done} kills, {len(report.flaws)} flaws", flush=True)
        if len(report.flaws) == before:
            shutil.rmtree(case.home)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    programs = fetch()
    if isinstance(programs, str):
        print(f"{programs}; this enables it: {COMMAND}")
        return 1
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="slurm-kills-"))
    slurm = PrivateSlurm(folder / "slurm", programs)
    try:
        slurm.up()
        report = kill_many(given.kills, given.seed, folder, slurm)
    finally:
        slurm.down()
    left = slurm.processes()
    report.flaws += [f"process {process.pid} of Slurm is left" for process in left]
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
