"""A trial runner with a real worker, killed at changes of a file: the next attempt is whole."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from rich.console import Console

from crash import Case
from rldyno.records.attempts import ATTEMPTS
from rldyno.records.trial_records import read_outcome, read_trial_records
from rldyno.session.preparation import find_interpreters, trial_file, write_trial
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan
from rldyno.trial.runner import run_trial
from rldyno_rig.schema import OUTCOME_FILE

STUDY = """
contestants = "numpy:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
[budget]
steps = 300
"""


def trial(folder: Path) -> Case:
    study = folder / "study.toml"
    study.write_text(STUDY)
    (planned,) = make_plan(load_study(study)).trials
    interpreters, _ = find_interpreters(["numpy"], {"numpy": Path(sys.executable)}, None, Console())
    file = trial_file(planned, interpreters["numpy"])

    def prepare(home: Path) -> None:
        (home / "trials" / planned.id).mkdir(parents=True)
        write_trial(home / "trials" / planned.id, file)

    def action(home: Path) -> None:
        assert run_trial(home / "trials" / planned.id, None, None).done

    def after_kill(home: Path) -> list[str]:
        """The kernel ends the worker with its runner."""
        deadline = time.monotonic() + 60
        while (left := workers_in(home / "trials" / planned.id)) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [f"worker {pid} still runs" for pid in left]

    def flaws(home: Path) -> list[str]:
        directory = home / "trials" / planned.id
        found = list(read_trial_records(directory).flaws)
        found += [f"left over: {path.name}" for path in directory.rglob(".*")]
        whole = [attempt for attempt in (directory / ATTEMPTS).glob("*") if (attempt / OUTCOME_FILE).exists()]
        return found + [f"{attempt.name} was done" for attempt in whole if read_outcome(attempt).done]

    return Case(action, flaws, prepare, after_kill)


def workers_in(directory: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
            if (entry / "cwd").readlink() == directory and not ended:
                found.append(int(entry.name))
        except OSError:
            continue
    return found
