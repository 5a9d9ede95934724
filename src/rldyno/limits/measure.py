"""Measure the limits of this machine, once: they are kept in the cache, by machine, device and cores."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rldyno.config import cache_dir
from rldyno.errors import Problem
from rldyno.limits.disturbance import Watch, is_busy, quietest
from rldyno.machine.cpus import available_cpus, place
from rldyno.machine.facts import cpu_model, gpus, host_sha256
from rldyno.processes.rig import Runtime, answer_of, failed, job_content, run
from rldyno.records import files as records
from rldyno.toolchains.catalogue import COMMON_THREAD_VARIABLES, gpu_limit_frameworks
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig.limits.job import FOUND_FILE, JOB_FILE

Json = dict[str, Any]

LIMITS_SCHEMA = 1
TIMEOUT_S = 180.0
ON_CPU = "the data is in the CPU's memory already"


def limits_of(
    device: str, cores: int, overrides: Mapping[str, Path] | None = None, again: bool = False
) -> Json:
    """From the cache, or measured now and kept. What could not be measured is None, with a reason.

    A limit is what was reached at best: measuring `again` raises what a busy machine had held down. Where it
    is known that it was busy, that is done unasked.
    """
    path = _path(device, cores)
    earlier = records.read_json(path) if path.exists() else None
    if earlier is not None and not again and not is_busy(earlier):
        return earlier
    found = _cpu(cores, again) if device == "cpu" else _accelerator(cores, overrides)
    if earlier is not None:
        found = best_of(found, earlier)
    if found["copy_bytes_per_s"] is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        records.write_json(path, found)
    return found


def environment_rates(
    wanted: Iterable[Json], overrides: Mapping[str, Path] | None = None, again: bool = False
) -> list[Json]:
    """`environment`, `environments`, `max_episode_steps` of each, with `steps_per_s` without an agent.

    From the cache, or measured now by the rig in the numpy toolchain; None with a `reason` without one.
    """
    path = cache_dir() / "limits" / f"environments-{host_sha256()}.json"
    kept: Json = records.read_json(path) if path.exists() else {}
    asked = list(wanted)
    missing = [
        one for one in asked if again or (key := _environment_key(one)) not in kept or is_busy(kept[key])
    ]
    reason = None
    if missing:
        try:
            job = {"what": "environments", "environments": missing}
            interpreter = resolve("numpy", overrides)
            with Watch(_cpus(1)) as watch:
                found = run_job(job, interpreter, 1)
        except Problem as problem:
            reason = problem.message
        else:
            for rate in found:
                one = {**rate, "taken_percent": watch.taken_percent}
                earlier = kept.get(_environment_key(one), one)
                better = max(one, earlier, key=lambda rate: float(rate["steps_per_s"]))
                kept[_environment_key(one)] = {**better, "taken_percent": quietest(one, earlier)}
            path.parent.mkdir(parents=True, exist_ok=True)
            records.write_json(path, kept)
    return [kept.get(_environment_key(one), {**one, "steps_per_s": None, "reason": reason}) for one in asked]


def run_job(job: Json, interpreter: Interpreter, cores: int) -> Any:
    """What the rig's `limits` job found, in a process on `cores` CPUs."""
    with tempfile.TemporaryDirectory(prefix="rldyno-limits-") as name:
        directory = Path(name)
        records.write_json(directory / JOB_FILE, job_content(interpreter.framework, job))
        return answer_of(
            "limits",
            directory,
            Runtime.of(interpreter, cores),
            FOUND_FILE,
            what=f"the limits job in {interpreter.framework}",
            cpus=_cpus(cores),
            limit_s=TIMEOUT_S,
        )


def best_of(found: Json, other: Json) -> Json:
    """`found`, with the figures of `other` that are higher."""
    rates = {
        dtype: max(found["flops_per_s"].get(dtype) or 0.0, other["flops_per_s"].get(dtype) or 0.0)
        for dtype in {**found["flops_per_s"], **other["flops_per_s"]}
    }
    names = ("copy_bytes_per_s", "transfer_bytes_per_s")
    known = {name: [one[name] for one in (found, other) if one[name] is not None] for name in names}
    higher = {name: max(values, default=None) for name, values in known.items()}
    return {
        **found,
        "flops_per_s": {dtype: rate for dtype, rate in rates.items() if rate},
        **higher,
        "taken_percent": quietest(found, other),
    }


def _cpu(cores: int, again: bool) -> Json:
    """Several cores can do at least what one can, however busy the machine is."""
    found = _cpu_now(cores)
    if cores == 1:
        return found
    one = limits_of("cpu", 1, again=again)
    return {**best_of(found, one), "taken_percent": found["taken_percent"]}


def _cpu_now(cores: int) -> Json:
    with Watch(_cpus(cores)) as watch:
        found = _host_rates(cores)
    return {
        **_about("cpu", cores),
        "taken_percent": watch.taken_percent,
        "name": cpu_model(),
        "by": f"numpy {np.__version__}",
        **found,
        "transfer_bytes_per_s": None,
        "reasons": {"transfer_bytes_per_s": ON_CPU},
    }


def _host_rates(cores: int) -> Json:
    """What `rldyno.limits.host` prints, in a process of the lab's own Python."""
    runtime = Runtime(Path(sys.executable), False, dict.fromkeys(COMMON_THREAD_VARIABLES, str(cores)))
    command = ["-m", "rldyno.limits.host", str(cores)]
    ended = run(command, Path.cwd(), runtime, cpus=_cpus(cores), limit_s=TIMEOUT_S)
    if ended.code != 0:
        raise failed("measuring the CPU", ended.code, ended.err, TIMEOUT_S)
    found: Json = json.loads(ended.out)
    return found


def _accelerator(cores: int, overrides: Mapping[str, Path] | None) -> Json:
    reasons = []
    for framework in gpu_limit_frameworks():
        try:
            interpreter = resolve(framework, overrides)
            with Watch(_cpus(cores)) as watch:
                found = run_job({"what": "device"}, interpreter, cores)
        except Problem as problem:
            reasons.append(problem.message)
        else:
            by = f"{framework} {interpreter.versions.get(framework, '')}".strip()
            return {**_about("cuda", cores), "taken_percent": watch.taken_percent, "by": by, **found}
    why = "; ".join(reasons)
    names = ("flops_per_s", "copy_bytes_per_s", "transfer_bytes_per_s")
    return {
        **_about("cuda", cores),
        "taken_percent": None,
        "name": None,
        "by": None,
        "flops_per_s": {},
        "copy_bytes_per_s": None,
        "transfer_bytes_per_s": None,
        "reasons": dict.fromkeys(names, why),
    }


def _about(device: str, cores: int) -> Json:
    return {
        "schema": LIMITS_SCHEMA,
        "made_at": records.now_iso(),
        "host_sha256": host_sha256(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "device": device,
        "cores": cores,
    }


def _cpus(cores: int) -> Sequence[int] | None:
    """Where a process of so many cores is measured."""
    _, pool = place(available_cpus(), cores)
    return None if pool is None else pool[:cores]


def _path(device: str, cores: int) -> Path:
    accelerators = "" if device == "cpu" else "-".join(gpu["name"] for gpu in gpus()[0])
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{device}-{accelerators}").strip("-").lower()
    return cache_dir() / "limits" / f"{words}-{cores}-{host_sha256()}-v{LIMITS_SCHEMA}.json"


def _environment_key(asked: Json) -> str:
    return f"{asked['environment']} x{asked['environments']} limit {asked['max_episode_steps']}"
