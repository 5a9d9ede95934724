"""Trial directories and studies whose workers are tests/workers/fake_worker.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rldyno_rig import hyper, schema
from rldyno_rig.algorithms.dqn import Dqn

FAKE_WORKER = Path(__file__).parents[1] / "workers" / "fake_worker.py"

PATIENCE_S = 120.0
"""For what takes a second on an idle machine: a test must fail for what is wrong, not for other load."""


def fake_interpreter(folder: Path) -> Path:
    """Looks like a Python; asked to train, it becomes the fake worker."""
    script = folder / "fake-python"
    script.write_text(
        "#!/bin/sh\n"
        'case " $* " in\n'
        f'  *" train "*) exec {sys.executable} -X faulthandler {FAKE_WORKER} "$@" ;;\n'
        f'  *) exec {sys.executable} "$@" ;;\n'
        "esac\n"
    )
    script.chmod(0o755)
    return script


def make_trial(folder: Path, behaviour: str, **changes: Any) -> Path:
    """A trial directory whose worker behaves like this."""
    directory = folder / "fake-trial"
    directory.mkdir(parents=True)
    trial = {
        "schema": schema.SCHEMA_VERSION,
        "trial": "fake-trial",
        "contestant": "numpy:eager",
        "framework": "numpy",
        "mode": "eager",
        "algorithm": "dqn",
        "environment": "CartPole-v1",
        "max_episode_steps": None,
        "device": "cpu",
        "cores": 1,
        "workers": 1,
        "dtype": "float32",
        "division": "closed",
        "seed": 0,
        "block": 0,
        "hyper": hyper.to_json(Dqn()),
        "budget": {
            "steps": 100,
            "episodes": None,
            "wall_s": None,
            "stop_return": None,
            "stop_episodes": None,
        },
        "interpreter": str(fake_interpreter(folder)),
        "isolated": True,
        "variables": {"FAKE_WORKER": behaviour},
        "hang_timeout_s": 30.0,
        "sample_hz": 20,
        **changes,
    }
    (directory / schema.TRIAL_FILE).write_text(json.dumps(trial))
    return directory


def rldyno(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S, **options)


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "rldyno", *map(str, arguments)]


def outcome_of(directory: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((directory / schema.OUTCOME_FILE).read_text())
    return value


def wait_until(what: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def workers_in(directory: Path) -> list[int]:
    """Living processes, zombies aside, whose folder is below this one: fake workers and their children."""
    inside = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                folder = (entry / "cwd").readlink()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if folder.is_relative_to(directory.resolve()) and state not in "ZX":
                inside.append(int(entry.name))
    return inside


STUDY = """\
title = "fake"
contestants = ["numpy:eager"]
algorithms = ["dqn"]
environments = ["CartPole-v1"]
seeds = {seeds}

[budget]
steps = 5000
"""


class Lab:
    """`rldyno run` on a study whose workers are fake, with a cache of its own."""

    def __init__(self, folder: Path, seeds: int = 2) -> None:
        self.folder = folder
        self.study = folder / "fake.toml"
        self.study.write_text(STUDY.format(seeds=seeds))
        self.out = folder / "out"
        self.interpreter = fake_interpreter(folder)

    def environment(self, behaviour: str) -> dict[str, str]:
        cache = str(self.folder / "cache")
        return {**os.environ, "FAKE_WORKER": behaviour, "RLDYNO_CACHE_DIR": cache, "COLUMNS": "200"}

    def arguments(self, *extra: str) -> list[str | Path]:
        quick = ["--no-verify", "--no-limits"] + ([] if "--with-report" in extra else ["--no-report"])
        others = [argument for argument in extra if argument != "--with-report"]
        toolchain = f"numpy={self.interpreter}"
        return ["run", self.study, "--out", self.out, *quick, "--toolchain", toolchain, *others]

    def run(self, behaviour: str, *extra: str) -> subprocess.CompletedProcess[str]:
        return rldyno(*self.arguments(*extra), env=self.environment(behaviour))

    def start(self, behaviour: str, *extra: str) -> subprocess.Popen[str]:
        return start(*self.arguments(*extra), env=self.environment(behaviour))

    def trials(self) -> list[Path]:
        return sorted((self.out / "trials").iterdir())

    def worker(self) -> int:
        """Pid of the running worker, once it has begun to train."""
        wait_until(
            lambda: any(self.out.glob(f"trials/*/{schema.PROGRESS_FILE}")) and bool(workers_in(self.out))
        )
        return workers_in(self.out)[0]
