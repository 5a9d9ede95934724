from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from rldyno.errors import Problem
from rldyno.results.columns import COLUMNS
from rldyno.results.load import load_results
from rldyno.results.trial_columns import ATARI
from synthetic import TORCH, ZOO, Contestant, Shape, write_results


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_one_row_per_trial_with_derived_figures(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "r"))
    assert len(results.trials) == 3 * 2 * 3
    row = results.trials.row(0, named=True)
    result = json.loads((tmp_path / "r/trials" / row["trial"] / "result.json").read_text())
    assert row["steps_per_s"] == pytest.approx(result["steps"] / (result["train_ns"] / 1e9))
    assert row["startup_s"] == result["train_start_ns"] / 1e9
    assert row["startup_import_s"] == result["startup_ns"]["import"] / 1e9
    assert row["threshold_s"] == result["threshold"]["time_ns"] / 1e9
    assert row["threshold_train_s"] == pytest.approx(row["threshold_s"] - row["startup_s"])
    spent = [row[name] for name in row if name.startswith("phase_") and row[name] is not None]
    assert sum(spent) == pytest.approx(row["train_s"])
    assert row["framework_step_s"] + row["shared_step_s"] == pytest.approx(row["train_s"] / row["steps"])
    spent = result["phases_ns"]
    computed = spent["act"] + spent["transfer"] + spent["update"] + spent["read"]
    assert row["framework_step_s"] == pytest.approx(computed / 1e9 / row["steps"])
    assert row["certificate"] == "valid"
    assert results.title == "Quickstart"


def test_a_threshold_that_was_not_reached_is_null_not_a_number(tmp_path: Path) -> None:
    never = Contestant("numpy:eager", 9000, learns=0)
    row = load_results(write_results(tmp_path / "r", Shape(contestants=[never]))).trials.row(0, named=True)
    assert row["threshold_reached"] is False
    assert row["threshold_s"] is None
    assert row["watched_s"] > 0


def test_noise_is_judged_by_the_quickest_trial_of_all(tmp_path: Path) -> None:
    home = write_results(tmp_path / "r")
    first = min((home / "trials").iterdir())
    edit(first / "outcome.json", noise={"host": "here", "score": 0.1, "calibration_ns": 3_000_000})
    (home / "calibrations.json").write_text('{"here": 2000000}')
    rows = {row["trial"]: row for row in load_results(home).trials.iter_rows(named=True)}
    found = rows[first.name]
    assert (found["noise_score"], found["noise_calibration_slowdown"]) == pytest.approx((0.6, 0.5))


def test_measured_figures_are_found_by_their_path_and_old_records_lack_them(tmp_path: Path) -> None:
    home = write_results(tmp_path / "r")
    first, second = sorted((home / "trials").iterdir())[:2]
    result = json.loads((first / "result.json").read_text())
    transfer = {"to_device_bytes": 10, "to_host_bytes": 20, "put_ns": 30, "read_ns": 40}
    edit(
        first / "outcome.json",
        memory={"after_build_bytes": 5, "growth_bytes_per_s": 2.5, "leak": True},
        noise={"score": 0.3, "foreign_cpu_percent": 25.0, "frequency_mhz": None},
        warnings=["memory leak: it grew", "another"],
        result={**result, "transfer": transfer},
        attempt=3,
    )
    old = json.loads((second / "outcome.json").read_text())
    del old["memory"]
    (second / "outcome.json").write_text(json.dumps(old))
    rows = {row["trial"]: row for row in load_results(home).trials.iter_rows(named=True)}
    row = rows[first.name]
    assert (row["memory_after_build_bytes"], row["memory_growth_bytes_per_s"]) == (5, 2.5)
    assert (row["memory_leak"], row["memory_steady_bytes"], row["cpu_frequency_mhz"]) == (True, None, None)
    assert (row["noise_foreign_cpu_percent"], row["attempt"]) == (25.0, 3)
    assert [row[f"transfer_{name}"] for name in transfer] == [10, 20, 30, 40]
    assert row["warnings"] == "memory leak: it grew; another"
    assert rows[second.name]["memory_leak"] is None
    assert rows[second.name]["warnings"] is None


