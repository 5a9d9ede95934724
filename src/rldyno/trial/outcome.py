"""Makes the outcome of a trial from the exit status, the worker's own result and what was measured."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rldyno.machine.noise import Surroundings, noise_of
from rldyno.probe import summary
from rldyno.probe.memory import leak_warning
from rldyno.probe.readings import Counted, Idle, TrialReadings, training_span
from rldyno.records.files import Json
from rldyno.records.outcome import Outcome
from rldyno.records.status import ABSENT, DONE, FAILED
from rldyno.records.trial_state import log_tail
from rldyno.trial.results import RankResult, as_one, decisive, read_results
from rldyno_rig import schema
from rldyno_rig.result_file import WorkerResult
from rldyno_rig.team.names import home

if TYPE_CHECKING:
    from rldyno.probe import Probe
    from rldyno.probe.hardware import Hardware
    from rldyno.probe.tree import CpuTimes


@dataclass(frozen=True)
class Ending:
    """Why the worker ended. With an empty reason its result.json decides."""

    reason: str
    message: str
    exit_code: int | None = None
    rank: int | None = None
    """Of the worker of a team that it is about."""

    @property
    def own_words(self) -> str:
        """Goes before what the worker itself says."""
        return "" if self.rank is None else f"worker {self.rank}: "

    @staticmethod
    def absent(message: str) -> Ending:
        """The worker could not be started."""
        return Ending(ABSENT, message)

    @staticmethod
    def from_exit(exit_code: int, rank: int | None = None) -> Ending:
        who, was = ("", "") if rank is None else (f"worker {rank} ", "was ")
        if exit_code < 0:
            return Ending("killed", f"{who}{was}killed by {signal_name(-exit_code)}", exit_code, rank)
        if exit_code > 0:
            if exit_code == schema.NOT_FINITE:
                message = f"{who}crashed after the environment gave rewards that are not finite"
                return Ending("nan", message, exit_code, rank)
            return Ending("crashed", f"{who}exited with code {exit_code}", exit_code, rank)
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
    """Of all workers together."""
    workers: int = 1
    watched: int = 1
    """Of the workers those on this machine: what the probe, the kernel and the GPUs show is theirs."""
    far_cpu_s: float | None = None
    """Of all workers, where they are on several nodes."""
    counted: Counted = field(default_factory=Counted)
    idle: Idle | None = None


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def make_outcome(
    trial: str,
    attempt: int,
    ending: Ending,
    started_at: str,
    measured: Measured | None = None,
    trial_dir: Path | None = None,
    *,
    guest: bool = False,
) -> Outcome:
    """Without `measured` the worker never ran. `guest`: what its script did says more than an exit code."""
    workers = measured.workers if measured else 1 + (ending.rank or 0)
    results = [RankResult(None)] * workers if trial_dir is None else read_results(trial_dir, workers)
    if not ending.reason and workers > 1:
        ending = replace(ending, rank=decisive(results))
    own = results[ending.rank or 0]
    status, reason, message = verdict(ending, own, measured)
    tail = (
        log_tail(home(trial_dir, ending.rank or 0) / schema.LOG_FILE)
        if status == FAILED and trial_dir
        else None
    )
    if message == ending.message and ending.reason == "crashed" and (own.said or tail):
        # Python's last line names the exception.
        message = "" if guest and own.said else f"{message}: "
        message += f"{own.said or (tail or '').splitlines()[-1].strip()[:200]}"
    signalled = ending.exit_code is not None and ending.exit_code < 0
    result = results[0].result
    values = _measured_values(measured, as_one(results[: measured.watched] if measured else results))
    if result is None:
        values["reasons"]["result"] = f"the worker left no result: {message}"
    return Outcome(
        trial=trial,
        attempt=attempt,
        status=status,
        reason=reason,
        message=message,
        log_tail=tail,
        exit_code=None if signalled else ending.exit_code,
        signal=signal_name(-ending.exit_code) if signalled and ending.exit_code is not None else None,
        started_at=started_at,
        warnings=warnings(values, measured),
        result=result,
        **values,
    )


def verdict(ending: Ending, own: RankResult, measured: Measured | None) -> tuple[str, str, str]:
    """(status, reason, message). What the runner saw counts before what the worker wrote."""
    result = own.result
    if ending.reason == "killed" and measured:
        return FAILED, "killed", ending.message + _memory_hint(ending, measured)
    if ending.reason == "crashed" and result and result.reason in schema.FAILED_REASONS and result.message:
        return FAILED, result.reason, ending.own_words + result.message
    if ending.reason:
        return FAILED, ending.reason, ending.message
    if result is None:
        return FAILED, "crashed", own.flaw if ending.rank is None else f"worker {ending.rank} {own.flaw}"
    status = DONE if result.reason in schema.DONE_REASONS else FAILED
    who = ending.own_words if status == FAILED else ""
    return status, result.reason, who + (result.message or f"ended by `{result.reason}`")


def _memory_hint(ending: Ending, measured: Measured) -> str:
    if ending.exit_code != -signal.SIGKILL:
        return ""
    peak = measured.probe.peak_rss_bytes
    share = peak / physical_memory_bytes()
    holders = "it" if measured.workers == 1 else "all workers together"
    holding = f"{holders} held {peak / 2**20:,.0f} MiB, {share:.0%} of this machine's memory"
    if measured.out_of_memory:
        return f": out of memory ({holding})"
    return f" (out of memory? {holding})" if share > 0.5 else f" from outside ({holding})"


def physical_memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _measured_values(measured: Measured | None, result: WorkerResult | None) -> dict[str, Any]:
    """The fields of an Outcome that were measured, and `reasons` for those that were not."""
    if measured is None:
        sections = dict.fromkeys([*summary.block_names(), "gpu"])
        names = [*sections, "wall_s", "cpu_s", "peak_rss_bytes", "baseline_rss_bytes"]
        names += ["affinity", "probe", "noise"]
        return {"sections": sections, "reasons": dict.fromkeys(names, "the worker never ran")}
    wall_s, cpu_s = measured.wall_ns / 1e9, _cpu_s(measured)
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
    sections = summary.trial_figures(readings)
    memory, partly = sections["memory"], _partly(measured)
    of_all = measured.far_cpu_s if partly else cpu_s
    reasons = {
        "cpu_s": None if of_all else partly or "neither the kernel nor the probe counted it",
        "peak_rss_bytes": partly or memory["reasons"].get("peak_bytes"),
        "baseline_rss_bytes": partly or memory["reasons"].get("after_import_bytes"),
        "gpu": measured.hardware.no_gpu,
    }
    return {
        "wall_s": wall_s,
        "cpu_s": of_all,
        "peak_rss_bytes": None if partly else memory["peak_bytes"],
        "baseline_rss_bytes": None if partly else memory["after_import_bytes"],
        "sections": {**sections, "gpu": summary.gpu_figures(measured.hardware, span, result)},
        "affinity": measured.affinity,
        "probe": {
            "samples": measured.probe.samples,
            "watched": measured.watched,
            "cpu_s": measured.probe_cpu_s,
            "core_percent": 100.0 * measured.probe_cpu_s / wall_s if wall_s > 0 else None,
        },
        "noise": noise_of(measured.surroundings, measured.cpu_times, cpu_s or 0.0),
        "reasons": {name: reason for name, reason in reasons.items() if reason},
    }


def warnings(values: Json, measured: Measured | None) -> tuple[str, ...]:
    """What a reader of the values must know, one sentence each."""
    if measured is None:
        return ()
    sections = values["sections"]
    found = [
        leak_warning(sections["memory"]),
        summary.oversubscription_warning(sections["cpu"], measured.cores),
        *summary.gpu_warnings(sections["gpu"], measured.hardware),
        _partly(measured),
    ]
    return tuple(warning for warning in found if warning)


def _partly(measured: Measured) -> str | None:
    """Where some workers ran on other nodes: figures of all together are not known."""
    if measured.watched == measured.workers:
        return None
    return (
        f"the probe watched {measured.watched} of {measured.workers} workers, those on its own node: "
        "figures of CPU, memory, energy and GPU are theirs, but for the CPU time of the trial"
    )


def _cpu_s(measured: Measured) -> float | None:
    """The kernel counts exactly, but only children that were waited for; the probe sees the others, too."""
    exact = measured.usage.ru_utime + measured.usage.ru_stime if measured.usage else 0.0
    return max(exact, measured.probe.cpu_ns / 1e9) or None
