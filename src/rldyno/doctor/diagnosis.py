"""What this machine has, what is missing, and the command that fixes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rldyno.config import cache_dir, config_path
from rldyno.doctor.spread import Spread
from rldyno.errors import Problem
from rldyno.machine.facts import calibrate, cpu_ticks, machine_facts, machine_variant, steal_percent
from rldyno.records.machine_facts import MachineFacts
from rldyno.toolchains.catalogue import Toolchain, read_catalogue
from rldyno.toolchains.interpreters import Python, find_python, installed_pythons
from rldyno.toolchains.resolve import PartState, check_given, part_states, state
from rldyno.toolchains.store import pinned_versions

CALIBRATION_S = 1.0
NOISY_SPREAD = 0.15
NOISY_STEAL_PERCENT = 1.0
WIDE_SPREAD = 0.05
LOW_DISK_BYTES = 5e9
LOW_MEMORY_BYTES = 2e9


@dataclass(frozen=True)
class Finding:
    problem: str
    fix: str


@dataclass(frozen=True)
class ToolchainReport:
    name: str
    kind: str
    status: str
    """ready, missing, outdated, damaged or given; broken for a given interpreter that does not work."""
    variant: str
    path: str | None
    python: str | None
    versions: dict[str, str]
    size_bytes: int | None
    usable_modes: list[str]
    """Modes whose needs this machine meets and that one of its devices runs."""
    obstacle: str | None
    """Why it can neither run nor be built."""
    findings: list[Finding]
    parts: list[PartState]
    """Its optional parts."""


@dataclass(frozen=True)
class MachineNoise:
    calibration_ns: int
    calibration_spread: float
    steal_percent: float | None


@dataclass(frozen=True)
class Diagnosis:
    machine: MachineFacts
    config: str | None
    cache: str
    cache_free_bytes: int
    cache_writable: bool
    pythons: list[Python]
    toolchains: list[ToolchainReport]
    noise: MachineNoise
    spread: Spread | None
    """None when it was not measured."""
    findings: list[Finding]
    can_run: bool
    """Some contestant is ready, or can be built."""

    def to_json(self) -> dict[str, Any]:
        values = asdict(self) | {"machine": self.machine.to_json()}
        for python in values["pythons"]:
            python["path"] = str(python["path"])
        return values


def diagnose(overrides: Mapping[str, Path] | None = None, spread: Spread | None = None) -> Diagnosis:
    machine = machine_facts()
    before = cpu_ticks()
    calibration = calibrate(repeats=10_000, limit_s=CALIBRATION_S)
    noise = MachineNoise(calibration.median_ns, calibration.spread, steal_percent(before, cpu_ticks()))
    cache = cache_dir()
    existing = next(path for path in (cache, *cache.parents) if path.exists())
    writable = existing.is_dir() and os.access(existing, os.W_OK)
    free_bytes = shutil.disk_usage(existing).free
    reports = [report_toolchain(chain, overrides) for chain in read_catalogue().values()]
    general = list(_general_findings(machine, noise, cache, free_bytes, writable))
    return Diagnosis(
        machine=machine,
        config=str(config_path()) if config_path().exists() else None,
        cache=str(cache),
        cache_free_bytes=free_bytes,
        cache_writable=writable,
        pythons=installed_pythons(),
        toolchains=reports,
        noise=noise,
        spread=spread,
        findings=[
            *general,
            *_spread_findings(spread),
            *(finding for report in reports for finding in report.findings),
            *_unbuilt(reports),
        ],
        can_run=any(_can_run(report, writable) for report in reports),
    )


def report_toolchain(chain: Toolchain, overrides: Mapping[str, Path] | None = None) -> ToolchainReport:
    name = chain.framework
    status, variant = "missing", ""
    path: Path | None = None
    python = obstacle = None
    versions: dict[str, str] = {}
    size_bytes = None
    findings = []
    parts: list[PartState] = []
    try:
        found = state(chain, overrides)
        status, variant = found.status, found.variant
        if found.given:
            path, variant = found.given, "given"
            interpreter = check_given(chain, path)
            python, versions = interpreter.python, interpreter.versions
        elif found.built:
            path, python = found.built.python, found.built.recipe.python
            versions, size_bytes = pinned_versions(found.built), found.built.size_bytes
        else:
            python = find_python(chain.python).version
        parts = part_states(chain, found)
    except Problem as problem:
        status = "broken" if status == "given" else status
        obstacle = problem.message
        findings.append(Finding(problem.message, problem.fix or f"rldyno setup {name}"))
    lacking = [] if obstacle else chain.missing_needs(path or find_python(chain.python).path)
    for need in lacking:
        modes = ", ".join(f"{name}:{mode}" for mode in need.modes) or name
        findings.append(Finding(f"{modes} needs {need.what}: {need.why}", need.fix))
    blocked = {mode for need in lacking for mode in need.modes or chain.modes}
    devices = {"cpu"} if variant == "cpu" or machine_variant() == "cpu" else {"cpu", "cuda"}
    blocked |= {mode for mode, runs_on in chain.modes.items() if not devices.intersection(runs_on)}
    return ToolchainReport(
        name=name,
        kind=chain.kind,
        status=status,
        variant=variant,
        path=str(path) if path else None,
        python=python,
        versions=versions,
        size_bytes=size_bytes,
        usable_modes=[] if obstacle else [mode for mode in chain.modes if mode not in blocked],
        obstacle=obstacle,
        findings=findings,
        parts=parts,
    )


def _spread_findings(spread: Spread | None) -> Iterator[Finding]:
    if spread is not None and spread.spread > WIDE_SPREAD:
        yield Finding(
            f"the same run takes {spread.spread:.0%} more or less time each time: 10 seeds show differences "
            f"in speed above {spread.detectable[10]:.0%} only",
            "close other programs, repeat disturbed trials (rldyno run --max-noise 0.1), or add seeds",
        )


def _unbuilt(reports: Sequence[ToolchainReport]) -> Iterator[Finding]:
    """One command builds all that can be built."""
    for status in ("missing", "outdated", "damaged"):
        names = [
            report.name
            for report in reports
            if (report.kind, report.status, report.obstacle) == ("contestant", status, None)
        ]
        if names:
            yield Finding(f"{status} toolchains: {', '.join(names)}", f"rldyno setup {' '.join(names)}")


def _can_run(report: ToolchainReport, cache_writable: bool) -> bool:
    if report.kind != "contestant" or not report.usable_modes:
        return False
    return report.status in ("ready", "given") or cache_writable


def _general_findings(
    machine: MachineFacts, noise: MachineNoise, cache: Path, free_bytes: int, writable: bool
) -> Iterator[Finding]:
    if not writable:
        yield Finding(f"cannot write to {cache}", "set RLDYNO_CACHE_DIR to a directory you can write to")
    if free_bytes < LOW_DISK_BYTES:
        yield Finding(
            f"only {free_bytes / 1e9:.1f} GB free for toolchains",
            "rldyno setup --prune, or set RLDYNO_CACHE_DIR to a larger disk",
        )
    free_memory = machine.memory_available_bytes
    if free_memory is not None and free_memory < LOW_MEMORY_BYTES:
        yield Finding(f"only {free_memory / 1e9:.1f} GB of memory free", "close other programs")
    if noise.calibration_spread > NOISY_SPREAD:
        yield Finding(
            f"a fixed piece of work varies by {noise.calibration_spread:.0%}: timings will be noisy",
            "close other programs, fix the CPU clock (cpupower frequency-set -g performance), or add seeds",
        )
    if (noise.steal_percent or 0.0) > NOISY_STEAL_PERCENT:
        yield Finding(
            f"the hypervisor takes {noise.steal_percent:.1f} % of the CPU time for others",
            "use a dedicated machine, or add seeds",
        )