def test_only_hyper_parameters_that_vary_become_columns(tmp_path: Path) -> None:
    shape = Shape(algorithms=["dqn"], hyper={"batch_size": [32, 64], "hidden": [[64], [128, 128]]}, seeds=1)
    results = load_results(write_results(tmp_path / "r", shape))
    hypers = [name for name in results.trials.columns if name.startswith("hyper.")]
    assert sorted(hypers) == ["hyper.batch_size", "hyper.hidden"]
    assert set(results.trials["hyper.hidden"]) == {"[64]", "[128, 128]"}
    assert not any(name.startswith("hyper.") for name in load_results(write_results(tmp_path / "s")).axes)


def test_values_that_differ_between_tasks_are_no_axis(tmp_path: Path) -> None:
    """PPO's and DQN's defaults differ; that alone varies nothing."""
    results = load_results(
        write_results(tmp_path / "r", Shape(environments=["CartPole-v1", "MountainCar-v0"]))
    )
    assert not any(name.startswith("hyper.") for name in results.trials.columns)


@pytest.mark.parametrize("state", ["valid", "stale", "absent", "failed"])
def test_certificate_states(tmp_path: Path, state: str) -> None:
    shape = Shape(contestants=[Contestant("torch:eager", 3000, certificate=state)], seeds=1)
    trials = load_results(write_results(tmp_path / "r", shape)).trials
    assert set(trials["certificate"]) == {state}
    assert trials["certificate_detail"].is_null().all() == (state == "valid")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"versions": {"numpy": "2.3.1", "torch": "9.9"}}, "proven with torch 1.2.3, ran with 9.9"),
        ({"versions": {"numpy": "2.3.1"}}, "proven with torch 1.2.3, ran with (none)"),
        ({"reference_sha256": "e" * 64}, "the reference or the ladder changed"),
    ],
)
def test_a_certificate_of_other_code_is_stale(tmp_path: Path, change: dict[str, object], words: str) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=1))
    trial = next((root / "trials").iterdir())
    edit(trial / "facts.json", **change)
    row = load_results(root).trials.row(0, named=True)
    assert row["certificate"] == "stale"
    assert words in row["certificate_detail"]


def test_a_certificate_for_the_other_network_does_not_count(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=1))
    trial = next((root / "trials").iterdir()) / "trial.json"
    hyper = json.loads(trial.read_text())["hyper"]
    edit(trial, hyper={**hyper, "convolutions": [[16, 8, 4]]})
    assert load_results(root).trials["certificate"].to_list() == ["absent"]


def test_half_done_directory(tmp_path: Path) -> None:
    results = load_results(write_results(tmp_path / "r", Shape(pending=4)))
    assert len(results.pending) == 4
    assert results.trials["status"].to_list().count("pending") == 4
    assert len(results.ended) == 14


