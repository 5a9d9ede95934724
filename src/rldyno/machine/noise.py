"""How disturbed the machine was while a trial ran: its parts, and one score."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rldyno.errors import Problem
from rldyno.records import files as records
from rldyno.records.files import ATTEMPTS, Json
from rldyno_rig.schema import OUTCOME_FILE

if TYPE_CHECKING:
    from rldyno.machine.facts import Calibration
    from rldyno.probe.tree import CpuTimes

_CPUS = Path("/sys/devices/system/cpu")
CALIBRATIONS_FILE = "calibrations.json"
"""In a results directory: host → shortest calibration, in nanoseconds."""
FIRST = "no other trial of this directory was calibrated on this machine before"
NO_STEAL = "the system does not count the time that a hypervisor takes"
NO_FREQUENCY = "the system does not show the CPUs' frequency"


class Surroundings(NamedTuple):
    """The machine right before a trial."""

    host: str
    calibration: Calibration
    best_calibration_ns: int | None
    """The shortest of the earlier trials on this machine; None for the first."""
    frequency_mhz: float | None


def noise_figures(before: Surroundings, cpu_times: tuple[CpuTimes, CpuTimes] | None, cpu_s: float) -> Json:
    """`noise` of outcome.json. Percentages are of the time of the worker's CPUs.

    score = calibration_spread + calibration_slowdown + (steal_percent + foreign_cpu_percent) / 100: the share
    of its time that a trial may have lost to others.
    """
    spread, median_ns = before.calibration.spread, before.calibration.median_ns
    slowdown = None
    if before.best_calibration_ns is not None:
        slowdown = max(0.0, median_ns / before.best_calibration_ns - 1.0)
    foreign, steal = taken_by_others(cpu_times, cpu_s)
    too_short = None if cpu_times else "the CPUs' times were not read"
    reasons = {
        "calibration_slowdown": FIRST if slowdown is None else None,
        "steal_percent": (too_short or NO_STEAL) if steal is None else None,
        "foreign_cpu_percent": (too_short or "the trial was shorter than a tick")
        if foreign is None
        else None,
        "frequency_mhz": NO_FREQUENCY if before.frequency_mhz is None else None,
    }
    return {
        "host": before.host,
        "calibration_ns": median_ns,
        "calibration_spread": spread,
        "calibration_slowdown": slowdown,
        "steal_percent": steal,
        "foreign_cpu_percent": foreign,
        "frequency_mhz": before.frequency_mhz,
        "score": spread + (slowdown or 0.0) + ((foreign or 0.0) + (steal or 0.0)) / 100.0,
        "reasons": {name: reason for name, reason in reasons.items() if reason},
    }


def judged_by(noise: Json, quickest: Mapping[str, int]) -> Json:
    """`noise` of an outcome as it looks now: a later trial may have shown that the machine was slow in this.

    `quickest` is what `quickest_calibrations` says.
    """
    best, median = quickest.get(str(noise.get("host"))), noise.get("calibration_ns")
    if not best or not median or noise.get("score") is None:
        return noise
    known = noise.get("calibration_slowdown") or 0.0
    slowdown = max(known, median / best - 1.0)
    reasons = {name: why for name, why in noise.get("reasons", {}).items() if name != "calibration_slowdown"}
    score = noise["score"] + slowdown - known
    return {**noise, "calibration_slowdown": slowdown, "score": score, "reasons": reasons}


def quickest_calibrations(root: Path) -> dict[str, int]:
    """Of a results directory, by machine; empty where none were kept."""
    with contextlib.suppress(Problem):
        kept = records.read_json(root / CALIBRATIONS_FILE)
        return {host: ns for host, ns in kept.items() if isinstance(ns, int) and ns > 0}
    return {}


def taken_by_others(
    cpu_times: tuple[CpuTimes, CpuTimes] | None, cpu_s: float
) -> tuple[float | None, float | None]:
    """(foreign, steal) percent."""
    if cpu_times is None:
        return None, None
    before, after = cpu_times
    total = after.total_s - before.total_s
    if total <= 0:
        return None, None
    foreign = 100.0 * max(0.0, after.busy_s - before.busy_s - cpu_s) / total
    if before.steal_s is None or after.steal_s is None:
        return foreign, None
    return foreign, 100.0 * (after.steal_s - before.steal_s) / total


def best_calibration(trial_dir: Path, host: str) -> int | None:
    """Shortest calibration of all attempts in this trial's results directory on this machine.

    The results directory keeps it, or a run of n trials would read n² outcomes.
    """
    kept = quickest_calibrations(trial_dir.parent.parent).get(host)
    if kept is not None:
        return kept
    others = trial_dir.parent.glob(f"*/{OUTCOME_FILE}")
    own = trial_dir.glob(f"{ATTEMPTS}/*/{OUTCOME_FILE}")
    return min(_calibrations([*others, *own], host), default=None)


def keep_calibration(trial_dir: Path, host: str, median_ns: int) -> None:
    """Of trials that run side by side one may overwrite the other's: the next quick one mends it."""
    home = trial_dir.parent.parent
    kept = quickest_calibrations(home)
    if (home / records.MANIFEST_FILE).exists() and median_ns < kept.get(host, median_ns + 1):
        records.write_json(home / CALIBRATIONS_FILE, {**kept, host: median_ns})


def _calibrations(paths: Sequence[Path], host: str) -> Iterator[int]:
    for path in paths:
        with contextlib.suppress(Problem):
            noise = records.read_json(path).get("noise") or {}
            if noise.get("host") == host and noise.get("calibration_ns"):
                yield int(noise["calibration_ns"])


def frequency_mhz(cpus: Sequence[int] | None, root: Path = _CPUS) -> float | None:
    """Mean clock of these CPUs, of all without a choice; None where the system does not show it."""
    names = [f"cpu{cpu}" for cpu in cpus] if cpus else ["cpu[0-9]*"]
    files = [file for name in names for file in root.glob(f"{name}/cpufreq/scaling_cur_freq")]
    found = []
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(file.read_text()) / 1e3)
    return statistics.fmean(found) if found else None
