"""Measure the limits of this machine, once: they are kept in the cache, by machine, device and cores."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.limits.disturbance import Watch
from rldyno.machine.cpus import available_cpus, place
from rldyno.machine.facts import cpu_model, gpus, host_sha256
from rldyno.processes.lab import OWN_MODULE
from rldyno.processes.rig import Runtime, answer_of, failed, run
from rldyno.records import files as records
from rldyno.records.machine_limits import LIMITS_SCHEMA, DeviceLimits, EnvironmentRate, Json
from rldyno.toolchains.catalogue import COMMON_THREAD_VARIABLES, gpu_limit_frameworks, toolchain
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig.envs.atari_rules import ATARI, is_atari
from rldyno_rig.job_files import LIMITS_FILE, EnvironmentCase, LimitsJob
from rldyno_rig.limits.job import FOUND_FILE

TIME_LIMIT_S = 180.0
ON_CPU = "the data is in the CPU's memory already"


def limits_of(
    device: str, cores: int, overrides: Mapping[str, Path] | None = None, again: bool = False
) -> DeviceLimits:
    """From the cache, or measured now and kept. What could not be measured is None, with a reason.

    A limit is the best rate that was reached: measuring `again` raises what a busy machine had kept low. It
    is also measured again when the machine is known to have been busy.
    """
    path = _path(device, cores)
    earlier = DeviceLimits.from_json(records.read_json(path)) if path.exists() else None
    if earlier is not None and not again and not earlier.is_busy:
        return earlier
    found = _cpu(cores, again) if device == "cpu" else _accelerator(cores, overrides)
    if earlier is not None:
        found = found.best_with(earlier)
    if found.copy_bytes_per_s is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        records.write_json(path, found.to_json())
    return found


def environment_rates(
    wanted: Iterable[EnvironmentCase], overrides: Mapping[str, Path] | None = None, again: bool = False
) -> list[EnvironmentRate]:
    """Steps per second without an agent, for each case.

    From the cache, or measured now by the rig in the numpy toolchain; None with a reason without one.
    """
    path = cache_dir() / "limits" / f"environments-{host_sha256()}.json"
    raw = records.read_json(path) if path.exists() else {}
    kept = {key: EnvironmentRate.from_json(rate) for key, rate in raw.items()}
    cases = list(wanted)
    missing = [case for case in cases if again or case.key not in kept or kept[case.key].is_busy]
    reasons: dict[int, str] = {}
    for cores in sorted({case.cores for case in missing}):
        try:
            measured = _step_environments([case for case in missing if case.cores == cores], cores, overrides)
        except Problem as problem:
            reasons[cores] = problem.message
        else:
            for rate in measured:
                kept[rate.case.key] = rate.best_with(kept.get(rate.case.key, rate))
            path.parent.mkdir(parents=True, exist_ok=True)
            records.write_json(path, {key: rate.to_json() for key, rate in kept.items()})
    return [
        kept.get(case.key) or EnvironmentRate(case, None, reason=reasons.get(case.cores)) for case in cases
    ]


def _step_environments(
    cases: Sequence[EnvironmentCase], cores: int, overrides: Mapping[str, Path] | None
) -> list[EnvironmentRate]:
    needs = {ATARI for case in cases if is_atari(case.environment)}
    interpreter = resolve("numpy", overrides, needs)
    job = LimitsJob(toolchain("numpy").backend, tuple(cases))
    with Watch(_cpus(cores)) as watch:
        found = run_job(job, interpreter, cores)
    return [replace(EnvironmentRate.from_json(raw), taken_percent=watch.taken_percent) for raw in found]


def run_job(job: LimitsJob, interpreter: Interpreter, cores: int) -> Any:
    """What the rig's `limits` job found, in a process on `cores` CPUs."""
    with tempfile.TemporaryDirectory(prefix="rldyno-limits-") as name:
        directory = Path(name)
        records.write_json(directory / LIMITS_FILE, job.to_json())
        return answer_of(
            "limits",
            directory,
            Runtime.of(interpreter, cores, None),
            FOUND_FILE,
            what=f"the limits job in {interpreter.framework}",
            cpus=_cpus(cores),
            limit_s=TIME_LIMIT_S,
        )


def _cpu(cores: int, again: bool) -> DeviceLimits:
    """Several cores can do at least what one can, however busy the machine is."""
    found = _cpu_now(cores)
    if cores == 1:
        return found
    one = limits_of("cpu", 1, again=again)
    return replace(found.best_with(one), taken_percent=found.taken_percent)


def _cpu_now(cores: int) -> DeviceLimits:
    with Watch(_cpus(cores)) as watch:
        found = _host_rates(cores)
    return _limits("cpu", cores, watch.taken_percent, f"numpy {np.__version__}", found)


def _host_rates(cores: int) -> Json:
    """What `rldyno.limits.host` prints, in a process of the lab's own Python."""
    runtime = Runtime(Path(sys.executable), False, dict.fromkeys(COMMON_THREAD_VARIABLES, str(cores)))
    command = [*OWN_MODULE, "rldyno.limits.host", str(cores)]
    ended = run(command, Path.cwd(), runtime, cpus=_cpus(cores), limit_s=TIME_LIMIT_S)
    if ended.code != 0:
        raise failed("measuring the CPU", ended.code, ended.err, TIME_LIMIT_S)
    printed: Json = json.loads(ended.out)
    return {"name": cpu_model(), **printed, "reasons": {"transfer_bytes_per_s": ON_CPU}}


def _accelerator(cores: int, overrides: Mapping[str, Path] | None) -> DeviceLimits:
    """By the first framework that can measure a GPU and whose toolchain works here."""
    reasons = []
    for framework in gpu_limit_frameworks():
        try:
            interpreter = resolve(framework, overrides)
            with Watch(_cpus(cores)) as watch:
                found = run_job(LimitsJob(toolchain(framework).backend), interpreter, cores)
        except Problem as problem:
            reasons.append(problem.message)
        else:
            by = f"{framework} {interpreter.versions.get(framework, '')}".strip()
            return _limits("cuda", cores, watch.taken_percent, by, found)
    names = ("flops_per_s", "copy_bytes_per_s", "transfer_bytes_per_s")
    return _limits("cuda", cores, None, None, {"reasons": dict.fromkeys(names, "; ".join(reasons))})


def _limits(
    device: str, cores: int, taken_percent: float | None, by: str | None, found: Json
) -> DeviceLimits:
    """The rates that a process found, with where and when."""
    circumstances = {
        "made_at": records.now_iso(),
        "host_sha256": host_sha256(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "device": device,
        "cores": cores,
        "taken_percent": taken_percent,
        "by": by,
    }
    return DeviceLimits.from_json({**circumstances, **found})


def _cpus(cores: int) -> Sequence[int] | None:
    """Where a process of so many cores is measured."""
    _, pool = place(available_cpus(), cores)
    return None if pool is None else pool[:cores]


def _path(device: str, cores: int) -> Path:
    accelerators = "" if device == "cpu" else "-".join(gpu.name or "" for gpu in gpus()[0])
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{device}-{accelerators}").strip("-").lower()
    return cache_dir() / "limits" / f"{words}-{cores}-{host_sha256()}-v{LIMITS_SCHEMA}.json"
