"""`rldyno limits`: what this machine can do at best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from rich.table import Table

    from rldyno.records.machine_limits import DeviceLimits, EnvironmentRate

_LABELS = {
    "flops_per_s": "matrix product",
    "copy_bytes_per_s": "copy",
    "transfer_bytes_per_s": "host to device",
}


def limits(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    cores: Annotated[
        int | None, typer.Option(min=1, help="CPU cores. Default: one, and all of this machine.")
    ] = None,
    environment: Annotated[
        list[str] | None, typer.Option(help="Environments to step without an agent; repeatable.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Measure everything again.")] = False,
    toolchain: Toolchains = None,
) -> None:
    """Measure and keep the best matrix product, copy bandwidth and environment speed of this machine."""
    from rich.console import Console

    from rldyno.limits.disturbance import warnings
    from rldyno.limits.measure import environment_rates, limits_of
    from rldyno.machine.devices import check_device
    from rldyno.machine.facts import usable_cores
    from rldyno.text.terminal import print_fitting
    from rldyno.toolchains.resolve import parse_overrides
    from rldyno_rig.job_files import EnvironmentCase

    check_device(device)
    overrides = parse_overrides(toolchain or [])
    counts = [cores] if cores else sorted({1, usable_cores()}) if device == "cpu" else [1]
    console = Console(highlight=False)
    found = [limits_of(device, count, overrides, again) for count in counts]
    rates = environment_rates(map(EnvironmentCase, environment or ["CartPole-v1"]), overrides, again)
    print_fitting(_table(device, found, rates), console, (), "a wider terminal, or --cores N for some cores")
    for line in [*_reasons(found), *_missing(rates)]:
        console.print(line, markup=False, soft_wrap=True)
    for line in warnings(found, rates):
        words = f"{line}. Run this command on a quiet machine to measure it again"
        console.print(words, style="yellow", markup=False, soft_wrap=True)


def _table(device: str, found: list[DeviceLimits], rates: list[EnvironmentRate]) -> Table:
    from rich.table import Table

    shown = Table(title=f"limits of this machine, {device}", title_justify="left")
    shown.add_column("Limit")
    for one in found:
        shown.add_column(f"{one.cores} core{'s' if one.cores != 1 else ''}", justify="right")
    for dtype in dict.fromkeys(dtype for one in found for dtype in one.flops_per_s):
        figures = (_scaled(one.flops_per_s.get(dtype), 1e9, "GFLOP/s") for one in found)
        shown.add_row(f"matrix product, {dtype}", *figures)
    shown.add_row("copy", *(_scaled(one.copy_bytes_per_s, 1e9, "GB/s") for one in found))
    transfers = (_scaled(one.transfer_bytes_per_s, 1e9, "GB/s") for one in found)
    shown.add_row("host to device, pinned", *transfers)
    for rate in rates:
        cell = _scaled(rate.steps_per_s, 1.0, "steps/s")
        shown.add_row(f"{rate.case.environment} alone, one core", cell, *["–"] * (len(found) - 1))
    return shown


def _scaled(value: float | None, scale: float, unit: str) -> str:
    return "–" if value is None else f"{value / scale:,.3g} {unit}" if scale > 1 else f"{value:,.0f} {unit}"


def _reasons(found: list[DeviceLimits]) -> list[str]:
    reasons = {_LABELS.get(name, name): why for one in found for name, why in one.reasons.items()}
    by = ", ".join(dict.fromkeys(one.by for one in found if one.by))
    return [
        *([f"measured with {by} on {found[0].name}"] if by else []),
        *(f"{name}: not measured: {why}" for name, why in reasons.items()),
    ]


def _missing(rates: list[EnvironmentRate]) -> list[str]:
    return [f"{rate.case.environment}: not measured: {rate.reason}" for rate in rates if rate.reason]
