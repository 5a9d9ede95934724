"""`rldyno doctor`: the diagnosis as text or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.doctor.diagnosis import Diagnosis, ToolchainReport
    from rldyno.doctor.spread import Spread


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Do not measure how much runs differ on this machine (10 s).")
    ] = False,
    toolchain: Toolchains = None,
) -> None:
    """Show what this machine has, what is missing, and the command that fixes it."""
    import json

    from rich.console import Console

    from rldyno.doctor.diagnosis import diagnose
    from rldyno.toolchains.resolve import parse_overrides

    overrides = parse_overrides(toolchain or [])
    diagnosis = diagnose(overrides, None if quick else _measured_spread())
    if as_json:
        print(json.dumps(diagnosis.to_json(), indent=1))
    else:
        _print(Console(highlight=False, soft_wrap=True, markup=False), diagnosis)
    if not diagnosis.can_run:
        raise typer.Exit(1)


def _measured_spread() -> Spread:
    """Shows how far it is on stderr, so that stdout stays clean for --json."""
    from rich.console import Console

    from rldyno.doctor.spread import RUNS, measure_spread

    words = "measuring how much the same run varies here"
    with Console(stderr=True).status(words) as status:
        return measure_spread(on_run=lambda done: status.update(f"{words}: {done} of {RUNS} runs"))


def _print(console: Console, diagnosis: Diagnosis) -> None:
    for label, value in _facts(diagnosis):
        console.print(f"{label:12}{value}")
    console.print()
    for report in diagnosis.toolchains:
        console.print(_toolchain_line(report))
    console.print("\noptional parts (rldyno setup NAME --with PART)")
    for line in _part_lines(diagnosis.toolchains):
        console.print(line)
    console.print()
    if not diagnosis.findings:
        console.print("nothing is missing")
    for finding in diagnosis.findings:
        console.print(f"! {finding.problem}\n  fix: {finding.fix}")
    if not diagnosis.can_run:
        console.print("no contestant can run on this machine yet")


def _facts(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    from rldyno.toolchains.progress import megabytes

    machine, noise = diagnosis.machine, diagnosis.noise
    compilers = [name for name, version in machine.compilers.items() if version]
    cores = f"{machine.cores_usable} of {machine.cores_logical} cores usable"
    free, total = machine.memory_available_bytes, machine.memory_total_bytes
    gpus = [f"{gpu.name} ({megabytes(gpu.memory_total_bytes)})" for gpu in machine.gpus]
    steal = "not counted here" if noise.steal_percent is None else f"{noise.steal_percent:.1f} %"
    hosted = f", in a {machine.virtualisation}" if machine.virtualisation else ""
    return [
        ("system", f"{machine.os}, kernel {machine.kernel}{hosted}"),
        ("processor", f"{machine.cpu}: {cores}"),
        ("memory", f"{megabytes(free)} free of {megabytes(total)}"),
        ("GPUs", ", ".join(gpus) or f"none ({machine.gpus_reason})"),
        ("CPU energy", machine.cpu_energy_reason or "readable"),
        ("counters", machine.counters_reason or "readable"),
        ("disk", f"{megabytes(diagnosis.cache_free_bytes)} free in {diagnosis.cache}"),
        ("Pythons", ", ".join(python.version for python in diagnosis.pythons)),
        ("compilers", ", ".join(compilers) or "none"),
        (
            "noise",
            f"a fixed piece of work of {noise.calibration_ns / 1e6:.1f} ms varies by "
            f"{noise.calibration_spread:.0%}; stolen CPU time: {steal}",
        ),
        *_spread_lines(diagnosis.spread),
        ("config", diagnosis.config or "none"),
    ]


def _spread_lines(spread: Spread | None) -> list[tuple[str, str]]:
    if spread is None:
        return [("run to run", "not measured (--quick)")]
    typical = sorted(spread.train_s)[len(spread.train_s) // 2]
    differences = [f"{difference:.1%} with {seeds}" for seeds, difference in spread.detectable.items()]
    differences[0] += " seeds"
    low, high = spread.interval
    return [
        (
            "run to run",
            f"the same training of {typical:.2f} s varies by {spread.spread:.1%} ({low:.1%}–{high:.1%}) "
            f"over {len(spread.train_s)} fresh processes",
        ),
        ("it can show", f"differences in speed of {', '.join(differences)} (80 % power, 5 % error)"),
    ]


def _part_lines(reports: Sequence[ToolchainReport]) -> Iterator[str]:
    """One line for each part: what it is for, and where it stands in each toolchain."""
    for name in dict.fromkeys(part.name for report in reports for part in report.parts):
        having = {report.name: part for report in reports for part in report.parts if part.name == name}
        states = {
            name: part.status + "".join(f", needs {what}" for what in part.lacks)
            for name, part in having.items()
        }
        grouped = [
            f"{status}: {' '.join(of for of, found in states.items() if found == status)}"
            for status in dict.fromkeys(states.values())
        ]
        purpose = ", ".join(next(iter(having.values())).serves)
        yield f"{name:12}{f'for {purpose}':22}{'; '.join(grouped)}"


def _toolchain_line(report: ToolchainReport) -> str:
    from rldyno.toolchains.progress import megabytes

    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    size = f"  {megabytes(report.size_bytes)}" if report.size_bytes is not None else ""
    what = ", ".join(report.usable_modes) or report.kind
    known = f"  {versions}, Python {report.python}" if report.versions and report.status != "given" else ""
    place = f"  {report.path}" if report.status in ("given", "broken") else ""
    return f"{report.name:12}{report.status:10}{report.variant:6}{what:26}{known}{size}{place}".rstrip()
