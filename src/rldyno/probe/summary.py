"""`cpu`, `gpu`, `energy` and `machine` of outcome.json: each figure, or null and the reason in `reasons`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rldyno.probe import gpus, rapl
from rldyno.probe.gpus import slowed
from rldyno.probe.hardware import ENERGY
from rldyno.probe.perf import HARDWARE
from rldyno.probe.track import Span

if TYPE_CHECKING:
    import resource

    from rldyno.probe.hardware import Hardware
    from rldyno.probe.probe import Probe
    from rldyno.probe.track import Track

Json = dict[str, Any]
Figures = dict[str, tuple[Any, str | None]]
"""Name → (value, why it is missing where it is)."""

EXCESS_THREADS = 0.5
"""A second is oversubscribed if on average so many more threads could run than the trial has cores."""
OVERSUBSCRIBED_SHARE = 0.1
"""Share of such seconds above which the outcome warns."""

_BRIEF = "training was too short for two readings, which are a second apart"
_UNREAD = "no reading speaks of the training alone: it was too short"
UNKNOWN = "not known"


class Counted(NamedTuple):
    """What the hardware counters of the worker's process tree showed."""

    totals: Mapping[str, int | None] = {}
    reasons: Mapping[str, str] = {}
    kernel: bool = True


class Idle(NamedTuple):
    """The machine without a trial: liu2022's usage error, in which the machine-wide figures are wrong."""

    cpu_percent: float | None
    cpu_reason: str | None
    memory_percent: float


def block(figures: Figures) -> Json:
    return {
        **{name: value for name, (value, _) in figures.items()},
        "reasons": {name: reason or UNKNOWN for name, (value, reason) in figures.items() if value is None},
    }


def training_span(result: Json | None) -> Span:
    """Start-up and the worker's end are left out of means; all counts where no training ended."""
    start, length = ((result or {}).get(name) for name in ("train_start_ns", "train_ns"))
    return Span() if start is None or length is None else Span(int(start), int(start) + int(length))


def _spoken_of(span: Span) -> Span:
    """When readings are taken that speak of the second before, and of nothing earlier than this span."""
    return span if span.end_ns is None else Span(span.start_ns + 1_000_000_000, span.end_ns)


def cpu_figures(
    probe: Probe, usage: resource.struct_rusage | None, counted: Counted, cores: int, span: Span
) -> Json:
    span = _spoken_of(span)
    why = probe.tree.reasons
    busy, runnable = probe.tracks["threads_busy"], probe.tracks["threads_runnable"]
    no_busy, no_runnable = why.get("threads_busy") or _BRIEF, why.get("threads_runnable") or _BRIEF
    excess = runnable.share_above(cores + EXCESS_THREADS, span)
    figures: Figures = {
        **_switches(probe, usage),
        "threads_peak": (probe.peak_threads or None, "no sample was taken"),
        "threads_busy_mean": (busy.mean(span), no_busy),
        "threads_busy_peak": (_whole(busy.highest(span)), no_busy),
        "threads_runnable_mean": (runnable.mean(span), no_runnable),
        "threads_runnable_peak": (runnable.highest(span), no_runnable),
        "oversubscribed_share": (excess, no_runnable),
        **{name: (counted.totals.get(name), counted.reasons.get(name)) for name in HARDWARE},
    }
    instructions, cycles = counted.totals.get("instructions"), counted.totals.get("cycles")
    per_cycle = instructions / cycles if instructions is not None and cycles else None
    uncounted = [counted.reasons[name] for name in ("instructions", "cycles") if name in counted.reasons]
    figures["instructions_per_cycle"] = per_cycle, (uncounted or ["nothing was counted"])[0]
    counts_kernel = counted.kernel if any(counted.totals.values()) else None
    figures["kernel_counted"] = counts_kernel, counted.reasons.get("cycles") or "nothing was counted"
    return block(figures)


def _switches(probe: Probe, usage: resource.struct_rusage | None) -> Figures:
    """The kernel's exact account covers children that were waited for; the probe's, if larger, others too."""
    seen, why = probe.tasks, probe.tree.reasons
    total, involuntary = seen.context_switches, seen.involuntary_switches
    if usage is not None and usage.ru_nvcsw + usage.ru_nivcsw >= (total or 0):
        total, involuntary = usage.ru_nvcsw + usage.ru_nivcsw, usage.ru_nivcsw
    voluntary = None if total is None or involuntary is None else total - involuntary
    return {
        "context_switches": (total, why.get("context_switches")),
        "context_switches_voluntary": (voluntary, why.get("involuntary_switches")),
        "context_switches_involuntary": (involuntary, why.get("involuntary_switches")),
    }


def oversubscription_warning(cpu: Json, cores: int) -> str | None:
    share = cpu["oversubscribed_share"]
    if share is None or share < OVERSUBSCRIBED_SHARE:
        return None
    many = f"{cores} core{'' if cores == 1 else 's'}"
    return (
        f"oversubscribed: {cpu['threads_runnable_mean']:.1f} threads wanted to run on {many} on average, "
        f"too many in {share:.0%} of the training; give it more cores, or its libraries fewer threads"
    )