def test_damaged_outcome_is_named_and_the_trial_counts_as_not_ended(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r")
    trial = sorted((root / "trials").iterdir())[0]
    (trial / "outcome.json").write_text('{"status": "do')
    results = load_results(root)
    (flaw,) = results.flaws
    assert flaw.startswith(f"trials/{trial.name}/outcome.json is damaged")
    assert results.pending == (trial.name,)


def test_torn_last_line_is_ignored(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r")
    results = load_results(root)
    trial = results.trials["trial"][0]
    before = len(results.episodes(trial))
    with (root / "trials" / trial / "episodes.csv").open("a") as stream:
        stream.write("999,0,12")
    assert len(results.episodes(trial)) == before
    assert results.samples(trial)["wait_ns"].null_count() == len(results.samples(trial))


def test_foreign_and_empty_directories(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="not a results directory"):
        load_results(tmp_path)
    with pytest.raises(Problem, match=r"no trial in .* has ended yet"):
        load_results(write_results(tmp_path / "r", Shape(pending=18)))
    altered = write_results(tmp_path / "s", Shape())
    for path in altered.glob("trials/*/outcome.json"):
        path.write_text("{")
    with pytest.raises(Problem, match=r"no trial in .* has records that can be used") as raised:
        load_results(altered)
    assert raised.value.fix == f"see all that is wrong: rldyno check {altered}"


def test_absent_frameworks_and_failures_keep_their_reason(tmp_path: Path) -> None:
    trials = load_results(write_results(tmp_path / "r", Shape(contestants=ZOO, algorithms=["dqn"]))).trials
    absent = trials.filter(contestant="theano:graph")
    assert set(absent["reason"]) == {"absent"}
    assert "rldyno setup theano" in absent["message"][0]
    assert trials.filter(reason="crashed")["log_tail"].null_count() == 0


def test_every_empty_measured_column_has_its_reason(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=1))
    trial = next((root / "trials").iterdir())
    blocks = {
        "gpu": None,
        "cpu": {"cycles": None, "threads_peak": 4, "reasons": {"cycles": "no counters here"}},
        "reasons": {"gpu": "the trial runs on the CPU"},
    }
    edit(trial / "outcome.json", **blocks)
    results = load_results(root)
    said = results.reasons[trial.name]
    assert said["cycles"] == "no counters here"
    assert said["gpu_power_mean_w"] == "the trial runs on the CPU"
    assert "threads_peak" not in said
    row = results.trials.row(0, named=True)
    empty = {name for name in COLUMNS if row[name] is None} - SETTINGS
    assert empty == set(said)
    assert results.why_empty("cycles") == "no counters here"
    assert results.why_empty("threads_peak") is None


SETTINGS = {
    "max_episode_steps",
    *(column.name for column in ATARI),
    "caches",
    "stop_return",
    "stop_episodes",
    "warnings",
    "certificate_detail",
    "log_tail",
}
"""Not figures: empty says what it says."""


def test_every_empty_figure_of_every_ended_trial_has_its_reason(tmp_path: Path) -> None:
    never = Contestant("warp:eager", 3000, learns=0.0)
    shape = Shape(contestants=[*ZOO, never], algorithms=["dqn"], pending=2)
    results = load_results(write_results(tmp_path / "r", shape))
    for row in results.ended.iter_rows(named=True):
        empty = {name for name in COLUMNS if row[name] is None} - SETTINGS
        assert empty == set(results.reasons[row["trial"]]), row["trial"]
    failed = results.trials.filter(reason="crashed")["trial"][0]
    said = results.reasons[failed]
    without_result = ("steps", "phase_act_s", "transfer_put_ns", "cpu_s", "peak_rss_bytes")
    assert {said[name] for name in without_result} == {"the worker left no result"}
    late = results.trials.filter(pl.col("threshold_reached").not_())["trial"][0]
    assert results.reasons[late]["threshold_s"] == "the threshold was not reached"


def test_what_a_failed_trial_says_of_itself_stands_for_all_its_figures(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=1))
    trial = next((root / "trials").iterdir())
    edit(trial / "outcome.json", result=None, noise=None, reasons={"result": "killed", "noise": "never ran"})
    said = load_results(root).reasons[trial.name]
    assert said["threshold_s"] == "killed"
    assert {said[name] for name in ("train_s", "steps_per_s", "final_return", "transfer_put_ns")} == {
        "killed"
    }
    assert {said[name] for name in ("noise_score", "calibration_ns", "noise_steal_percent")} == {"never ran"}
    asked = json.loads((trial / "trial.json").read_text())
    edit(trial / "trial.json", budget={**asked["budget"], "stop_return": None})
    assert load_results(root).reasons[trial.name]["threshold_s"] == "the study has no threshold"


def test_shares_by_name_are_one_text(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH], algorithms=["dqn"], seeds=2))
    one, other = sorted((root / "trials").iterdir())
    edit(one / "outcome.json", gpu={"throttle": {"power limit": 0.25}})
    edit(other / "outcome.json", gpu={"throttle": {}})
    assert load_results(root).trials["gpu_throttle"].sort().to_list() == ["none", "power limit 25%"]
