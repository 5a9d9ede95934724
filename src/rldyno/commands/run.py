"""`rldyno run STUDY`: run a study, or continue it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.nets import time_networks
from rldyno.commands.options import Place, Quick, Seeds, Toolchains

if TYPE_CHECKING:
    from rldyno.session.cluster import ClusterOptions
    from rldyno.session.reruns import NoiseLimit
    from rldyno.session.session import Options


MaxNoise = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="SCORE", help="Repeat trials whose noise score is above this."),
]
NoiseAttempts = Annotated[
    int | None,
    typer.Option(min=1, help="With --max-noise: attempts per trial, 3 by default; the quietest one counts."),
]


Given = Annotated[
    Path, typer.Argument(metavar="STUDY", help="A study file, a shipped study, or a directory to continue.")
]
Out = Annotated[Path | None, typer.Option(help="Results directory. Default: results/<name of the study>.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Trials at the same time, each on its own CPUs. Default: 1.")
]
Hours = Annotated[
    float | None, typer.Option(min=0.0, help="Start no block of seeds that would end later than this.")
]
KeepFailed = Annotated[bool, typer.Option("--keep-failed", help="Do not run failed trials again.")]
Amend = Annotated[
    bool, typer.Option("--amend", help="Continue although the study or the conditions have changed.")
]
NoVerify = Annotated[bool, typer.Option("--no-verify", help="Do not certify contestants first.")]
NoLimits = Annotated[bool, typer.Option("--no-limits", help="Do not measure the limits of this machine.")]
Tensorboard = Annotated[
    bool, typer.Option("--tensorboard", help="Write TensorBoard event files while trials run.")
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Do not write the HTML report.")]
Where = Annotated[Place, typer.Option("--launcher", help="Run the trials here, or as jobs of Slurm.")]
SlurmChanges = Annotated[
    list[str] | None,
    typer.Option("--slurm", metavar="KEY=VALUE", help="Overrides a key of [slurm] in the config file."),
]
Detach = Annotated[
    bool, typer.Option("--detach", help="With slurm: submit the jobs and leave; the last one goes on.")
]
PrintScripts = Annotated[
    bool, typer.Option("--print-scripts", help="With slurm: write the batch scripts, submit nothing.")
]
Continued = Annotated[bool, typer.Option("--continued", hidden=True)]


def run(
    context: typer.Context,
    study: Given,
    out: Out = None,
    seeds: Seeds = None,
    quick: Quick = False,
    toolchain: Toolchains = None,
    jobs: Jobs = None,
    hours: Hours = None,
    keep_failed: KeepFailed = False,
    amend: Amend = False,
    no_verify: NoVerify = False,
    max_noise: MaxNoise = None,
    noise_attempts: NoiseAttempts = None,
    no_limits: NoLimits = False,
    tensorboard: Tensorboard = False,
    no_report: NoReport = False,
    launcher: Where = Place.LOCAL,
    slurm: SlurmChanges = None,
    detach: Detach = False,
    print_scripts: PrintScripts = False,
    continued: Continued = False,
) -> None:
    """Run a study and print its answer. The same command continues an interrupted run."""
    from rldyno.studies.networks_study import networks_study

    if (networks := networks_study(study, quick)) is not None:
        refuse_unused(context, str(study))
        home = out or Path("results") / (f"{study}-quick" if quick else str(study))
        time_networks(networks, home, toolchain or [], verify=not no_verify)
        return
    from rldyno.session.session import Options
    from rldyno.toolchains.resolve import parse_overrides

    options = Options(
        out=out,
        overrides=parse_overrides(toolchain or []),
        seeds=seeds,
        quick=quick,
        jobs=jobs,
        hours=hours,
        keep_failed=keep_failed,
        amend=amend,
        verify=not no_verify,
        report=not no_report,
        limits=not no_limits,
        tensorboard=tensorboard,
        noise_limit=noise_limit(max_noise, noise_attempts),
        cluster=cluster_options(launcher, slurm or [], detach, print_scripts, continued),
    )
    run_to_an_end(study, options)


def run_to_an_end(study: Path, options: Options) -> None:
    from rich.console import Console

    from rldyno.launch.launcher import DetachedError
    from rldyno.session.session import run_study

    try:
        finished = run_study(study, options, Console())
    except DetachedError as left:
        print(str(left))
        raise typer.Exit(left.code) from None
    except KeyboardInterrupt:
        print("stopped; run the same command to continue", file=sys.stderr)
        raise typer.Exit(130) from None
    raise typer.Exit(0 if finished else 1)


def refuse_unused(context: typer.Context, study: str) -> None:
    """Networks alone have no trials: most options would do nothing."""
    from rldyno.errors import Problem

    used = {"study", "out", "quick", "toolchain", "no_verify"}
    given = {
        parameter.opts[0]: context.get_parameter_source(str(parameter.name))
        for parameter in context.command.params
        if parameter.name not in used
    }
    unused = [
        option for option, source in given.items() if source is not None and source.name == "COMMANDLINE"
    ]
    if unused:
        raise Problem(
            f"{study} times networks alone and cannot use {', '.join(unused)}",
            fix="leave it out; `rldyno nets --help` shows what can be chosen",
        )


def cluster_options(
    launcher: Place, changes: list[str], detach: bool, print_scripts: bool, continued: bool
) -> ClusterOptions | None:
    from rldyno.config import load_config, with_changes
    from rldyno.errors import Problem
    from rldyno.session.cluster import ClusterOptions

    if launcher is Place.SLURM:
        settings = with_changes(load_config().slurm, changes)
        return ClusterOptions(settings, tuple(changes), detach, continued, print_scripts)
    if changes or detach or print_scripts or continued:
        raise Problem("--slurm, --detach and --print-scripts are for a cluster", fix="add --launcher slurm")
    return None


def noise_limit(max_noise: float | None, attempts: int | None) -> NoiseLimit | None:
    from rldyno.errors import Problem
    from rldyno.session.reruns import ATTEMPTS_AT_MOST, NoiseLimit

    if max_noise is not None:
        return NoiseLimit(max_noise, attempts or ATTEMPTS_AT_MOST)
    if attempts:
        raise Problem("--noise-attempts does nothing by itself", fix="add --max-noise 0.1, or leave it out")
    return None
