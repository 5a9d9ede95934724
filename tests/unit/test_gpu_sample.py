"""Records of a real GPU, kept in docs/samples: they load, and the tables of docs/gpu.md are made of them."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import polars as pl
import polars.selectors as cs
import pytest

from rldyno.answers.analysis import Analysis
from rldyno.nets import show, tables, work
from rldyno.nets.figures import figures
from rldyno.proofs.certificate import Certificate
from rldyno.records.outcome import Outcome
from rldyno.records.seal import read_record
from rldyno.records.trial_records import read_outcome
from rldyno.results.check import check_directory
from rldyno.results.load import Results, load_results
from rldyno.text.tables import markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"
SAMPLE = DOCS / "samples" / "h200"
# Another study of the same machine, by a version without seals and with other proofs.
OLDER = DOCS.parent / "tests" / "data" / "old_sample"


STUDIES = {"study": {"dqn", "ppo"}, "rainbow-a2c": {"rainbow", "a2c"}}


@functools.cache
def study(name: str = "study") -> Results:
    return load_results(SAMPLE / name)


def networks_table() -> str:
    record = show.read(SAMPLE / "nets")
    return "\n\n".join(markdown(table) for table in tables.paper_tables(record, figures(record)))


def tf32_table() -> str:
    """Seconds for stooke2017's calls, fed from page-locked memory."""
    seconds = {}
    for precision in ("float32", "tf32"):
        for figure in figures(show.read(SAMPLE / "tf32" / precision)):
            net, measure, _, data = figure.kind
            if data == work.PINNED:
                seconds[net, figure.contestant, measure, precision] = figure.paper_seconds.point
    rows = ["| network | contestant | inference, float32 | TF32 | ratio | training, float32 | TF32 | ratio |"]
    rows.append("|---|---|---:|---:|---:|---:|---:|---:|")
    for net in ("small", "large"):
        for contestant in ("torch:cudagraph", "jax:jit"):
            cells = []
            for measure in (work.ACT, work.UPDATE):
                full, short = (seconds[net, contestant, measure, kind] for kind in ("float32", "tf32"))
                cells += [f"{full:.3f} s", f"{short:.3f} s", f"{short / full:.2f}×"]
            rows.append(f"| {net} | {contestant} | {' | '.join(cells)} |")
    return "\n".join(rows)


def training_table() -> str:
    """Medians of the seeds."""
    speeds = "on the CPU, steps/s | on the GPU, steps/s"
    rows = [f"| algorithm | contestant | {speeds} | GPU memory of arrays, MB | to the GPU, MB | GPU, J |"]
    rows.append("|---|---|---:|---:|---:|---:|---:|")
    trials = pl.concat(study(name).trials for name in STUDIES)
    cells = trials.group_by("algorithm", "contestant", "device").agg(cs.numeric().median())
    for (algorithm, contestant), pair in cells.sort("algorithm", "contestant").group_by(
        "algorithm", "contestant", maintain_order=True
    ):
        on = {row["device"]: row for row in pair.iter_rows(named=True)}
        gpu = on["cuda"]
        cpu = f"{on['cpu']['steps_per_s']:,.0f}" if "cpu" in on else "–"
        used, moved = gpu["gpu_framework_used_peak_bytes"] / 1e6, gpu["transfer_to_device_bytes"] / 1e6
        figures = f"{gpu['steps_per_s']:,.0f} | {used:.0f} | {moved:.1f} | {gpu['gpu_energy_joules']:,.0f}"
        rows.append(f"| {algorithm} | {contestant} | {cpu} | {figures} |")
    return "\n".join(rows)


def errors_table() -> str:
    """Relative to float64, over the certificates of the GPU."""
    rows = ["| | forward | weights after 1 update | after 100 |", "|---|---:|---:|---:|"]
    certificates = [
        Certificate.from_json(read_record(path)) for path in SAMPLE.glob("study/certificates/*-cuda-*.json")
    ]
    for dtype, name in (("float32", "float32"), ("tf32", "TensorFloat-32")):
        cells = []
        for rung in ("forward", "weights after 1", "weights after 100"):
            found = [
                item.error
                for certificate in certificates
                for item in certificate.rungs
                if item.dtype == dtype and item.name.rpartition(": ")[2] == rung
            ]
            cells.append(f"{power(min(found))} to {power(max(found))}")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def power(error: float) -> str:
    return f"{error:.0e}".replace("e-0", "e-")


