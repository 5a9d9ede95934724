"""`rldyno open`: each framework's best whole training loop, environment included."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from rich.table import Table

    from rldyno.division.measure import OpenRequest
    from rldyno.division.record import OpenRecord, OpenRow

Frameworks = Annotated[str, typer.Option("--contestants", help="Some of jax, torch, tensorflow, numpy.")]
Algorithm = Annotated[str, typer.Option(help="ppo, dqn or a2c.")]
Environment = Annotated[str, typer.Option(help="CartPole-v1, CartPole-v0 or MountainCar-v0.")]
Environments = Annotated[
    str | None,
    typer.Option(help="Environments side by side; a list is measured one by one. Default: 4,2048."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another hyper-parameter than the closed division's; repeatable.",
    ),
]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Dtype = Annotated[str, typer.Option(help="float32 or float64.")]
Agents = Annotated[int, typer.Option(min=1, help="Agents that train side by side (jax).")]
Seconds = Annotated[float, typer.Option(min=0.01, help="Length of one measurement.")]
Repeats = Annotated[int, typer.Option(min=1, help="Measurements; the best one counts.")]
Closed = Annotated[bool, typer.Option("--closed", help="Also run the closed division, for the ratio.")]
Parts = Annotated[bool, typer.Option("--parts", help="Also show what environment, acting and learning take.")]
Learning = Annotated[
    int | None,
    typer.Option(
        min=3, metavar="SEEDS", help="Instead of speed: do so many seeds learn like the closed ones?"
    ),
]
Steps = Annotated[int, typer.Option(min=1, help="With --learning: steps after which a seed has failed.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Directory of open.json. Default: results/open-<time>.")
]


FASTER = 1.05
"""Times the closed division from which a loop counts as faster: measurements are no more exact."""


def open_division(
    contestants: Frameworks = "jax",
    algorithm: Algorithm = "ppo",
    environment: Environment = "CartPole-v1",
    environments: Environments = None,
    settings: Settings = None,
    device: Device = "cpu",
    dtype: Dtype = "float32",
    agents: Agents = 1,
    seconds: Seconds = 1.0,
    repeats: Repeats = 5,
    closed: Closed = False,
    parts: Parts = False,
    learning: Learning = None,
    steps: Steps = 150_000,
    toolchain: Toolchains = None,
    out: Out = None,
) -> None:
    """Train in whole loops of one framework, and show steps per second and compile time."""
    from rldyno.division.measure import OpenRequest
    from rldyno.machine.devices import check_device
    from rldyno.toolchains.resolve import parse_overrides

    check_device(device)
    # Learning is compared with the number of environments that the hyper-parameters were tuned for.
    default = "4,2048" if learning is None else str(_tuned(algorithm, environment))
    request = OpenRequest(
        frameworks=tuple(dict.fromkeys(name.strip() for name in contestants.split(","))),
        algorithm=algorithm,
        environment=environment,
        environments=_counts(environments or default),
        changes=dict(map(_setting, settings or [])),
        device=device,
        dtype=dtype,
        agents=agents,
        seconds=seconds,
        repeats=repeats,
        closed=closed,
        parts=parts,
    )
    directory = out or Path("results") / time.strftime("open-%Y%m%d-%H%M%S")
    if learning is None:
        _measure(request, directory, parse_overrides(toolchain or []))
    else:
        _check_learning(request)
        _learn(request, learning, steps, directory, parse_overrides(toolchain or []))


def _check_learning(request: OpenRequest) -> None:
    """A Problem for options of speed: they would be ignored."""
    from rldyno.errors import Problem

    speed = {
        "--closed": request.closed,
        "--parts": request.parts,
        "--agents": request.agents > 1,
        "several --environments": len(request.environments) > 1,
    }
    if wrong := [option for option, given in speed.items() if given]:
        raise Problem(
            f"--learning trains one agent for each seed, and measures no speed: not with {', '.join(wrong)}",
            fix=f"leave out {', '.join(wrong)}",
        )


def _tuned(algorithm: str, environment: str) -> int:
    from rldyno_rig.algorithms import ALGORITHMS

    return int(ALGORITHMS[algorithm].defaults(environment).environments) if algorithm in ALGORITHMS else 1


def _learn(request: OpenRequest, seeds: int, steps: int, directory: Path, overrides: dict[str, Path]) -> None:
    """Print one verdict for each framework, and keep them."""
    from rich.console import Console

    from rldyno.answers.open_learning import verdict
    from rldyno.division.learning import REFERENCE, closed_curves, goal_of, open_curves
    from rldyno.division.measure import check
    from rldyno.division.record import OPEN_LEARNING
    from rldyno.records import files as records
    from rldyno_rig.open.tasks import TASKS

    check(request)
    path = _new(directory, OPEN_LEARNING)
    console, goal = Console(highlight=False), goal_of(request.environment, steps)
    task = f"{request.algorithm} on {request.environment}, {seeds} seeds"
    console.print(f"{REFERENCE}, closed division, {task}", style="dim", markup=False)
    theirs = closed_curves(request, seeds, goal, overrides)
    kept = {"algorithm": request.algorithm, "environment": request.environment, "goal": vars(goal)}
    rows = []
    for framework in request.frameworks:
        console.print(f"{framework}, open division, {task}", style="dim", markup=False)
        mine = open_curves(request, framework, seeds, goal, overrides)
        rows.append(verdict(framework, mine, theirs, REFERENCE, goal, TASKS[request.environment].reward))
        console.print(rows[-1].words, markup=False, soft_wrap=True)
        directory.mkdir(parents=True, exist_ok=True)
        records.write_json(path, {**kept, "rows": [row.to_json() for row in rows]})
    console.print(f"record: {path}", markup=False, soft_wrap=True)
    if any(row.parity.state == "different" for row in rows):
        raise typer.Exit(1)


def _new(directory: Path, name: str) -> Path:
    from rldyno.errors import Problem

    path = directory / name
    if path.exists():
        raise Problem(f"{path} exists", fix="choose another directory with -o, or remove it")
    return path


def _measure(request: OpenRequest, directory: Path, overrides: dict[str, Path]) -> None:
    from rich.console import Console

    from rldyno.division.measure import measure
    from rldyno.division.record import OPEN_RECORD, OpenRecord, write_open
    from rldyno.machine.facts import host_sha256
    from rldyno.records import files as records
    from rldyno.text.terminal import print_fitting
    from rldyno_rig import hyper

    path = _new(directory, OPEN_RECORD)
    console = Console(highlight=False)

    def progress(line: str) -> None:
        console.print(line, style="dim", markup=False)

    record = OpenRecord(
        made_at=records.now_iso(),
        host_sha256=host_sha256(),
        algorithm=request.algorithm,
        environment=request.environment,
        device=request.device,
        dtype=request.dtype,
        agents=request.agents,
        hyper=hyper.to_json(request.values(request.environments[0])),
        rows=tuple(measure(request, overrides, progress)),
    )
    directory.mkdir(parents=True, exist_ok=True)
    write_open(path, record)
    print_fitting(_table(record), console, ("steps/s",), f"read {path}")
    for line in _notes(record):
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"record: {path}", markup=False, soft_wrap=True)
    if not any(row.found for row in record.rows):
        raise typer.Exit(1)


def _table(record: OpenRecord) -> Table:
    from rich.table import Table

    agents = f", {record.agents} agents" if record.agents > 1 else ""
    title = (
        f"open division: {record.algorithm} on {record.environment}, {record.device}, {record.dtype}{agents}"
    )
    table = Table(title=title, title_justify="left")
    table.add_column("framework")
    for name in ("environments", "steps/s", "compile s", "first return", "last return"):
        table.add_column(name, justify="right")
    closed, parts = any(row.closed for row in record.rows), _parts(record)
    more = ("closed steps/s", "times closed") if closed else ()
    for name in (*more, "share of limit", *(f"{part} µs" for part in parts)):
        table.add_column(name, justify="right")
    for row in record.rows:
        table.add_row(*_cells(row, closed, parts))
    return table


def _parts(record: OpenRecord) -> list[str]:
    found = (row.found.parts_us or {} for row in record.rows if row.found)
    return list(dict.fromkeys(part for one in found for part in one))


def _cells(row: OpenRow, closed: bool, parts: list[str]) -> list[str]:
    found = row.found
    cells = [row.framework, f"{row.environments:,}", *["–"] * 4]
    if found is not None:
        returns = ("–" if r is None else f"{r:.0f}" for r in (found.returns[0], found.returns[-1]))
        cells[2:] = [f"{found.best:,.0f}", f"{found.compile_s:.1f}", *returns]
    if closed:
        cells.append(_figure(row.closed_steps_per_s, "{:,.0f}"))
        cells.append(_figure(row.times_closed, "{:.1f}×"))
    cells.append(_figure(row.share_of_limit, "{:.1%}"))
    spent = (found.parts_us if found else None) or {}
    return cells + [_figure(spent.get(part), "{:.3g}") for part in parts]


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)


def _notes(record: OpenRecord) -> list[str]:
    notes = [
        "Never ranked with the closed division: here the loop and the environment are the framework's, too."
    ]
    limit = (
        "network's products would take at the peak of one core"
        if record.device == "cpu"
        else ("network's products would take at the GPU's peak")
    )
    notes.append(f"Share of limit: the time that the {limit}, over the time of a step.")
    notes += [f"{row}: not measured: {row.reason}" for row in record.rows if row.reason]
    notes += [f"{row}: {_beside(row)}" for row in record.rows if row.times_closed is not None]
    return notes


def _beside(row: OpenRow) -> str:
    times = row.times_closed or 0.0
    if times < FASTER:
        return f"no faster than {row.closed} in the closed loop ({times:.2f}×)"
    return f"{row.closed} in the closed loop leaves {times:.1f}× on the table"


def _counts(text: str) -> tuple[int, ...]:
    from rldyno.errors import Problem

    parts = text.split(",")
    if not all(part.strip().isdigit() and int(part) > 0 for part in parts):
        raise Problem(f"--environments {text}: not a list of positive numbers", fix="for example 4,2048")
    return tuple(dict.fromkeys(map(int, parts)))


def _setting(text: str) -> tuple[str, Any]:
    from rldyno.errors import Problem

    name, equals, value = text.partition("=")
    if not equals:
        raise Problem(f"--set {text}: not NAME=VALUE", fix="for example --set rollout_steps=128")
    if name == "environments":
        raise Problem(f"--set {text}: their number is an option of its own", fix=f"--environments {value}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
