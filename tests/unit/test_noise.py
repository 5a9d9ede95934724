"""The noise score from its parts, against a machine made of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldyno.machine.facts import Calibration
from rldyno.machine.noise import (
    Surroundings,
    best_calibration,
    frequency_mhz,
    judged_by,
    keep_calibration,
    noise_figures,
    quickest_calibrations,
)
from rldyno.probe.tree import CpuTimes

QUIET = Surroundings("here", Calibration(1_000, 0.0), 1_000, 2_500.0)
# Four seconds of a CPU, two of them busy.
TIMES = CpuTimes(10.0, 100.0, 1.0), CpuTimes(12.0, 104.0, 1.0)


def outcome(folder: Path, host: str, calibration_ns: int | None) -> None:
    folder.mkdir(parents=True)
    noise = {"host": host, "calibration_ns": calibration_ns}
    (folder / "outcome.json").write_text(json.dumps({"noise": noise}))


def test_a_quiet_machine_scores_zero() -> None:
    found = noise_figures(QUIET, TIMES, cpu_s=2.0)
    assert found["score"] == 0.0
    assert found["reasons"] == {}


@pytest.mark.parametrize(
    ("before", "times", "cpu_s", "score"),
    [
        (QUIET._replace(calibration=Calibration(1_000, 0.07)), TIMES, 2.0, 0.07),
        (QUIET._replace(calibration=Calibration(1_300, 0.0)), TIMES, 2.0, 0.3),  # throttled
        (QUIET._replace(calibration=Calibration(900, 0.0)), TIMES, 2.0, 0.0),
        (QUIET, TIMES, 1.0, 0.25),  # half of the busy time was somebody else's
        (QUIET, (TIMES[0], CpuTimes(12.0, 104.0, 1.4)), 2.0, 0.1),  # a hypervisor took 0.4 s of 4 s
    ],
)
def test_every_disturbance_raises_the_score(
    before: Surroundings, times: tuple[CpuTimes, CpuTimes], cpu_s: float, score: float
) -> None:
    assert noise_figures(before, times, cpu_s)["score"] == pytest.approx(score)


def test_what_cannot_be_seen_is_null_with_a_reason() -> None:
    blind = Surroundings("here", Calibration(1_000, 0.02), None, None)
    found = noise_figures(blind, None, 2.0)
    nothing = ("calibration_slowdown", "steal_percent", "foreign_cpu_percent", "frequency_mhz")
    assert [found[name] for name in nothing] == [None] * 4
    assert set(found["reasons"]) == set(nothing)
    assert found["score"] == 0.02
    no_steal = noise_figures(QUIET, (CpuTimes(1, 2, None), CpuTimes(2, 4, None)), 1.0)
    assert "hypervisor" in no_steal["reasons"]["steal_percent"]


def test_the_best_calibration_is_of_this_machine_and_counts_own_attempts(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    assert best_calibration(mine, "here") is None
    outcome(tmp_path / "a", "here", 1_200)
    outcome(tmp_path / "b", "there", 700)
    outcome(tmp_path / "c", "here", None)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "outcome.json").write_text("{")
    assert best_calibration(mine, "here") == 1_200
    outcome(mine / "attempts" / "1", "here", 1_100)
    assert best_calibration(mine, "here") == 1_100


def test_a_results_directory_keeps_its_best_calibration(tmp_path: Path) -> None:
    mine = tmp_path / "trials" / "mine"
    keep_calibration(mine, "here", 900)
    assert not list(tmp_path.iterdir())  # a lone trial has no results directory to keep it in
    (tmp_path / "manifest.json").write_text("{}")
    keep_calibration(mine, "here", 900)
    keep_calibration(mine, "here", 1_000)
    keep_calibration(mine, "there", 500)
    outcome(tmp_path / "trials" / "other", "here", 100)  # not read: one file is enough
    assert best_calibration(mine, "here") == 900
    assert best_calibration(mine, "there") == 500


def test_frequency_of_the_workers_cpus(tmp_path: Path) -> None:
    for cpu, kilohertz in ((0, "1000000\n"), (1, "3000000\n"), (2, "2000000\n")):
        folder = tmp_path / f"cpu{cpu}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(kilohertz)
    assert frequency_mhz((1, 2), tmp_path) == 2_500.0
    assert frequency_mhz(None, tmp_path) == 2_000.0
    assert frequency_mhz((7,), tmp_path) is None


def test_a_first_trial_on_a_slow_machine_is_judged_by_the_quickest_of_all():
    before = Surroundings("here", Calibration(3_000_000, 0.02), None, None)
    noise = noise_figures(before, None, 0.0)
    assert (noise["calibration_slowdown"], noise["score"]) == (None, 0.02)
    judged = judged_by(noise, {"here": 2_000_000})
    assert (judged["calibration_slowdown"], judged["score"]) == pytest.approx((0.5, 0.52))
    assert "calibration_slowdown" not in judged["reasons"]
    assert judged_by(judged, {"here": 2_000_000}) == judged
    assert judged_by(noise, {"there": 1}) == noise
    assert judged_by({}, {"here": 1}) == {}


def test_a_damaged_file_of_calibrations_judges_nobody(tmp_path: Path):
    assert quickest_calibrations(tmp_path) == {}
    (tmp_path / "calibrations.json").write_text('{"here": null, "there": 5}')
    assert quickest_calibrations(tmp_path) == {"there": 5}
    (tmp_path / "calibrations.json").write_text("{")
    assert quickest_calibrations(tmp_path) == {}
