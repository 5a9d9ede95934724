"""Records of a real GPU, kept in docs/samples: they load, and the tables of docs/gpu.md are made of them."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import polars as pl
import pytest

from rldyno.nets import show, tables, work
from rldyno.nets.figures import figures
from rldyno.results.load import Results, load_results
from rldyno.text.tables import markdown

DOCS = Path(__file__).resolve().parents[2] / "docs"
SAMPLE = DOCS / "samples" / "h200"


@functools.cache
def study() -> Results:
    return load_results(SAMPLE / "study")


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
    speeds = "on the CPU, steps/s | on the GPU, steps/s"
    rows = [f"| algorithm | contestant | {speeds} | GPU memory of arrays, MB | to the GPU, MB | GPU, J |"]
    rows.append("|---|---|---:|---:|---:|---:|---:|")
    for (algorithm, contestant), pair in (
        study()
        .trials.sort("algorithm", "contestant")
        .group_by("algorithm", "contestant", maintain_order=True)
    ):
        on = {row["device"]: row for row in pair.iter_rows(named=True)}
        gpu = on["cuda"]
        cpu = f"{on['cpu']['steps_per_s']:,.0f}" if "cpu" in on else "–"
        used, moved = gpu["gpu_framework_used_peak_bytes"] / 1e6, gpu["transfer_to_device_bytes"] / 1e6
        figures = f"{gpu['steps_per_s']:,.0f} | {used:.0f} | {moved:.1f} | {gpu['gpu_energy_joules']:.0f}"
        rows.append(f"| {algorithm} | {contestant} | {cpu} | {figures} |")
    return "\n".join(rows)


@pytest.mark.parametrize("table", [networks_table, tf32_table, training_table])
def test_the_tables_of_the_documentation_are_made_of_the_records(table) -> None:
    page = (DOCS / "gpu.md").read_text(encoding="utf-8")
    for line in table().splitlines():
        # Blanks that align columns, and the rule below the headings, are free.
        assert set(line) <= set("|-: ") or " ".join(line.split()) in page


def test_a_real_gpu_was_measured() -> None:
    trials = study().trials
    assert set(trials["status"]) == {"done"}
    on_gpu = trials.filter(device="cuda")
    assert set(on_gpu["algorithm"]) == {"dqn", "rainbow", "a2c", "ppo"}
    for column in (
        "gpu_energy_joules",
        "gpu_power_peak_w",
        "gpu_memory_peak_bytes",
        "transfer_to_device_bytes",
    ):
        assert on_gpu[column].null_count() == 0, column
    # Some trained for less than the two seconds that means need: null, and it says so.
    short = on_gpu.filter(pl.col("gpu_sm_clock_min_mhz").is_null())["trial"]
    assert 0 < len(short) < len(on_gpu)
    assert all("too short" in study().reasons[trial]["gpu_sm_clock_min_mhz"] for trial in short)
    # The counter, over the wall time, lies between an idle H200 and its limit.
    watts = on_gpu["gpu_energy_joules"] / on_gpu["wall_s"]
    assert watts.min() > 70
    assert watts.max() < 700
    on_cpu = trials.filter(device="cpu").row(0, named=True)
    assert on_cpu["gpu_energy_joules"] is None
    assert study().reasons[on_cpu["trial"]]["gpu_energy_joules"]


def test_the_peak_of_gpu_memory_is_the_largest_that_any_source_saw() -> None:
    """These records are older than that rule: NVML's list of processes, once a second, saw 15 MB of one."""
    on_gpu = study().trials.filter(device="cuda")
    for source in ("gpu_framework_used_peak_bytes", "gpu_framework_reserved_bytes"):
        assert (on_gpu["gpu_memory_peak_bytes"] >= on_gpu[source]).all()
    short = on_gpu.filter(contestant="torch:cudagraph", algorithm="dqn").row(0, named=True)
    assert short["gpu_memory_peak_bytes"] == short["gpu_framework_reserved_bytes"] == 398_458_880
    assert short["gpu_memory_source"] == "framework"
    long = on_gpu.filter(contestant="torch:cudagraph", algorithm="rainbow").row(0, named=True)
    assert (long["gpu_memory_peak_bytes"], long["gpu_memory_source"]) == (1_251_999_744, "processes")
    on_cpu = study().trials.filter(device="cpu")
    assert (
        on_cpu["gpu_memory_peak_bytes"].null_count()
        == on_cpu["gpu_memory_source"].null_count()
        == len(on_cpu)
    )


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