@pytest.mark.parametrize("table", [networks_table, tf32_table, training_table, errors_table])
def test_the_tables_of_the_documentation_are_made_of_the_records(table) -> None:
    page = (DOCS / "gpu.md").read_text(encoding="utf-8")
    for line in table().splitlines():
        # Blanks that align columns, and the rule below the headings, are free.
        assert set(line) <= set("|-: ") or " ".join(line.split()) in page


@pytest.mark.parametrize("name", STUDIES)
def test_a_real_gpu_was_measured(name: str) -> None:
    trials = study(name).trials
    assert set(trials["status"]) == {"done"}
    on_gpu = trials.filter(device="cuda")
    assert set(on_gpu["algorithm"]) == STUDIES[name]
    for column in (
        "gpu_energy_joules",
        "gpu_power_peak_w",
        "gpu_memory_peak_bytes",
        "transfer_to_device_bytes",
    ):
        assert on_gpu[column].null_count() == 0, column
    # A2C trains for a quarter of a second in CUDA graphs.
    unclocked = on_gpu.filter(pl.col("gpu_sm_clock_min_mhz").is_null())
    assert len(unclocked) == (5 if name == "rainbow-a2c" else 0)
    assert all(
        "too short" in study(name).reasons[trial]["gpu_sm_clock_min_mhz"] for trial in unclocked["trial"]
    )
    # The counter, over the wall time, lies between an idle H200 and its limit.
    watts = on_gpu["gpu_energy_joules"] / on_gpu["wall_s"]
    assert watts.min() > 70
    assert watts.max() < 700
    on_cpu = trials.filter(device="cpu").row(0, named=True)
    assert on_cpu["gpu_energy_joules"] is None
    assert study(name).reasons[on_cpu["trial"]]["gpu_energy_joules"]


def test_a_trial_that_trained_too_short_for_means_says_so() -> None:
    older = load_results(OLDER)
    on_gpu = older.trials.filter(device="cuda")
    short = on_gpu.filter(pl.col("gpu_sm_clock_min_mhz").is_null())["trial"]
    assert 0 < len(short) < len(on_gpu)
    assert all("too short" in older.reasons[trial]["gpu_sm_clock_min_mhz"] for trial in short)


@pytest.mark.parametrize("name", STUDIES)
def test_every_contestant_ran_five_seeds_and_is_proven(name: str) -> None:
    assert check_directory(SAMPLE / name) == []
    trials = study(name).trials
    assert set(trials["certificate"]) == {"valid"}
    seeds = trials.group_by("algorithm", "contestant", "device").agg(pl.col("seed").sort())
    assert seeds["seed"].to_list() == [[0, 1, 2, 3, 4]] * 10


def test_only_the_calibrations_of_the_machine_bar_its_comparisons() -> None:
    groups = {
        (group.algorithm, str(group.axes["device"])): group
        for name in STUDIES
        for group in Analysis.load(SAMPLE / name).comparisons
    }
    assert len(groups) == 8
    first = {key: group.ranked[0].contestant for key, group in groups.items() if not group.trust.barred}
    assert first == {
        ("DQN", "cpu"): "jax:jit",
        ("PPO", "cpu"): "jax:jit",
        ("DQN", "cuda"): "torch:cudagraph",
        ("Rainbow", "cpu"): "jax:jit",
        ("A2C", "cpu"): "jax:jit",
        ("A2C", "cuda"): "torch:cudagraph",
    }
    for algorithm in ("PPO", "Rainbow"):
        assert [objection.kind for objection in groups[algorithm, "cuda"].trust.reasons] == ["noise"]
    assert (study().trials["noise_score"] > 0.25).sum() == 31
    assert (study("rainbow-a2c").trials["noise_score"] > 0.25).sum() == 43
    others = [outcome.noise for outcome in finished_attempts()]
    assert len(others) == 68
    assert max(noise.foreign_cpu_percent for noise in others) < 0.9
    assert max(noise.steal_percent for noise in others) < 3.5


