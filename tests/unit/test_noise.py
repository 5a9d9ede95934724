"""The noise score from its parts, against a machine made of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rldyno.machine.facts import Calibration
from rldyno.machine.noise import Surroundings, frequency_mhz, noise_of, rescored
from rldyno.probe.tree import CpuTimes
from rldyno.records.calibrations import best_calibrations, collect_calibrations, with_outcomes
from rldyno.records.outcome import Noise, Outcome

QUIET = Surroundings("here", Calibration(1_000, 0.0), 1_000, 2_500.0, "a CPU", "a GPU")
# Four seconds of a CPU, two of them busy.
TIMES = CpuTimes(10.0, 100.0, 1.0), CpuTimes(12.0, 104.0, 1.0)


def outcome(folder: Path, host: str, calibration_ns: int | None) -> None:
    folder.mkdir(parents=True)
    noise = {"host": host, "calibration_ns": calibration_ns}
    (folder / "outcome.json").write_text(json.dumps({"noise": noise}))


def test_a_quiet_machine_scores_zero() -> None:
    found = noise_of(QUIET, TIMES, cpu_s=2.0)
    assert found.score == 0.0
    assert found.reasons == {}


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
    assert noise_of(before, times, cpu_s).score == pytest.approx(score)


def test_what_cannot_be_seen_is_null_with_a_reason() -> None:
    blind = Surroundings("here", Calibration(1_000, 0.02), None, None)
    found = noise_of(blind, None, 2.0)
    nothing = (
        "processor",
        "gpu",
        "calibration_slowdown",
        "steal_percent",
        "foreign_cpu_percent",
        "frequency_mhz",
    )
    assert [getattr(found, name) for name in nothing] == [None] * 6
    assert set(found.reasons) == set(nothing)
    assert found.score == 0.02
    no_steal = noise_of(QUIET, (CpuTimes(1, 2, None), CpuTimes(2, 4, None)), 1.0)
    assert "hypervisor" in no_steal.reasons["steal_percent"]


def test_the_best_calibrations_are_by_machine_and_count_all_attempts(tmp_path: Path) -> None:
    trials = tmp_path / "trials"
    assert collect_calibrations(tmp_path) == {}
    outcome(trials / "a", "here", 1_200)
    outcome(trials / "b", "there", 700)
    outcome(trials / "c", "here", None)
    (trials / "d").mkdir()
    (trials / "d" / "outcome.json").write_text("{")
    assert collect_calibrations(tmp_path) == {"here": 1_200, "there": 700}
    outcome(trials / "a" / "attempts" / "1", "here", 1_100)
    assert collect_calibrations(tmp_path) == {"here": 1_100, "there": 700}
    (tmp_path / "calibrations.json").write_text('{"here": 900}')
    assert collect_calibrations(tmp_path) == {"here": 900, "there": 700}


def test_an_outcome_counts_only_when_it_is_the_best() -> None:
    def calibrated(host: str, ns: int | None) -> Outcome:
        return Outcome(noise=Noise(host=host, calibration_ns=ns))

    best = {"here": 900}
    assert with_outcomes(best, [calibrated("here", 1_000), Outcome()]) == best
    assert with_outcomes(best, [calibrated("here", 800), calibrated("there", 500)]) == {
        "here": 800,
        "there": 500,
    }
    assert best == {"here": 900}


def test_frequency_of_the_workers_cpus(tmp_path: Path) -> None:
    for cpu, kilohertz in ((0, "1000000\n"), (1, "3000000\n"), (2, "2000000\n")):
        folder = tmp_path / f"cpu{cpu}" / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_cur_freq").write_text(kilohertz)
    assert frequency_mhz((1, 2), tmp_path) == 2_500.0
    assert frequency_mhz(None, tmp_path) == 2_000.0
    assert frequency_mhz((7,), tmp_path) is None


def test_a_first_trial_on_a_slow_machine_is_rescored_by_the_shortest_calibration_of_all():
    before = Surroundings("here", Calibration(3_000_000, 0.02), None, None)
    noise = noise_of(before, None, 0.0)
    assert (noise.calibration_slowdown, noise.score) == (None, 0.02)
    later = rescored(noise, {"here": 2_000_000})
    assert (later.calibration_slowdown, later.score) == pytest.approx((0.5, 0.52))
    assert "calibration_slowdown" not in later.reasons
    assert rescored(later, {"here": 2_000_000}) == later
    assert rescored(noise, {"there": 1}) == noise
    assert rescored(Noise(), {"here": 1}) == Noise()


def test_a_damaged_file_of_calibrations_changes_no_score(tmp_path: Path):
    assert best_calibrations(tmp_path) == {}
    (tmp_path / "calibrations.json").write_text('{"here": null, "there": 5}')
    assert best_calibrations(tmp_path) == {"there": 5}
    (tmp_path / "calibrations.json").write_text("{")
    assert best_calibrations(tmp_path) == {}
