"""How a trial ended: from an exit status, the worker's own result and what was measured, to outcome.json."""

from __future__ import annotations

import os
import resource
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.machine.noise import Surroundings, noise_figures
from rldyno.probe import summary
from rldyno.probe.readings import Counted, Idle, TrialReadings, training_span
from rldyno.records import files as records
from rldyno.records.files import Json
from rldyno.trial.memory import leak_warning, memory_figures
from rldyno_rig import schema

if TYPE_CHECKING:
    from rldyno.probe import Probe
    from rldyno.probe.hardware import Hardware
    from rldyno.probe.tree import CpuTimes

_RESULT_FIELDS = {"reason": str, "steps": int, "train_ns": int, "startup_ns": dict, "phases_ns": dict}


@dataclass(frozen=True)
class Ending:
    """Why the worker is no more. An empty reason leaves the verdict to its result.json."""

    reason: str
    message: str
    exit_code: int | None = None

    @staticmethod
    def from_exit(exit_code: int) -> Ending:
        if exit_code < 0:
            return Ending("killed", f"killed by {signal_name(-exit_code)}", exit_code)
        if exit_code > 0:
            return Ending("crashed", f"exited with code {exit_code}", exit_code)
        return Ending("", "", exit_code)


@dataclass
class Measured:
    """What the runner saw of a worker."""

    wall_ns: int
    usage: resource.struct_rusage | None
    probe: Probe
    probe_cpu_s: float
    surroundings: Surroundings
    hardware: Hardware
    cpu_times: tuple[CpuTimes, CpuTimes] | None = None
    """Of the worker's CPUs, before and after."""
    out_of_memory: bool = False
    """The kernel killed some process for memory meanwhile."""
    affinity: Json = field(default_factory=lambda: {"worker": None, "probe": None})
    cores: int = 1
    """Granted to the worker."""
    counted: Counted = field(default_factory=Counted)
    idle: Idle | None = None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def make_outcome(
    trial: Json,
    attempt: int,
    ending: Ending,
    started_at: str,
    measured: Measured | None = None,
    trial_dir: Path | None = None,
) -> Json:
    """The content of outcome.json. Without `measured` the worker never ran."""
    result, flaw = (None, "") if trial_dir is None else read_result(trial_dir / schema.RESULT_FILE)
    status, reason, message = verdict(ending, result, flaw, measured)
    failed = status == records.FAILED
    tail = records.log_tail(trial_dir / schema.LOG_FILE) if failed and trial_dir else None
    if tail and message == ending.message and ending.reason == "crashed":
        message += f": {tail.splitlines()[-1].strip()[:200]}"  # Python's last line names the exception
    signalled = ending.exit_code is not None and ending.exit_code < 0
    figures = _figures(measured, result)
    if result is None:
        figures["reasons"]["result"] = f"the worker left no result: {message}"
    return {
        "schema": schema.SCHEMA_VERSION,
        "trial": trial["trial"],
        "attempt": attempt,
        "status": status,
        "reason": reason,
        "message": message,
        "log_tail": tail,
        "exit_code": None if signalled else ending.exit_code,
        "signal": signal_name(-ending.exit_code) if signalled and ending.exit_code is not None else None,
        "started_at": started_at,
        **figures,
        "warnings": warnings(figures, measured),
        "result": result,
    }


def read_result(path: Path) -> tuple[Json | None, str]:
    """(the worker's result or None, what is wrong with it)."""
    if not path.exists():
        return None, "ended without a result"
    try:
        result = records.read_json(path)
    except Problem:
        return None, f"ended without a result: {path.name} is garbage"
    for name, kind in _RESULT_FIELDS.items():
        if not isinstance(result.get(name), kind):
            return None, f"ended without a usable result: {path.name} has no valid `{name}`"
    if result["reason"] not in schema.DONE_REASONS and result["reason"] not in schema.FAILED_REASONS:
        return None, f"ended without a usable result: unknown reason `{result['reason'][:40]}`"
    return result, ""


