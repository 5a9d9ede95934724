"""Verdicts, environment and command of a worker, without starting one."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rldyno.machine.facts import Calibration
from rldyno.machine.noise import Surroundings
from rldyno.probe.hardware import NO_GPU_USED, Hardware
from rldyno.probe.history import History
from rldyno.probe.track import Track
from rldyno.probe.tree import CpuTimes, TaskUsage
from rldyno.processes import team
from rldyno.trial import outcome, worker
from rldyno.trial import runner as trial
from rldyno.trial.outcome import Ending, Measured
from rldyno_rig.trial_file import Conditions

GOOD = {
    "reason": "steps",
    "message": "5000 steps",
    "steps": 5000,
    "train_ns": 10,
    "startup_ns": {"interpreter": 20_000_000, "import": 30_000_000},
    "phases_ns": {},
    "memory": {"after_import_bytes": 60 * 2**20},
}


class NoCounter:
    reasons: ClassVar[dict[str, str]] = {"cpu_energy_joules": "no counter"}


def rusage(maxrss: int, utime: float = 1.0, stime: float = 0.25) -> SimpleNamespace:
    return SimpleNamespace(ru_utime=utime, ru_stime=stime, ru_maxrss=maxrss, ru_nvcsw=30, ru_nivcsw=4)


def measured(**changes: Any) -> Measured:
    probe = SimpleNamespace(
        peak_rss_bytes=100 * 2**20,
        samples=40,
        cpu_ns=1_500_000_000,
        memory=History(),
        peak_threads=3,
        tasks=TaskUsage(),
        tracks=defaultdict(Track),
        tree=SimpleNamespace(reasons={}),
        why=lambda metric: "no reading",
    )
    fields: dict[str, Any] = {
        "wall_ns": 2_000_000_000,
        "usage": rusage(1),
        "probe": probe,
        "hardware": Hardware(NoCounter(), None, NO_GPU_USED),
        "probe_cpu_s": 0.01,
        "surroundings": Surroundings("host", Calibration(1000, 0.05), 800, None, "a CPU"),
        "cpu_times": (CpuTimes(10.0, 100.0, 1.0), CpuTimes(12.0, 104.0, 1.4)),
    }
    return Measured(**{**fields, **changes})


def made(folder: Path, ending: Ending, result: Any = None, **changes: Any) -> dict[str, Any]:
    if result is not None:
        (folder / "result.json").write_text(result if isinstance(result, str) else json.dumps(result))
    (folder / "worker.log").write_text("last words\n")
    return outcome.make_outcome("t", 1, ending, "now", measured(**changes), folder).to_json()


@pytest.mark.parametrize(
    ("exit_code", "result", "status", "reason", "message"),
    [
        (0, GOOD, "done", "steps", "5000 steps"),
        (0, {**GOOD, "reason": "nan", "message": "loss is NaN"}, "failed", "nan", "loss is NaN"),
        (0, None, "failed", "crashed", "ended without a result"),
        (0, "{{{", "failed", "crashed", "ended without a result: result.json is damaged"),
        (0, {**GOOD, "steps": "x"}, "failed", "crashed", "ended without a usable result: result.json has"),
        (0, {**GOOD, "reason": "luck"}, "failed", "crashed", "ended without a usable result: unknown"),
        (3, None, "failed", "crashed", "exited with code 3"),
        (3, GOOD, "failed", "crashed", "exited with code 3"),
        (1, {**GOOD, "reason": "crashed", "message": "ValueError: x"}, "failed", "crashed", "ValueError: x"),
        (4, {"reason": "nan", "message": "ValueError: x"}, "failed", "nan", "crashed after the environment"),
        (-11, GOOD, "failed", "killed", "killed by SIGSEGV"),
        (-9, None, "failed", "killed", "killed by SIGKILL from outside"),
    ],
)  # fmt: skip
def test_verdicts(
    tmp_path: Path, exit_code: int, result: Any, status: str, reason: str, message: str
) -> None:
    found = made(tmp_path, Ending.from_exit(exit_code), result)
    assert (found["status"], found["reason"]) == (status, reason)
    assert found["message"].startswith(message)
    assert (found["log_tail"] is None) == (status == "done")
    assert found["exit_code"] == (exit_code if exit_code >= 0 else None)
    assert found["signal"] == (signal.Signals(-exit_code).name if exit_code < 0 else None)
    json.dumps(found, allow_nan=False)


def test_a_guest_says_itself_how_it_ended(tmp_path: Path) -> None:
    """The rig ends with 1 whatever code the script had."""
    said = {"reason": "crashed", "message": "the script exited with code 3"}
    (tmp_path / "result.json").write_text(json.dumps(said))
    ending = Ending.from_exit(1)
    found = [
        outcome.make_outcome("t", 1, ending, "now", measured(), tmp_path, guest=guest).message
        for guest in (False, True)
    ]
    assert found == [f"exited with code 1: {said['message']}", said["message"]]


def test_memory_hints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = Ending.from_exit(-9)
    assert ": out of memory (it held 100 MiB" in made(tmp_path, ending, out_of_memory=True)["message"]
    monkeypatch.setattr(outcome, "physical_memory_bytes", lambda: 120 * 2**20)
    assert "(out of memory? it held 100 MiB, 83% of" in made(tmp_path, ending)["message"]


def test_each_node_notes_the_cpu_time_of_its_workers(tmp_path: Path) -> None:
    """All of them or nothing."""
    (tmp_path / "workers").mkdir()
    team.note_of_cpu_time(tmp_path, 0).write_text("1500000000\n")
    assert team.noted_cpu_s(tmp_path, 2) is None
    team.note_of_cpu_time(tmp_path, 1).write_text("25000000")
    assert team.noted_cpu_s(tmp_path, 2) is None, "torn"
    team.note_of_cpu_time(tmp_path, 1).write_text("25000000\n")
    assert team.noted_cpu_s(tmp_path, 2) == 1.525
    changes = {"workers": 2, "watched": 1, "far_cpu_s": 1.525}
    found = made(tmp_path, Ending.from_exit(3), GOOD, **changes)
    assert found["cpu_s"] == 1.525
    assert "cpu_s" not in found["reasons"]


def test_figures_of_all_workers_are_unknown_where_some_are_on_other_nodes(tmp_path: Path) -> None:
    found = made(tmp_path, Ending.from_exit(3), GOOD, workers=2, watched=1)
    assert found["probe"]["watched"] == 1
    for name in ("cpu_s", "peak_rss_bytes", "baseline_rss_bytes"):
        assert found[name] is None
        assert found["reasons"][name].startswith("the probe watched 1 of 2 workers")
    assert any("watched 1 of 2 workers" in warning for warning in found["warnings"])
    together = made(tmp_path, Ending.from_exit(3), GOOD, workers=2, watched=2)
    assert together["cpu_s"] == 1.5
    assert not together["warnings"]


def test_figures(tmp_path: Path) -> None:
    found = made(tmp_path, Ending.from_exit(0), GOOD)
    assert found["wall_s"] == 2.0
    assert found["cpu_s"] == 1.5  # the probe saw a child that nobody waited for
    assert found["peak_rss_bytes"] == 100 * 2**20
    assert found["baseline_rss_bytes"] == found["memory"]["after_import_bytes"] == 60 * 2**20
    assert found["probe"] == {"samples": 40, "watched": 1, "cpu_s": 0.01, "core_percent": 0.5}
    noise = found["noise"]
    assert noise["steal_percent"] == pytest.approx(10.0)
    assert noise["foreign_cpu_percent"] == pytest.approx(12.5)  # 2 s busy − 1.5 s of ours, of 4 s
    assert noise["calibration_slowdown"] == pytest.approx(0.25)
    assert noise["score"] == pytest.approx(0.05 + 0.25 + 0.10 + 0.125)
    assert noise["reasons"].keys() == {"gpu", "frequency_mhz"}


def test_kernel_peak_counts_only_above_the_runners_own(tmp_path: Path) -> None:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for theirs, expected in ((own, 100 * 2**20), (own + 10**6, (own + 10**6) * 1024)):
        assert made(tmp_path, Ending.from_exit(0), GOOD, usage=rusage(theirs))["peak_rss_bytes"] == expected


def test_silence_is_broken_by_growth_and_by_touch(tmp_path: Path) -> None:
    path = tmp_path / "progress.csv"
    silence = worker.Silence(path, 1.0)
    start = silence._changed_ns
    assert not silence.too_long(start + 900_000_000)
    assert silence.too_long(start + 1_100_000_000)
    path.write_text("x")
    assert not silence.too_long(start + 1_200_000_000)
    os.utime(path, ns=(1, 1))
    assert not silence.too_long(start + 2_300_000_000)
    assert silence.too_long(start + 3_400_000_000)


def test_a_trial_imports_nothing_heavy() -> None:
    heavy = ("pynvml", "polars", "pydantic", "altair", "jinja2", "typer", "rich", "numpy.ma")
    used = "import sys, rldyno.trial.entry, rldyno.trial.runner; rldyno.trial.runner.calibrate()"
    code = f"{used}; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


@pytest.mark.parametrize(
    ("conditions", "percent", "reason"),
    [
        (Conditions("here", 1.5), 1.5, None),
        (Conditions("there", 1.5), None, "another one"),
        (Conditions("here"), None, "--no-limits"),
        (Conditions(), None, "started without it"),
    ],
)
def test_the_idle_machine_is_the_one_the_run_began_on(
    conditions: Conditions, percent: float | None, reason: str | None
) -> None:
    idle = trial.idle_machine(conditions, "here", 22.0)
    assert (idle.cpu_percent, idle.memory_percent) == (percent, 22.0)
    assert (reason or "") in (idle.cpu_reason or "")
    assert (idle.cpu_reason is None) == (percent is not None)


@pytest.mark.parametrize("exit_code", [0, 3, -9])
def test_every_figure_that_is_missing_says_why(tmp_path: Path, exit_code: int) -> None:
    found = made(tmp_path, Ending.from_exit(exit_code), GOOD if exit_code == 0 else None)
    for name in ("memory", "cpu", "energy", "machine", "noise"):
        missing = {figure for figure, value in found[name].items() if value is None}
        assert missing == set(found[name]["reasons"]), name
    assert found["reasons"]["gpu"] == NO_GPU_USED
    blocks = {name for name, value in found.items() if value is None} - {"log_tail", "exit_code", "signal"}
    assert blocks <= set(found["reasons"])
    assert (found["result"] is None) == ("result" in found["reasons"])


def test_a_worker_of_which_nothing_was_seen_has_no_cpu_time(tmp_path: Path) -> None:
    unseen = measured()
    unseen.probe.cpu_ns = 0
    found = made(tmp_path, Ending.from_exit(0), GOOD, usage=None, probe=unseen.probe)
    assert found["cpu_s"] is None
    assert found["reasons"]["cpu_s"]


def test_private_memory_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    blind = measured()
    blind.probe.tree.reasons = {"uss_bytes": "denied"}
    trained = {**GOOD, "train_start_ns": 1, "train_ns": 10}
    found = made(tmp_path, Ending.from_exit(0), trained, probe=blind.probe)
    assert found["memory"]["reasons"]["uss_steady_bytes"] == "denied"
    blind.probe.memory.add_uss(0, 5)
    found = made(tmp_path, Ending.from_exit(0), trained, probe=blind.probe)
    assert "second half" in found["memory"]["reasons"]["uss_steady_bytes"]


def test_a_worker_that_never_ran_has_a_reason_for_all() -> None:
    found = outcome.make_outcome("t", 1, Ending.absent("no interpreter"), "now").to_json()
    figures = ("wall_s", "cpu_s", "peak_rss_bytes", "memory", "cpu", "gpu", "energy", "machine", "noise")
    assert {found["reasons"][name] for name in figures} == {"the worker never ran"}
    assert found["warnings"] == []
