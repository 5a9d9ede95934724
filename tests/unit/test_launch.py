"""Placement of workers and the order in which trials start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.launch.launcher import EndedTrial, Launcher, PreparedTrial, RunningTrial, run_trials
from rldyno.launch.local import LocalLauncher, trial_command
from rldyno.machine.cpus import parse_cpus, place, whole_cores_first
from rldyno.processes.control import CANNOT_WRITE, StopFlag
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile


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
    with pytest.raises(Problem, match="4 cores are requested, this process may use 2 CPUs"):
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
    """A watcher that remembers what happened."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended_trials: list[str] = []
        self.most_at_once = 0
        self.devices_at_once: list[list[str]] = []

    def starting(self, trial: PreparedTrial) -> PreparedTrial:
        self.started.append(trial.id)
        return trial

    def tick(self, running: Sequence[RunningTrial]) -> None:
        self.most_at_once = max(self.most_at_once, len(running))
        self.devices_at_once.append([entry.trial.file.device for entry in running])

    def ended(self, trial: EndedTrial) -> None:
        self.ended_trials.append(trial.trial.id)


def trials(*cores: int, device: str = "cpu") -> list[PreparedTrial]:
    file = TrialFile("", Contestant("numpy", "eager"), "dqn", "CartPole-v1", 0, {}, Budget(1), device=device)
    return [
        PreparedTrial(replace(file, trial=f"t{index}", cores=count), Path(f"t{index}"))
        for index, count in enumerate(cores)
    ]


class Shell:
    """Instead of `rldyno trial`: a shell command. Remembers the CPUs that each trial got."""

    def __init__(self, script: str = "sleep 0.05") -> None:
        self.script = script
        self.cpus: dict[str, tuple[int, ...]] = {}
        self.probe_cpus: set[int | None] = set()

    def __call__(self, trial: PreparedTrial, cpus: tuple[int, ...], probe_cpu: int | None) -> list[str]:
        self.cpus[trial.id] = cpus
        self.probe_cpus.add(probe_cpu)
        return ["/bin/sh", "-c", self.script]


class NoSharedCpus(Log):
    """Fails when two running trials have a CPU in common."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self.shell = shell

    def tick(self, running: Sequence[RunningTrial]) -> None:
        super().tick(running)
        busy = [cpu for entry in running for cpu in self.shell.cpus[entry.trial.id]]
        assert len(busy) == len(set(busy)), "two trials on one CPU"


def test_trials_run_in_order_on_disjoint_cpus() -> None:
    shell = Shell()
    log = NoSharedCpus(shell)
    run_trials(trials(1, 2, 1, 1, 3), LocalLauncher(2, (1, 2, 3), 0, shell), log, StopFlag())
    assert log.started == ["t0", "t1", "t2", "t3", "t4"]
    assert [len(cpus) for cpus in shell.cpus.values()] == [1, 2, 1, 1, 3]
    assert shell.probe_cpus == {0}
    assert sorted(log.ended_trials) == ["t0", "t1", "t2", "t3", "t4"]
    assert log.most_at_once == 2


def test_one_trial_at_a_time_on_an_accelerator() -> None:
    log = Log()
    run_trials(trials(1, 1, 1, device="cuda"), LocalLauncher(3, (0, 1, 2), None, Shell()), log, StopFlag())
    assert max(len(devices) for devices in log.devices_at_once) == 1
    assert len(log.ended_trials) == 3


def test_without_affinity_trials_still_run() -> None:
    shell = Shell()
    run_trials(trials(1, 1), LocalLauncher(2, None, None, shell), Log(), StopFlag())
    assert list(shell.cpus.values()) == [(), ()]


def test_a_local_launcher_can_be_used_again() -> None:
    launcher, log = LocalLauncher(1, (0,), None, Shell()), Log()
    for _ in range(2):
        run_trials(trials(1), launcher, log, StopFlag())
    assert log.ended_trials == ["t0", "t0"]


def test_a_full_disk_stops_everything() -> None:
    log = Log()
    full = Shell(f"echo 'rldyno: no space' >&2; echo 'fix: delete something' >&2; exit {CANNOT_WRITE}")
    with pytest.raises(Problem) as caught:
        run_trials(trials(1, 1, 1), LocalLauncher(1, (0,), None, full), log, StopFlag())
    assert caught.value.message == "no space"
    assert len(log.started) == 1


@pytest.mark.slow
def test_a_stop_signal_ends_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    stop = StopFlag()

    class Stopping(Log):
        def tick(self, running: Sequence[RunningTrial]) -> None:
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
                pass
            stop.set = True

    log = Stopping()
    sleeping = Shell(f"echo $$ > {tmp_path / 'pid'}; exec sleep 60")
    with pytest.raises(KeyboardInterrupt):
        run_trials(trials(1, 1), LocalLauncher(1, (0,), None, sleeping), log, stop)
    assert log.started == ["t0"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_command_names_the_directory_and_the_cpus() -> None:
    (trial,) = trials(2)
    assert trial_command(trial, (1, 2), 0)[1:] == [
        *("-P", "-m", "rldyno.trial.entry", "t0"),
        *("--cpus", "1,2", "--probe-cpu", "0"),
    ]
    assert trial_command(trial, (), None)[1:] == ["-P", "-m", "rldyno.trial.entry", "t0"]


class FakeLauncher:
    """Trials end when they are waited for, without any process."""

    def __init__(self, room: int = 1, exit_code: int = 0) -> None:
        self.room = room
        self.exit_code = exit_code
        self.started: list[RunningTrial] = []
        self.stopped = 0

    def has_room(self, trial: PreparedTrial) -> bool:
        return len(self.started) < self.room

    def start(self, trial: PreparedTrial) -> None:
        self.started.append(RunningTrial(trial))

    def running(self) -> Sequence[RunningTrial]:
        return list(self.started)

    def wait(self, timeout_s: float) -> list[EndedTrial]:
        first = self.started.pop(0)
        return [EndedTrial(first.trial, 1.0, self.exit_code, "rldyno: no space")]

    def stop(self) -> None:
        self.started.clear()
        self.stopped += 1


def test_any_launcher_runs_trials_in_order() -> None:
    launcher: Launcher = FakeLauncher(room=2)
    log = Log()
    run_trials(trials(1, 1, 1, 1), launcher, log, StopFlag())
    assert log.started == log.ended_trials == ["t0", "t1", "t2", "t3"]
    assert log.most_at_once == 2


@pytest.mark.parametrize(("stop", "exit_code"), [(True, 0), (False, CANNOT_WRITE)])
def test_a_launcher_is_stopped_however_the_run_ends(stop: bool, exit_code: int) -> None:
    launcher, log = FakeLauncher(exit_code=exit_code), Log()

    class StopsLater(Log):
        def tick(self, running: Sequence[RunningTrial]) -> None:
            flag.set = stop

    flag, log = StopFlag(), StopsLater()
    with pytest.raises(KeyboardInterrupt if stop else Problem):
        run_trials(trials(1, 1, 1), launcher, log, flag)
    assert log.started == ["t0"]
    assert launcher.stopped == 1


def test_the_watcher_may_complete_a_trial_right_before_its_start() -> None:
    class Completing(Log):
        def starting(self, trial: PreparedTrial) -> PreparedTrial:
            return replace(trial, file=replace(trial.file, trial="completed"))

    log = Completing()
    run_trials(trials(1), FakeLauncher(), log, StopFlag())
    assert log.ended_trials == ["completed"]