def machine_figures(probe: Probe, idle: Idle | None, span: Span) -> Json:
    span = _spoken_of(span)
    not_idle = "not measured before the trial"
    return block(
        {
            "cpu_percent": (probe.tracks["machine_cpu_percent"].mean(span), _BRIEF),
            "memory_percent": (probe.tracks["machine_memory_percent"].mean(span), _BRIEF),
            "idle_cpu_percent": (idle.cpu_percent, idle.cpu_reason) if idle else (None, not_idle),
            "idle_memory_percent": (idle.memory_percent if idle else None, not_idle),
        }
    )


def energy_figures(hardware: Hardware, result: Json | None) -> Json:
    """A part that exists and cannot be read leaves the total unknown."""
    columns = {"cpu_joules": rapl.COLUMN, "gpu_joules": gpus.ENERGY, "total_joules": ENERGY}
    figures: Figures = {}
    for name, column in columns.items():
        reason = hardware.reason(column)
        last = hardware.meters[column].last if column in hardware.meters and reason is None else None
        figures[name] = last, reason or "no reading was taken"
    figures["to_threshold_joules"] = _to_threshold(hardware, result)
    return block(figures)


def _to_threshold(hardware: Hardware, result: Json | None) -> tuple[float | None, str | None]:
    threshold = (result or {}).get("threshold")
    if not threshold:
        return None, "the study has no threshold"
    if not threshold.get("reached"):
        return None, "the threshold was not reached"
    reason = hardware.reason(ENERGY)
    return (None, reason) if reason else (hardware.meters[ENERGY].at(threshold["time_ns"]), "no reading then")


def gpu_figures(hardware: Hardware, span: Span) -> Json | None:
    """None without a reader; `Hardware.no_gpu` says why."""
    reader = hardware.gpu
    if reader is None:
        return None
    said = [watched.device.reasons for watched in reader.devices]
    joules = _energy(reader.joules(), hardware.reason(gpus.ENERGY))
    own = reader.tracks["gpu_memory_bytes"]
    denied = [why[call] for call in ("memory", "processes") for why in said if call in why]
    unseen = (denied or ["the trial held no GPU memory"])[0]
    figures = _device_figures(reader.tracks, reader.throttled, said, joules, span)
    figures["memory_peak_bytes"] = _whole(own.highest()), unseen
    figures["memory_source"] = reader.memory_source, unseen
    figures["energy_source"] = reader.devices[0].energy_source if joules[0] is not None else None, joules[1]
    devices = [
        {
            "index": watched.device.index,
            "name": watched.device.name,
            **block(
                _device_figures(
                    watched.tracks,
                    watched.throttled,
                    [watched.device.reasons],
                    _energy(watched.joules, watched.why_no_energy()),
                    span,
                )
            ),
        }
        for watched in reader.devices
    ]
    return {**block(figures), "devices": devices}


def _device_figures(
    tracks: Mapping[str, Track],
    throttled: Mapping[str, Track],
    said: list[dict[str, str]],
    joules: tuple[float | None, str | None],
    span: Span,
) -> Figures:
    """Of one GPU or of all together. Means, clocks and slow-downs are of the training, peaks of the trial.

    NVML's utilisation and power are themselves means over up to a second.
    """

    def why(*calls: str) -> str:
        return next((reasons[call] for call in calls for reasons in said if call in reasons), _UNREAD)

    settled = _spoken_of(span)
    power, used, reserved = (tracks[f"gpu_{name}"] for name in _WHOLE_TRIAL)
    sm, memory = tracks["gpu_sm_clock_mhz"], tracks["gpu_memory_clock_mhz"]
    readings = tracks["gpu_throttle"]
    return {
        "utilisation_percent": (tracks["gpu_percent"].mean(settled), why("percent")),
        "memory_used_peak_bytes": (_whole(used.highest()), why("memory")),
        "memory_reserved_bytes": (_whole(reserved.highest()), why("memory_reserved", "memory")),
        "power_mean_w": (power.mean(settled), why("power_w")),
        "power_peak_w": (power.highest(), why("power_w")),
        "energy_joules": joules,
        "sm_clock_mean_mhz": (sm.mean(span), why("sm_clock_mhz")),
        "sm_clock_min_mhz": (_whole(sm.lowest(span)), why("sm_clock_mhz")),
        "memory_clock_min_mhz": (_whole(memory.lowest(span)), why("memory_clock_mhz")),
        "throttle": (
            slowed(throttled, readings, span) if readings.count(span) else None,
            why("throttle"),
        ),
    }


def _energy(joules: float | None, reason: str | None) -> tuple[float | None, str | None]:
    return (None if reason else joules), reason


_WHOLE_TRIAL = ("power_w", "memory_used_bytes", "memory_reserved_bytes")


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


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
