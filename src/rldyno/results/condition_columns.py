"""Columns of the result table about a trial's conditions: noise, transfers, attempts, warnings, proofs."""

from __future__ import annotations

from rldyno.columns import Column

CONDITIONS = (
    Column("noise_score", float, "how disturbed the machine was; higher is worse", source="noise.score"),
    Column(
        "calibration_ns",
        int,
        "time a fixed piece of work took right before the trial",
        source="noise.calibration_ns",
    ),
    Column(
        "workers_watched",
        int,
        "workers of the trial that the probe could see: those on its own node",
        source="probe.watched",
    ),
    Column(
        "probe_core_percent", float, "cost of watching, in percent of one core", source="probe.core_percent"
    ),
)

NOISE = (
    Column(
        "processor",
        str,
        "model of the processor of the machine that ran the trial",
        source="noise.processor",
    ),
    Column("gpu_model", str, "model of the GPU that the trial used", source="noise.gpu"),
    Column(
        "noise_calibration_spread",
        float,
        "spread of the calibration's repeats, relative",
        source="noise.calibration_spread",
    ),
    Column(
        "noise_calibration_slowdown",
        float,
        "how much slower than the best calibration before it",
        source="noise.calibration_slowdown",
    ),
    Column(
        "noise_steal_percent",
        float,
        "CPU time that the hypervisor took for other machines",
        unit="%",
        source="noise.steal_percent",
    ),
    Column(
        "noise_foreign_cpu_percent",
        float,
        "CPU time that other processes took",
        unit="%",
        source="noise.foreign_cpu_percent",
    ),
    Column(
        "cpu_frequency_mhz",
        float,
        "clock of the worker's CPUs right before the trial",
        title="CPU clock",
        unit="MHz",
        source="noise.frequency_mhz",
    ),
)
"""What the noise score is made of, and the clock of the CPUs."""

DEVICE = (
    Column(
        "gpu_memory_total_bytes",
        int,
        "memory that the trial's GPUs have, together",
        missing="the trial runs on the CPU, or the manifest does not say how large its GPUs are",
    ),
    Column(
        "gpu_framework_used_peak_bytes",
        int,
        "most GPU memory of the framework's arrays, as the framework reports it",
        title="Peak GPU memory of arrays",
        unit="MB",
        scale=1e-6,
        better="lower",
        source="result.device_memory.used_peak_bytes",
    ),
    Column(
        "gpu_framework_reserved_bytes",
        int,
        "GPU memory that the framework's allocator holds at the end",
        title="GPU memory of the allocator",
        unit="MB",
        scale=1e-6,
        better="lower",
        source="result.device_memory.reserved_bytes",
    ),
    Column(
        "transfer_to_device_bytes",
        int,
        "moved from the host to the device",
        title="Moved to the device",
        unit="MB",
        scale=1e-6,
        source="result.transfer.to_device_bytes",
    ),
    Column(
        "transfer_to_host_bytes",
        int,
        "moved from the device to the host",
        title="Moved to the host",
        unit="MB",
        scale=1e-6,
        source="result.transfer.to_host_bytes",
    ),
    Column(
        "transfer_put_ns",
        int,
        "time spent giving arrays to the device",
        title="Time of transfers to the device",
        unit="s",
        scale=1e-9,
        better="lower",
        source="result.transfer.put_ns",
    ),
    Column(
        "transfer_read_ns",
        int,
        "time spent waiting for losses and priorities",
        title="Time of reading from the device",
        unit="s",
        scale=1e-9,
        better="lower",
        source="result.transfer.read_ns",
    ),
)
"""What the worker reports about its device."""

VERDICTS = (
    Column("attempt", int, "which attempt of the trial this is", source="attempt"),
    Column(
        "warnings",
        str,
        "what a reader of the figures must know: a leak, for instance",
        source="warnings",
        derive=lambda several: "; ".join(several) or None,
        may_be_empty=True,
    ),
    Column("certificate", str, "valid, stale, absent or failed", may_be_empty=True),
    Column("certificate_detail", str, "why the certificate is not valid, or in doubt", may_be_empty=True),
    Column("log_tail", str, "last lines of a failed worker's log", source="log_tail", may_be_empty=True),
)
