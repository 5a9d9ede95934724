"""Metrics of the worker's process tree: CPU time, threads, context switches, hardware counters."""

from __future__ import annotations

from rldyno.columns import Column
from rldyno.probe import memory_metrics
from rldyno.probe.metric import Answer, Figure, Metric, mean, peak, settled
from rldyno.probe.perf import HARDWARE
from rldyno.probe.readings import TrialReadings

EXCESS_THREADS = 0.5
"""A second is oversubscribed if on average so many more threads compete than the trial has cores."""
NOTHING_COUNTED = "nothing was counted"


def _oversubscribed(readings: TrialReadings, metric: str) -> Answer:
    limit = readings.cores + EXCESS_THREADS
    return readings.track(metric).share_above(limit, settled(readings.span)), readings.why(metric)


def _switches(readings: TrialReadings) -> tuple[int | None, int | None]:
    """(all, involuntary). The kernel's exact account covers the children that were waited for.

    The probe's account covers the other children too: it counts where it is larger.
    """
    seen, usage = readings.probe.tasks, readings.usage
    total, involuntary = seen.context_switches, seen.involuntary_switches
    if usage is not None and usage.ru_nvcsw + usage.ru_nivcsw >= (total or 0):
        return usage.ru_nvcsw + usage.ru_nivcsw, usage.ru_nivcsw
    return total, involuntary


def _all_switches(readings: TrialReadings, metric: str) -> Answer:
    return _switches(readings)[0], readings.probe.tree.reasons.get("context_switches")


def _voluntary(readings: TrialReadings, metric: str) -> Answer:
    total, involuntary = _switches(readings)
    voluntary = None if total is None or involuntary is None else total - involuntary
    return voluntary, readings.probe.tree.reasons.get("involuntary_switches")


def _involuntary(readings: TrialReadings, metric: str) -> Answer:
    return _switches(readings)[1], readings.probe.tree.reasons.get("involuntary_switches")


def _most_threads(readings: TrialReadings, metric: str) -> Answer:
    return readings.probe.peak_threads or None, "no sample was taken"