def test_calibrations_of_that_machine_tell_little_of_how_long_training_takes() -> None:
    """Two attempts at the same trial: the ratio of their training times, and of their calibrations."""
    by_trial: dict[str, list[Outcome]] = {}
    for outcome in finished_attempts():
        by_trial.setdefault(str(outcome.trial), []).append(outcome)
    twice = [pair for pair in by_trial.values() if len(pair) == 2]
    assert len(twice) == 18
    trained = [np.log(a.result.train_ns / b.result.train_ns) for a, b in twice]
    calibrated = [np.log(a.noise.calibration_ns / b.noise.calibration_ns) for a, b in twice]
    assert round(float(np.corrcoef(trained, calibrated)[0, 1]), 1) == 0.4


def test_whose_runs_were_all_faster() -> None:
    """The sentences below the table of training."""
    speeds = {
        key: values["steps_per_s"]
        for name in STUDIES
        for key, values in study(name).trials.group_by("algorithm", "contestant", "device")
    }

    def apart(fast: tuple[str, ...], slow: tuple[str, ...]) -> bool:
        return bool(speeds[fast].min() > speeds[slow].max())

    on_cpu = {key[:2]: apart(key, (*key[:2], "cuda")) for key in speeds if key[2] == "cpu"}
    assert len(on_cpu) == 8
    assert all(on_cpu.values())
    for algorithm in ("dqn", "a2c"):
        for other in ("torch:eager", "jax:jit"):
            assert apart((algorithm, "torch:cudagraph", "cuda"), (algorithm, other, "cuda"))
    assert not apart(("rainbow", "torch:cudagraph", "cuda"), ("rainbow", "jax:jit", "cuda"))
    assert apart(("ppo", "jax:jit", "cuda"), ("ppo", "torch:cudagraph", "cuda"))


def finished_attempts() -> list[Outcome]:
    """Also those that were repeated for their noise."""
    homes = [path.parent for path in (SAMPLE / "study" / "trials").rglob("outcome.json")]
    return [outcome for outcome in map(read_outcome, sorted(homes)) if outcome.done]


def test_the_peak_of_gpu_memory_is_the_largest_that_any_source_saw() -> None:
    on_gpu = study().trials.filter(device="cuda")
    assert set(on_gpu["gpu_memory_source"]) == {"device"}
    for source in ("gpu_framework_used_peak_bytes", "gpu_framework_reserved_bytes"):
        assert (on_gpu["gpu_memory_peak_bytes"] >= on_gpu[source]).all()
    on_cpu = study().trials.filter(device="cpu")
    for column in ("gpu_memory_peak_bytes", "gpu_memory_source"):
        assert on_cpu[column].null_count() == len(on_cpu)


def test_the_peak_of_gpu_memory_in_older_records() -> None:
    """They are older than that rule: NVML's list of processes, once a second, saw 15 MB of one."""
    on_gpu = load_results(OLDER).trials.filter(device="cuda")
    for source in ("gpu_framework_used_peak_bytes", "gpu_framework_reserved_bytes"):
        assert (on_gpu["gpu_memory_peak_bytes"] >= on_gpu[source]).all()
    short = on_gpu.filter(contestant="torch:cudagraph", algorithm="dqn").row(0, named=True)
    assert short["gpu_memory_peak_bytes"] == short["gpu_framework_reserved_bytes"] == 398_458_880
    assert short["gpu_memory_source"] == "framework"
    long = on_gpu.filter(contestant="torch:cudagraph", algorithm="rainbow").row(0, named=True)
    assert (long["gpu_memory_peak_bytes"], long["gpu_memory_source"]) == (1_251_999_744, "processes")


def test_what_was_timed_there_was_proven_there_and_kept_the_gpu_busy() -> None:
    record = show.read(SAMPLE / "nets")
    assert {worker.contestant: worker.certificate for worker in record.workers} == dict.fromkeys(
        ("torch:eager", "torch:compile", "torch:cudagraph", "jax:jit"), "valid"
    )
    busy = {
        figure.contestant: figure.gpu_percent for figure in figures(record) if figure.kind.data == "resident"
    }
    assert all(percent is not None and 10 < percent <= 100 for percent in busy.values())


def test_no_path_of_the_machine_is_in_the_records() -> None:
    for path in SAMPLE.rglob("*"):
        if path.is_file():
            assert not re.search(r"/(opt|work|root|home|tmp)/", path.read_text(encoding="utf-8")), path
