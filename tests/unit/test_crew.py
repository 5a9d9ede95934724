"""Where the workers of a team compute, and how those below mpiexec are started."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rldyno.probe.nvml
from rldyno.errors import Problem
from rldyno.processes import team
from rldyno.processes.rig import RIG, Runtime
from rldyno.records.seal import altered_files, file_hashes
from rldyno.trial.places import Places
from rldyno.trial.results import RankResult, as_one, decisive
from rldyno.trial.worker import AbsentError
from rldyno_rig.contestant import Contestant
from rldyno_rig.result_file import ANOTHER, WorkerResult
from rldyno_rig.trial_file import Budget, TrialFile

TWO = TrialFile("t", Contestant("numpy", "eager"), "dqn", "CartPole-v1", 0, {}, Budget(), workers=2, cores=2)
ON_GPUS = dataclasses.replace(TWO, device="cuda")


def test_each_worker_gets_cpus_of_its_own() -> None:
    assert TWO.cpus == 4
    places = Places.of(TWO, (1, 2, 5, 7), {})
    assert places.cpus == ((1, 2), (5, 7))
    assert places.to_json(0) == {"worker": [1, 2, 5, 7], "probe": [0], "workers": [[1, 2], [5, 7]]}
    assert Places.of(TWO, None, {}).to_json(None) == {"worker": None, "probe": None}
    with pytest.raises(Problem, match="3 CPUs cannot be divided among 2 workers"):
        Places.of(TWO, (1, 2, 3), {})


@pytest.mark.parametrize(
    ("visible", "shared", "expected"),
    [
        ({}, False, ("0", "1")),
        ({"CUDA_VISIBLE_DEVICES": "2,1"}, False, ("2", "1")),
        ({"CUDA_VISIBLE_DEVICES": "2"}, True, ("2", "2")),
        ({"CUDA_VISIBLE_DEVICES": "2"}, False, None),
    ],
)
def test_each_worker_gets_a_gpu_of_its_own_unless_they_share(
    visible: dict[str, str],
    shared: bool,
    expected: tuple[str, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Nvml:
        NVMLError = RuntimeError
        nvmlDeviceGetCount = staticmethod(lambda: 3)
        nvmlDeviceGetHandleByIndex = staticmethod(lambda index: index)
        nvmlShutdown = staticmethod(lambda: None)

    monkeypatch.setattr(rldyno.probe.nvml, "start_nvml", lambda: (Nvml, None))
    trial = dataclasses.replace(ON_GPUS, share_gpu=shared)
    if expected is None:
        with pytest.raises(AbsentError, match="2 workers need a GPU each, 1 can be seen"):
            Places.of(trial, None, visible)
        return
    places = Places.of(trial, None, visible)
    assert places.gpus == expected
    assert places.variables(1) == {"CUDA_VISIBLE_DEVICES": expected[1]}


# Starts the command of each rank, as mpiexec does, all of them at once.
FAKE_MPIEXEC = """#!{python}
import os, subprocess, sys
ranks, words = [], sys.argv[1 + sys.argv[1:].index("-n"):]
for word in words:
    if word == "-n":
        ranks.append([])
    ranks[-1].append(word)
started = []
for words in ranks:
    words, own = words[2:], dict(os.environ)
    while words[0] == "-env":
        own[words[1]] = words[2]
        words = words[3:]
    started.append(subprocess.Popen([w for w in words if w != ":"], env=own, start_new_session=True))
for process in started:
    process.wait()
"""
FAKE_PYTHON = """#!/bin/sh
echo "rank $RLDYNO_RANK of $RLDYNO_WORKERS on CPU $RLDYNO_CPUS"
[ "$RLDYNO_RANK" = 0 ] || kill -9 $$
"""


def test_ranks_below_mpiexec_leave_word_of_their_end(tmp_path: Path) -> None:
    programs = {"mpiexec": FAKE_MPIEXEC.format(python=sys.executable), "python": FAKE_PYTHON}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    runtime = Runtime(tmp_path / "python", True, {}, mpiexec=tmp_path / "mpiexec")
    posts = [team.Post(rank, tmp_path / f"log{rank}", (rank,)) for rank in range(2)]
    (process,) = team.start_team("train", tmp_path, runtime, posts, time.monotonic_ns())
    process.wait()
    assert [team.noted_exit(tmp_path, rank) for rank in range(2)] == [0, -9]
    assert team.group_below_mpi(tmp_path, 1) is not None
    assert (tmp_path / "log0").read_text() == "rank 0 of 2 on CPU 0\n"
    assert (tmp_path / "log1").read_text().startswith("rank 1 of 2 on CPU 1\n")
    team.tidy(tmp_path)
    assert [path.name for path in (tmp_path / "workers").iterdir()] == ["1"]
    assert team.noted_exit(tmp_path, 1) is None


def test_a_worker_that_cannot_be_pinned_from_outside_pins_itself(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    shown = "import os, runpy, sys; sys.argv = ['x', 'none', '.']\n"
    shown += "try: runpy.run_path({!r}, run_name='__main__')\n"
    shown += "except SystemExit: print(*os.sched_getaffinity(0))"
    done = subprocess.run(
        [sys.executable, "-c", shown.format(str(RIG))],
        env={**os.environ, "RLDYNO_CPUS": str(cpu)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(cpu)]


def result(reason: str = "steps", message: str = "", **values: Any) -> RankResult:
    return RankResult(WorkerResult(reason, message, **values))


def test_the_results_of_all_workers_count() -> None:
    good, nan = result(), result("nan", "the loss became nan")
    assert decisive([good, good]) == 0
    assert decisive([result("nan", ANOTHER), nan]) == 1
    assert decisive([good, RankResult(None, "ended without a result")]) == 1
    one = result(
        memory={"used_bytes": 5, "replay_rows": 2}, device_memory={"used_bytes": None, "reasons": {}}
    )
    both = as_one([one, one])
    assert both is not None
    assert both.memory == {"used_bytes": 10, "replay_rows": 4}
    assert both.device_memory == {"used_bytes": None}


def test_files_of_all_workers_are_hashed(tmp_path: Path) -> None:
    (tmp_path / "workers" / "1").mkdir(parents=True)
    for name in ("result.json", "workers/1/result.json", "workers/1/worker.log", "workers/meeting"):
        (tmp_path / name).write_text(name)
    hashes = file_hashes(tmp_path)
    assert sorted(hashes) == ["result.json", "workers/1/result.json"]
    assert altered_files(tmp_path, hashes) == []
    (tmp_path / "workers" / "1" / "result.json").write_text("{}")
    assert altered_files(tmp_path, hashes) == ["workers/1/result.json was altered"]
    outside = {"workers/1/../../../x.json": "0", "workers/../x.json": "0"}
    assert all("missing" in flaw for flaw in altered_files(tmp_path / "workers", outside))