def verdict(
    ending: Ending, result: Json | None, flaw: str, measured: Measured | None
) -> tuple[str, str, str]:
    """(status, reason, message): the runner's own judgement first, then the worker's."""
    said = str((result or {}).get("message") or "")
    if ending.reason == "killed" and measured:
        return records.FAILED, "killed", ending.message + _memory_hint(ending, measured)
    if ending.reason == "crashed" and result and result["reason"] in schema.FAILED_REASONS and said:
        return records.FAILED, result["reason"], said
    if ending.reason:
        return records.FAILED, ending.reason, ending.message
    if result is None:
        return records.FAILED, "crashed", flaw
    status = records.DONE if result["reason"] in schema.DONE_REASONS else records.FAILED
    return status, result["reason"], said or f"ended by `{result['reason']}`"


def _memory_hint(ending: Ending, measured: Measured) -> str:
    if ending.exit_code != -signal.SIGKILL:
        return ""
    peak = measured.probe.peak_rss_bytes
    share = peak / physical_memory_bytes()
    holding = f"it held {peak / 2**20:,.0f} MiB, {share:.0%} of this machine's memory"
    if measured.out_of_memory:
        return f": out of memory ({holding})"
    return f" (out of memory? {holding})" if share > 0.5 else f" from outside ({holding})"


def physical_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _figures(measured: Measured | None, result: Json | None) -> Json:
    if measured is None:
        names = ["wall_s", "cpu_s", "peak_rss_bytes", "baseline_rss_bytes"]
        names += [*summary.block_names(), "memory", "gpu", "affinity", "probe", "noise"]
        return {**dict.fromkeys(names), "reasons": dict.fromkeys(names, "the worker never ran")}
    wall_s, cpu_s = measured.wall_ns / 1e9, _cpu_s(measured)
    no_uss = measured.probe.tree.reasons.get("uss_bytes")
    memory = memory_figures(measured.probe.memory, result, _peak_rss(measured), no_uss)
    span = training_span(result)
    readings = TrialReadings(
        measured.probe,
        measured.hardware,
        span,
        measured.cores,
        measured.usage,
        measured.counted,
        measured.idle,
        result,
    )
    gpu = summary.gpu_figures(measured.hardware, span)
    reasons = {
        "cpu_s": "neither the kernel nor the probe counted it" if cpu_s is None else None,
        "peak_rss_bytes": memory["reasons"].get("peak_bytes"),
        "baseline_rss_bytes": memory["reasons"].get("after_import_bytes"),
        "gpu": measured.hardware.no_gpu,
    }
    return {
        "wall_s": wall_s,
        "cpu_s": cpu_s,
        "peak_rss_bytes": memory["peak_bytes"],
        "baseline_rss_bytes": memory["after_import_bytes"],
        "memory": memory,
        **summary.trial_figures(readings),
        "gpu": gpu,
        "affinity": measured.affinity,
        "probe": {
            "samples": measured.probe.samples,
            "cpu_s": measured.probe_cpu_s,
            "core_percent": 100.0 * measured.probe_cpu_s / wall_s if wall_s > 0 else None,
        },
        "noise": noise_figures(measured.surroundings, measured.cpu_times, cpu_s or 0.0),
        "reasons": {name: reason for name, reason in reasons.items() if reason},
    }


def warnings(figures: Json, measured: Measured | None) -> list[str]:
    """What a reader of the figures must know, one sentence each."""
    if measured is None:
        return []
    found = [
        leak_warning(figures["memory"]),
        summary.oversubscription_warning(figures["cpu"], measured.cores),
        *summary.gpu_warnings(figures["gpu"], measured.hardware),
    ]
    return [warning for warning in found if warning]


def _cpu_s(measured: Measured) -> float | None:
    """The kernel's exact account covers children that were waited for, the probe's the others too."""
    exact = measured.usage.ru_utime + measured.usage.ru_stime if measured.usage else 0.0
    return max(exact, measured.probe.cpu_ns / 1e9) or None


def _peak_rss(measured: Measured) -> int | None:
    """Of the samples, VmHWM and the kernel's ru_maxrss the highest.

    ru_maxrss also covers this runner, whose copy the worker was before it became Python: it counts only
    above the runner's own.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    theirs = measured.usage.ru_maxrss if measured.usage else 0
    peak = max(measured.probe.peak_rss_bytes, theirs * unit if theirs > own else 0)
    return peak or None
