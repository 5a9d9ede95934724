"""`rldyno run STUDY`: run a study, or continue it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.options import Seeds, Toolchains

if TYPE_CHECKING:
    from rldyno.session.reruns import NoiseLimit

MaxNoise = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="SCORE", help="Repeat trials whose noise score is above this."),
]
NoiseAttempts = Annotated[
    int | None,
    typer.Option(min=1, help="With --max-noise: attempts per trial, 3 by default; the quietest one counts."),
]


def run(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="A study file, a shipped study, or a directory to continue."),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Results directory. Default: results/<name of the study>.")
    ] = None,
    seeds: Seeds = None,
    toolchain: Toolchains = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at the same time, each on its own CPUs.")] = 1,
    hours: Annotated[
        float | None,
        typer.Option(min=0.0, help="Start no block of seeds that would end later than this."),
    ] = None,
    keep_failed: Annotated[
        bool,
        typer.Option("--keep-failed", help="Do not run failed trials again."),
    ] = False,
    amend: Annotated[
        bool, typer.Option("--amend", help="Continue although the study or the conditions have changed.")
    ] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not certify contestants first.")] = False,
    max_noise: MaxNoise = None,
    noise_attempts: NoiseAttempts = None,
    no_limits: Annotated[
        bool, typer.Option("--no-limits", help="Do not measure the limits of this machine.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard event files while trials run.")
    ] = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Do not write the HTML report.")] = False,
) -> None:
    """Run a study and print its answer. The same command continues an interrupted run."""
    from rich.console import Console

    from rldyno.session.session import Options, run_study
    from rldyno.toolchains.resolve import parse_overrides

    options = Options(
        out=out,
        overrides=parse_overrides(toolchain or []),
        seeds=seeds,
        jobs=jobs,
        hours=hours,
        keep_failed=keep_failed,
        amend=amend,
        verify=not no_verify,
        report=not no_report,
        limits=not no_limits,
        tensorboard=tensorboard,
        noise_limit=noise_limit(max_noise, noise_attempts),
    )
    try:
        finished = run_study(study, options, Console())
    except KeyboardInterrupt:
        typer.echo("stopped; run the same command to continue", err=True)
        raise typer.Exit(130) from None
    raise typer.Exit(0 if finished else 1)


def noise_limit(max_noise: float | None, attempts: int | None) -> NoiseLimit | None:
    from rldyno.errors import Problem
    from rldyno.session.reruns import ATTEMPTS_AT_MOST, NoiseLimit

    if max_noise is not None:
        return NoiseLimit(max_noise, attempts or ATTEMPTS_AT_MOST)
    if attempts:
        raise Problem("--noise-attempts does nothing by itself", fix="add --max-noise 0.1, or leave it out")
    return None
