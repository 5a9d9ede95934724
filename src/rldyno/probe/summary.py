"""`cpu`, `gpu`, `energy` and `machine` of outcome.json: each figure, or null and the reason in `reasons`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rldyno.probe.energy_metrics import GPU_ENERGY
from rldyno.probe.gpu_memory import FRAMEWORK
from rldyno.probe.gpu_metrics import GpuMetric, GpuReadings
from rldyno.probe.metric import Answer, Figure, Metric
from rldyno.probe.metrics import METRICS
from rldyno.probe.process_metrics import COUNTED
from rldyno.probe.readings import TrialReadings
from rldyno.probe.track import Span

if TYPE_CHECKING:
    from rldyno.probe.gpus import WatchedGpu
    from rldyno.probe.hardware import Hardware
    from rldyno_rig.result_file import WorkerResult

Json = dict[str, Any]

OVERSUBSCRIBED_SHARE = 0.1
"""Share of oversubscribed seconds above which the outcome warns."""
UNKNOWN = "not known"


def trial_figures(readings: TrialReadings) -> Json:
    """Block of outcome.json → its figures, of all metrics that are not the GPUs'."""
    answers: dict[str, dict[str, Answer]] = {}
    for metric, figure in _figures():
        name, _, key = figure.column.source.rpartition(".")
        answers.setdefault(name, {})[key] = figure.answer(readings, metric)
    return {name: block(found) for name, found in answers.items()}


def _figures() -> list[tuple[str, Figure[TrialReadings]]]:
    """(metric, figure)."""
    metrics: list[Metric[Any]] = [metric for metric in METRICS if not isinstance(metric, GpuMetric)]
    return [*((metric.name, figure) for metric in metrics for figure in metric.figures), *COUNTED]


def block_names() -> list[str]:
    """The blocks of `trial_figures`."""
    return list(dict.fromkeys(figure.column.source.rpartition(".")[0] for _, figure in _figures()))


def block(answers: dict[str, Answer]) -> Json:
    return {
        **{name: value for name, (value, _) in answers.items()},
        "reasons": {name: reason or UNKNOWN for name, (value, reason) in answers.items() if value is None},
    }


def oversubscription_warning(cpu: Json, cores: int) -> str | None:
    share = cpu["oversubscribed_share"]
    if share is None or share < OVERSUBSCRIBED_SHARE:
        return None
    many = f"{cores} core{'' if cores == 1 else 's'}"
    return (
        f"oversubscribed: {cpu['threads_competing_mean']:.1f} threads wanted to run on {many} on average, "
        f"too many in {share:.0%} of the training; give it more cores, or its libraries fewer threads"
    )


def gpu_figures(hardware: Hardware, span: Span, result: WorkerResult | None = None) -> Json | None:
    """Of all GPUs together and of each one. None without a reader; `Hardware.no_gpu` is the reason.

    Means, clocks and slow-downs are of the training, peaks of the trial. NVML's utilisation and power are
    themselves means over up to a second.
    """
    reader = hardware.gpu
    if reader is None:
        return None
    together = GpuReadings(
        reader.tracks,
        reader.throttled,
        [watched.device.reasons for watched in reader.devices],
        _energy(reader.joules(), hardware.reason(GPU_ENERGY)),
        reader.devices[0].energy_source,
        span,
        reader.metrics,
        reader.memory.peaks | framework_memory(result),
        reader.memory.reasons,
    )
    return {
        **_gpu_block(reader.metrics.values(), together),
        "devices": [_device_block(watched, reader.metrics, span) for watched in reader.devices],
    }


def framework_memory(result: WorkerResult | None) -> dict[str, int]:
    """The most GPU memory that the framework reports: of its arrays, or of its allocator at the end."""
    reported = (result.device_memory if result else None) or {}
    known = [held for name in ("used_peak_bytes", "reserved_bytes") if (held := reported.get(name))]
    return {FRAMEWORK: max(known)} if known else {}


def _device_block(watched: WatchedGpu, metrics: dict[str, GpuMetric], span: Span) -> Json:
    readings = GpuReadings(
        watched.tracks,
        watched.throttled,
        [watched.device.reasons],
        _energy(watched.joules, watched.why_no_energy()),
        watched.energy_source,
        span,
        metrics,
    )
    single = [metric for metric in metrics.values() if metric.call is not None]
    return {
        "index": watched.device.index,
        "name": watched.device.name,
        **_gpu_block(single, readings),
    }


def _gpu_block(metrics: Iterable[GpuMetric], readings: GpuReadings) -> Json:
    figures: list[tuple[str, Figure[GpuReadings]]] = [
        (metric.name, figure) for metric in metrics for figure in metric.figures
    ]
    return block(
        {
            figure.column.source.rpartition(".")[2]: figure.answer(readings, metric)
            for metric, figure in figures
        }
    )


def _energy(joules: float | None, reason: str | None) -> Answer:
    return (None if reason else joules), reason


def gpu_warnings(gpu: Json | None, hardware: Hardware) -> list[str]:
    if gpu is None or hardware.gpu is None:
        return []
    found = [
        f"GPU {watched.device.index} no longer answered ({watched.device.lost}); its figures end there"
        for watched in hardware.gpu.devices
        if watched.device.lost
    ]
    for device in gpu["devices"]:
        for word, share in (device["throttle"] or {}).items():
            found.append(f"GPU {device['index']} was slowed down in {share:.0%} of the training: {word}")
    return found
