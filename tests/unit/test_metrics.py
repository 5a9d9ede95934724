"""A sampled metric is one value: from its definition follow samples.csv, outcome.json and the columns."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_nvml import CpuCounter, FakeGpu, FakeNvml, opened
from probe_fakes import FakeMachine, FakeTree, sampled, watched_worker
from rldyno.columns import Column
from rldyno.probe import metrics, process_metrics
from rldyno.probe.gpu_metrics import GpuMetric
from rldyno.probe.hardware import NO_GPU_USED, Hardware
from rldyno.probe.metric import Figure, Metric, Moment, UnreadableError, Value, mean, peak_of_trial, rise
from rldyno.probe.nvml import Call
from rldyno.probe.probe import Probe
from rldyno.probe.rapl import RaplReader
from rldyno.probe.readings import TrialReadings
from rldyno.probe.summary import gpu_figures, trial_figures
from rldyno.probe.track import EVER, Span
from rldyno.probe.tree import TreeUsage

SECOND = 1_000_000_000


def column(name: str, kind: Any = float) -> Column:
    return Column(name, kind, "a temperature", title="Temperature", unit="°C", source=f"toy.{name}")


TOY: Metric[TrialReadings] = Metric(
    "board_celsius",
    float,
    "temperature of the board",
    (
        Figure(column("board_mean_celsius"), mean),
        Figure(column("board_peak_celsius", int), peak_of_trial),
        Figure(column("board_rise_celsius"), rise),
    ),
    read=lambda now: 20.0 + now.time_ns / SECOND,
    missing="no thermometer",
)


@pytest.fixture
def toy() -> Iterator[Metric[Any]]:
    metrics.METRICS.append(TOY)
    yield TOY
    metrics.METRICS.remove(TOY)


def own_figures(probe: Any, *names: str) -> dict[str, Any]:
    """Of section `toy` of outcome.json: these values, and the reasons where they are missing."""
    hardware = Hardware(RaplReader(), None, NO_GPU_USED)
    readings = TrialReadings(probe, hardware, Span(SECOND, 4 * SECOND + 1), 1)
    section = trial_figures(readings)["toy"]
    found = {name: section["reasons"].get(name, section[name]) for name in names}
    assert all(name in section for name in names)
    return found


def test_a_toy_metric_is_sampled_summarised_and_a_column(
    toy: Metric[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    probe, rows = sampled(monkeypatch, [0, 0.05, 1.0, 2.0, 3.0, 4.0], FakeTree())
    assert [row["board_celsius"] for row in rows] == ["20", "", "21", "22", "23", "24"]
    assert own_figures(probe, "board_mean_celsius", "board_peak_celsius", "board_rise_celsius") == {
        "board_mean_celsius": 22.5,
        "board_peak_celsius": 24,
        "board_rise_celsius": 2.0,
    }
    assert {figure.column for figure in toy.figures} <= set(metrics.columns())
    assert list(metrics.sample_columns().items())[-1] == ("board_celsius", float)
    assert metrics.sample_meanings()["board_celsius"] == "temperature of the board"


def test_a_toy_metric_without_a_reading_has_its_reason(toy: Metric[Any]) -> None:
    probe = Probe([1], 20, io.StringIO(), 0, tree=FakeTree(), machine=FakeMachine())
    assert own_figures(probe, "board_mean_celsius") == {"board_mean_celsius": "no thermometer"}


def test_a_metric_that_cannot_be_read_gives_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(now: Moment) -> Value:
        raise UnreadableError("the sensor is unplugged")

    metric: Metric[TrialReadings] = Metric("x", int, "x", (Figure(column("x"), mean),), "sample", broken)
    metrics.METRICS.append(metric)
    try:
        probe, rows = sampled(monkeypatch, [0, 0.05], FakeTree())
        assert [row["x"] for row in rows] == ["", ""]
        assert own_figures(probe, "x") == {"x": "the sensor is unplugged"}
    finally:
        metrics.METRICS.remove(metric)


def test_a_metric_of_every_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    counter: Metric[TrialReadings] = Metric("x", int, "x", (), "sample", lambda now: now.time_ns)
    metrics.METRICS.append(counter)
    try:
        _, rows = sampled(monkeypatch, [0, 0.05, 0.1], FakeTree())
        assert [int(row["x"]) for row in rows] == [0, SECOND // 20, SECOND // 10]
    finally:
        metrics.METRICS.remove(counter)


def test_the_columns_on_disk_stay() -> None:
    """Results of earlier versions have these columns, in this order, less those that came later."""
    recorded = Path(__file__).parents[2] / "tests/data/old_sample/trials"
    headers = {path.open().readline().strip() for path in recorded.glob("*/samples.csv")}
    later = {"threads_competing"}
    assert headers == {",".join(name for name in metrics.sample_columns() if name not in later)}


def test_every_column_has_a_place_of_its_own() -> None:
    columns = metrics.columns()
    assert len({column.name for column in columns}) == len(columns)
    assert len({column.source for column in columns}) == len(columns)
    assert all(column.meaning for column in columns)


def test_the_tree_fills_the_metrics_that_nobody_else_reads() -> None:
    unread = {metric.name for metric in process_metrics.METRICS if metric.read is None}
    assert unread == set(TreeUsage._fields)
    assert watched_worker().tracks.keys() == {metric.name for metric in metrics.METRICS}


def test_a_toy_metric_of_gpus_is_one_call_and_one_value() -> None:
    class WithThermometer(FakeNvml):
        def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> int:
            return 40 + 10 * handle.number

    temperature = GpuMetric(
        "gpu_celsius",
        int,
        "temperature of the hottest GPU",
        (
            Figure(
                Column("gpu_peak_celsius", int, "its peak", source="gpu.peak_celsius"),
                peak_of_trial,
            ),
        ),
        call=Call("celsius", lambda gpu: gpu.nvml.nvmlDeviceGetTemperature(gpu.handle, 0)),
        together=max,
    )
    metrics.METRICS.append(temperature)
    try:
        reader = opened(WithThermometer(FakeGpu(), FakeGpu(1)), count=2)
        assert reader.read(SECOND, [1], slow=True)["gpu_celsius"] == 50
        block = gpu_figures(Hardware(CpuCounter(), reader, None), EVER)
        assert block is not None
        assert block["peak_celsius"] == 50
        assert [device["peak_celsius"] for device in block["devices"]] == [40, 50]
    finally:
        metrics.METRICS.remove(temperature)
