"""Placement of workers and the order in which trials start."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.launch.local import Pool, Runner, run_trials
from rldyno.machine.cpus import parse_cpus, place, whole_cores_first
from rldyno.processes.control import CANNOT_WRITE, StopFlag
from rldyno.records.files import Json


def unlimited() -> None:
    """No quota of CPU time."""


def test_whole_cores_come_before_their_second_threads() -> None:
    assert whole_cores_first({0, 1, 2, 3}, lambda cpu: f"{cpu % 2}") == (0, 1, 2, 3)
    assert whole_cores_first({0, 1, 2, 3}, lambda cpu: f"{cpu // 2}") == (0, 2, 1, 3)


@pytest.mark.parametrize(
    ("available", "cores", "jobs", "expected"),
    [
        ((0, 1), 1, 1, (0, (1,))),
        ((0, 1), 2, 1, (None, (0, 1))),
        ((0, 1), 1, 2, (None, (0, 1))),
        ((4, 5, 6, 7), 1, 2, (4, (5, 6, 7))),
        ((3,), 1, 1, (None, (3,))),
    ],
)
def test_the_probe_gets_a_cpu_of_its_own_where_there_is_one(available, cores, jobs, expected) -> None:
    assert place(available, cores, jobs, unlimited) == expected


def test_too_many_cores_or_jobs() -> None:
    with pytest.raises(Problem, match="4 cores are asked for, this process may use 2 CPUs"):
        place((0, 1), 4, quota=unlimited)
    with pytest.raises(Problem, match="3 jobs of 1 core need 3 CPUs") as caught:
        place((0, 1), 1, 3, unlimited)
    assert caught.value.fix == "use --jobs 2"


def test_a_containers_quota_counts_too() -> None:
    """Four CPUs of which two and a half may be busy at a time."""
    assert place((0, 1, 2, 3), 2, quota=lambda: 2.5) == (0, (1, 2, 3))
    assert place((0, 1), 1, quota=lambda: 0.5) == (0, (1,))
    for available in ((0, 1, 2, 3), None):
        with pytest.raises(Problem, match=r"may use 2 CPUs at a time \(CPU quota: 2.5\)"):
            place(available, 3, quota=lambda: 2.5)


def test_cpu_lists() -> None:
    assert parse_cpus("0,2-4") == (0, 2, 3, 4)
    for text in ("", "a", "2-1"):
        with pytest.raises(Problem, match="not a list of CPUs"):
            parse_cpus(text)


class Log:
    """Remembers what was told, and the CPUs in use at each moment."""

    def __init__(self) -> None:
        self.started: list[tuple[str, tuple[int, ...], int | None]] = []
        self.ended_trials: list[str] = []
        self.most_at_once = 0
        self.devices_at_once: list[list[str]] = []

    def start(self, exit_code: int = 0):
        def begin(trial: Json, directory: Path, cpus: tuple[int, ...], probe_cpu: int | None) -> Runner:
            self.started.append((trial["trial"], cpus, probe_cpu))
            errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the Runner)
            errors.write(b"rldyno: no space\nfix: delete something\n")
            process = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.05; exit {exit_code}"])
            return Runner(trial, directory, cpus, process, errors)

        return begin

    def tick(self, running: Iterable[Runner]) -> None:
        busy = [cpu for runner in running for cpu in runner.cpus]
        assert len(busy) == len(set(busy)), "two trials on one CPU"
        self.most_at_once = max(self.most_at_once, len(list(running)))
        self.devices_at_once.append([runner.trial["device"] for runner in running])

    def ended(self, runner: Runner) -> None:
        self.ended_trials.append(runner.trial["trial"])


def trials(*cores: int, device: str = "cpu") -> list[tuple[Json, Path]]:
    return [
        ({"trial": f"t{i}", "cores": count, "device": device}, Path(f"t{i}")) for i, count in enumerate(cores)
    ]


def test_trials_run_in_order_on_disjoint_cpus() -> None:
    log = Log()
    run_trials(trials(1, 2, 1, 1, 3), 2, Pool((1, 2, 3)), 0, log, StopFlag(), log.start())
    assert [trial for trial, _, _ in log.started] == ["t0", "t1", "t2", "t3", "t4"]
    assert [len(cpus) for _, cpus, _ in log.started] == [1, 2, 1, 1, 3]
    assert {probe for _, _, probe in log.started} == {0}
    assert sorted(log.ended_trials) == ["t0", "t1", "t2", "t3", "t4"]
    assert log.most_at_once == 2


def test_one_trial_at_a_time_on_an_accelerator() -> None:
    log = Log()
    run_trials(trials(1, 1, 1, device="cuda"), 3, Pool((0, 1, 2)), None, log, StopFlag(), log.start())
    assert max(len(devices) for devices in log.devices_at_once) == 1
    assert len(log.ended_trials) == 3


def test_without_affinity_trials_still_run() -> None:
    log = Log()
    run_trials(trials(1, 1), 2, Pool(None), None, log, StopFlag(), log.start())
    assert [cpus for _, cpus, _ in log.started] == [(), ()]


def test_a_full_disk_stops_everything() -> None:
    log = Log()
    with pytest.raises(Problem, match=r"^no space$"):
        run_trials(trials(1, 1, 1), 1, Pool((0,)), None, log, StopFlag(), log.start(CANNOT_WRITE))
    assert len(log.started) == 1


def test_a_stop_signal_ends_what_runs_and_starts_nothing_more() -> None:
    log, stop = Log(), StopFlag()
    processes: list[subprocess.Popen[bytes]] = []

    def begin(trial: Json, directory: Path, cpus: tuple[int, ...], probe_cpu: int | None) -> Runner:
        process = subprocess.Popen(["sleep", "60"])
        processes.append(process)
        stop.set = True
        return Runner(trial, directory, cpus, process, tempfile.TemporaryFile())

    with pytest.raises(KeyboardInterrupt):
        run_trials(trials(1, 1), 1, Pool((0,)), None, log, stop, begin)
    assert len(processes) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(processes[0].pid, 0)
