"""`rldyno nets`: time one act and one update of a network alone, in every contestant."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.nets.work import Benchmark
    from rldyno.studies.networks_study import NetworksStudy

nets = typer.Typer(
    help="Time networks alone: one inference and one training step, in every contestant.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


Contestants = Annotated[
    str, typer.Option(help="torch:eager,jax:jit,… or torch for all its modes; all: every one that is built.")
]
Networks = Annotated[str, typer.Option("--nets", help="Some of small, large, mlp64, mlp128, … mlpN.")]
AlgorithmName = Annotated[
    str,
    typer.Option(
        help="classifier: the work of the paper; the name of an agent, such as dqn: its act and update."
    ),
]
BatchAct = Annotated[str, typer.Option(help="Observations per inference call.")]
BatchTrain = Annotated[str, typer.Option(help="Rows per training step.")]
DeviceName = Annotated[str, typer.Option(help="cpu or cuda.")]
Cores = Annotated[int, typer.Option(min=1, help="CPU cores of each worker.")]
Dtype = Annotated[
    str, typer.Option(help="float32, float64, or tf32 (float32 with TensorFloat-32 products; GPU).")
]
Copies = Annotated[
    str | None,
    typer.Option(
        help="Where the data lies: pageable, pinned (both: the copy is timed), resident (it is not). "
        "Default: pageable on a CPU, where nothing is copied to a device; all three on a GPU."
    ),
]
Rounds = Annotated[int, typer.Option(min=1, help="Every contestant is measured once in each round.")]
Seconds = Annotated[
    float | None, typer.Option(min=0.001, help="Length of one measurement. Default: 0.5; on a GPU 2.")
]
NoVerify = Annotated[
    bool, typer.Option("--no-verify", help="Do not prove contestants first; they stay uncertified.")
]
ConfigFile = Annotated[Path | None, typer.Option(help="A settings file, used instead of RLDYNO_CONFIG.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Directory of nets.json. Default: results/nets-<time>.")
]


@nets.callback()
def measure(
    context: typer.Context,
    contestants: Contestants = "all",
    networks: Networks = "small,large",
    algorithm: AlgorithmName = "classifier",
    batch_act: BatchAct = "16",
    batch_train: BatchTrain = "128",
    device: DeviceName = "cpu",
    cores: Cores = 1,
    dtype: Dtype = "float32",
    copies: Copies = None,
    rounds: Rounds = 5,
    seconds: Seconds = None,
    no_verify: NoVerify = False,
    toolchain: Toolchains = None,
    config: ConfigFile = None,
    out: Out = None,
) -> None:
    """Measure, keep nets.json, print the tables."""
    if context.invoked_subcommand is not None:
        return
    from rldyno.config import CONFIG_VARIABLE
    from rldyno.toolchains.resolve import parse_overrides

    if config is not None:
        os.environ[CONFIG_VARIABLE] = str(config)
    benchmark = _benchmark(
        contestants,
        networks,
        algorithm,
        batch_act,
        batch_train,
        device,
        cores,
        dtype,
        copies,
        rounds,
        seconds if seconds is not None else 0.5 if device == "cpu" else 2.0,
    )
    directory = out or Path("results") / time.strftime("nets-%Y%m%d-%H%M%S")
    _measure(benchmark, directory, parse_overrides(toolchain or []), verify=not no_verify)


def _measure(benchmark: Benchmark, directory: Path, overrides: dict[str, Path], verify: bool) -> None:
    from rldyno.errors import Problem
    from rldyno.nets.measure import run
    from rldyno.nets.show import show as show_record
    from rldyno.records.directory import NETS_FILE

    console = _console()
    path = directory / NETS_FILE
    if path.exists():
        raise Problem(f"{path} exists", fix="choose another directory with -o, or remove it")

    def print_line(line: str) -> None:
        console.print(line, markup=False, soft_wrap=True, style="dim")

    try:
        record = run(benchmark, path, print_line, overrides, verify)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        if path.exists():
            show_record(directory, console)
        raise typer.Exit(130) from None
    show_record(directory, console)
    console.print(f"record: {path}", markup=False, soft_wrap=True)
    if not any(measured.rounds for measured in record.measurements):
        raise typer.Exit(1)


def time_networks(study: NetworksStudy, directory: Path, toolchains: list[str], *, verify: bool) -> None:
    """A shipped study of networks: on a GPU if there is one; frameworks that cannot use it are left out."""
    from rldyno.errors import Problem
    from rldyno.machine.devices import usable_gpus
    from rldyno.toolchains.contestants import chosen_contestants
    from rldyno.toolchains.resolve import parse_overrides

    device = "cuda" if usable_gpus()[0] else "cpu"
    print(f"{study.title}\n{study.question}\non {device}")
    chosen = []
    for framework in study.frameworks:
        try:
            chosen += chosen_contestants([framework], device)
        except Problem as problem:
            print(f"left out: {problem.message}")
    names, nets_named = ",".join(chosen), ",".join(study.nets)
    seconds = 0.5 if device == "cpu" else 2.0
    sizes = ("classifier", "16", "128", device, 1, "float32", None, study.rounds, seconds)
    _measure(_benchmark(names, nets_named, *sizes), directory, parse_overrides(toolchains), verify)


def _console() -> Console:
    """A file or a pipe gets tables that are wide enough."""
    from rich.console import Console

    return Console(width=None if Console().is_terminal else 160, highlight=False)


@nets.command()
def show(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory with a nets.json.")],
) -> None:
    """Print the tables of an earlier measurement again, and write them beside it."""
    from rldyno.nets.show import show as show_record

    show_record(directory, _console())


def _benchmark(
    contestants: str,
    networks: str,
    algorithm: str,
    batch_act: str,
    batch_train: str,
    device: str,
    cores: int,
    dtype: str,
    copies: str | None,
    rounds: int,
    seconds: float,
) -> Benchmark:
    from rldyno.errors import Problem
    from rldyno.machine.devices import check_device
    from rldyno.nets.work import COPIES, PAGEABLE, Benchmark, net_named
    from rldyno.toolchains.contestants import chosen_contestants
    from rldyno_rig.algorithms import LEARNERS

    check_device(device)
    if device == "cpu" and dtype == "tf32":
        raise Problem(
            "--dtype tf32: TensorFloat-32 is a precision of GPUs", fix="add --device cuda, or take float32"
        )
    given = [COPIES[0]] if device == "cpu" else list(COPIES)
    if copies is not None:
        given = [_one_of("--copies", where, COPIES) for where in _listed("--copies", copies)]
    if device == "cpu" and PAGEABLE not in given:
        raise Problem(
            f"--copies {copies}: on a CPU nothing is copied to a device",
            fix="leave it out, or add --device cuda",
        )
    names = [] if contestants == "all" else _listed("--contestants", contestants)
    return Benchmark(
        contestants=tuple(chosen_contestants(names, device)),
        nets=tuple(net_named(name) for name in _listed("--nets", networks)),
        algorithm=_one_of("--algorithm", algorithm, LEARNERS),
        device=device,
        cores=cores,
        dtype=_one_of("--dtype", dtype, ("float32", "float64", "tf32")),
        act_rows=_sizes("--batch-act", batch_act),
        update_rows=_sizes("--batch-train", batch_train),
        copies=tuple(given),
        rounds=rounds,
        seconds=seconds,
    )


def _listed(option: str, text: str) -> list[str]:
    from rldyno.errors import Problem

    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise Problem(f"{option} {text!r} names nothing", fix=f"leave {option} out for its default")
    return parts


def _one_of(option: str, value: str, known: Iterable[str]) -> str:
    from rldyno.errors import Problem

    names = list(known)
    if value not in names:
        raise Problem(f"{option} {value}: unknown here", fix=f"choose from: {', '.join(names)}")
    return value


def _sizes(option: str, text: str) -> tuple[int, ...]:
    from rldyno.errors import Problem

    try:
        sizes = tuple(int(part) for part in _listed(option, text))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise Problem(f"{option} {text}: not a list of sizes", fix=f"for example {option} 16,64")
    return sizes