TREE: tuple[Metric[TrialReadings], ...] = (
    Metric("cpu_user_ns", int, "user CPU time of the worker's process tree so far", rate="sample"),
    Metric("cpu_system_ns", int, "system CPU time of the worker's process tree so far", rate="sample"),
)
THREADS: tuple[Metric[TrialReadings], ...] = (
    Metric(
        "wait_ns",
        int,
        "time the tree was ready to run but waited for a CPU, so far",
        read=lambda now: now.tasks.wait_ns,
    ),
    Metric(
        "context_switches",
        int,
        "times the tree's threads left a CPU, so far",
        (
            Figure(
                Column(
                    "context_switches",
                    int,
                    "times the worker's threads left a CPU",
                    title="Context switches",
                    better="lower",
                    source="cpu.context_switches",
                ),
                _all_switches,
            ),
            Figure(
                Column(
                    "context_switches_voluntary",
                    int,
                    "those in which a thread waited for something",
                    source="cpu.context_switches_voluntary",
                ),
                _voluntary,
            ),
        ),
        read=lambda now: now.tasks.context_switches,
    ),
    Metric(
        "involuntary_switches",
        int,
        "those in which the kernel took the CPU away, so far",
        (
            Figure(
                Column(
                    "context_switches_involuntary",
                    int,
                    "those in which the kernel took the CPU away",
                    title="Forced context switches",
                    better="lower",
                    source="cpu.context_switches_involuntary",
                ),
                _involuntary,
            ),
        ),
        read=lambda now: now.tasks.involuntary_switches,
    ),
)
COUNTS: tuple[Metric[TrialReadings], ...] = (
    Metric("processes", int, "processes in the tree", rate="sample"),
    Metric(
        "threads",
        int,
        "threads in the tree",
        (
            Figure(
                Column(
                    "threads_peak",
                    int,
                    "most threads at one time",
                    title="Threads at most",
                    source="cpu.threads_peak",
                ),
                _most_threads,
            ),
        ),
        rate="sample",
    ),
    Metric(
        "threads_busy",
        int,
        "threads that ran for at least 1 % of the last second",
        (
            Figure(
                Column(
                    "threads_busy_mean",
                    float,
                    "threads that ran for at least 1 % of a second, mean over the training",
                    title="Threads busy",
                    source="cpu.threads_busy_mean",
                ),
                mean,
            ),
            Figure(
                Column(
                    "threads_busy_peak",
                    int,
                    "most of them in one second",
                    title="Threads busy at most",
                    source="cpu.threads_busy_peak",
                ),
                peak,
            ),
        ),
        read=lambda now: now.tasks.threads_busy,
    ),
    Metric(
        "threads_runnable",
        float,
        "mean number of threads that ran or waited for a CPU in the last second",
        (
            Figure(
                Column(
                    "threads_runnable_mean",
                    float,
                    "threads that ran or waited for a CPU at one time, mean over the training",
                    title="Threads runnable",
                    source="cpu.threads_runnable_mean",
                ),
                mean,
            ),
            Figure(
                Column(
                    "threads_runnable_peak",
                    float,
                    "most of them, mean of one second",
                    title="Threads runnable at most",
                    source="cpu.threads_runnable_peak",
                ),
                peak,
            ),
        ),
        read=lambda now: now.tasks.threads_runnable,
    ),
    Metric(
        "threads_competing",
        float,
        "mean number of threads that ran, or waited for one another, in the last second",
        (
            Figure(
                Column(
                    "threads_competing_mean",
                    float,
                    "threads that ran or waited for one another at one time, mean over the training",
                    title="Threads competing",
                    source="cpu.threads_competing_mean",
                ),
                mean,
            ),
            Figure(
                Column(
                    "oversubscribed_share",
                    float,
                    "share of the training with more competing threads than cores",
                    title="Oversubscribed",
                    unit="% of the training",
                    scale=100.0,
                    better="lower",
                    source="cpu.oversubscribed_share",
                ),
                _oversubscribed,
            ),
        ),
        read=lambda now: now.tasks.threads_competing,
    ),
)

METRICS: tuple[Metric[TrialReadings], ...] = (*TREE, *THREADS, *memory_metrics.METRICS, *COUNTS)


def _counted(readings: TrialReadings, counter: str) -> Answer:
    return readings.counted.totals.get(counter), readings.counted.reasons.get(counter)


def _per_cycle(readings: TrialReadings, counter: str) -> Answer:
    totals, reasons = readings.counted.totals, readings.counted.reasons
    instructions, cycles = totals.get("instructions"), totals.get("cycles")
    value = instructions / cycles if instructions is not None and cycles else None
    return value, reasons.get("instructions") or reasons.get("cycles") or NOTHING_COUNTED


def _counts_kernel(readings: TrialReadings, counter: str) -> Answer:
    counted = readings.counted
    value = counted.kernel if any(counted.totals.values()) else None
    return value, counted.reasons.get("cycles") or NOTHING_COUNTED


_COUNTERS = {
    "instructions": "instructions of the worker's process tree",
    "cycles": "CPU cycles of the worker's process tree",
    "cache_references": "last-level cache accesses of the worker's process tree",
    "cache_misses": "those that went on to memory",
}

COUNTED: tuple[tuple[str, Figure[TrialReadings]], ...] = (
    *(
        (name, Figure(Column(name, int, _COUNTERS[name], source=f"cpu.{name}"), _counted))
        for name in HARDWARE
    ),
    (
        "instructions",
        Figure(
            Column(
                "instructions_per_cycle",
                float,
                "instructions / cycles",
                title="Instructions per cycle",
                better="higher",
                source="cpu.instructions_per_cycle",
            ),
            _per_cycle,
        ),
    ),
    (
        "cycles",
        Figure(
            Column(
                "kernel_counted",
                bool,
                "whether the counters include the kernel's work for the worker",
                source="cpu.kernel_counted",
            ),
            _counts_kernel,
            in_table=False,
        ),
    ),
)
"""(hardware counter, figure): counters are read once, at the end of the trial, and have no samples."""
