"""`rldyno doctor`: the diagnosis as text or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.doctor import Diagnosis, ToolchainReport


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    toolchain: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PYTHON", help="Use this interpreter for a framework; repeatable."),
    ] = None,
) -> None:
    """Say what this machine has, what is missing, and the command that mends it."""
    import json

    from rich.console import Console

    from rldyno.doctor import diagnose
    from rldyno.toolchains.resolve import parse_overrides

    diagnosis = diagnose(parse_overrides(toolchain or []))
    if as_json:
        print(json.dumps(diagnosis.to_json(), indent=1))
    else:
        _print(Console(highlight=False, soft_wrap=True, markup=False), diagnosis)
    if not diagnosis.can_run:
        raise typer.Exit(1)


def _print(console: Console, diagnosis: Diagnosis) -> None:
    for label, value in _facts(diagnosis):
        console.print(f"{label:12}{value}")
    console.print()
    for report in diagnosis.toolchains:
        console.print(_toolchain_line(report))
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
    compilers = [name for name, version in machine["compilers"].items() if version]
    cores = f"{machine['cores_usable']} of {machine['cores_logical']} cores usable"
    free, total = machine["memory_available_bytes"], machine["memory_total_bytes"]
    gpus = [f"{gpu['name']} ({megabytes(gpu['memory_total_bytes'])})" for gpu in machine["gpus"]]
    steal = "not counted here" if noise.steal_percent is None else f"{noise.steal_percent:.1f} %"
    hosted = f", in a {machine['virtualisation']}" if machine["virtualisation"] else ""
    return [
        ("system", f"{machine['os']}, kernel {machine['kernel']}{hosted}"),
        ("processor", f"{machine['cpu']}: {cores}"),
        ("memory", f"{megabytes(free)} free of {megabytes(total)}"),
        ("GPUs", ", ".join(gpus) or f"none ({machine['gpus_reason']})"),
        ("disk", f"{megabytes(diagnosis.cache_free_bytes)} free in {diagnosis.cache}"),
        ("Pythons", ", ".join(python.version for python in diagnosis.pythons)),
        ("compilers", ", ".join(compilers) or "none"),
        (
            "noise",
            f"a fixed piece of work of {noise.calibration_ns / 1e6:.1f} ms varies by "
            f"{noise.calibration_spread:.0%}; stolen CPU time: {steal}",
        ),
        ("config", diagnosis.config or "none"),
    ]


def _toolchain_line(report: ToolchainReport) -> str:
    from rldyno.toolchains.progress import megabytes

    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    size = f"  {megabytes(report.size_bytes)}" if report.size_bytes is not None else ""
    what = ", ".join(report.usable_modes) or report.kind
    known = f"  {versions}, Python {report.python}" if report.versions and report.status != "given" else ""
    place = f"  {report.path}" if report.status in ("given", "broken") else ""
    return f"{report.name:12}{report.status:10}{report.variant:6}{what:26}{known}{size}{place}".rstrip()
