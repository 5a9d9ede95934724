"""`rldyno bisect`: find the release of a framework in which a figure moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rldyno.bisection.question import Question


def bisect(
    framework: Annotated[str, typer.Argument(metavar="FRAMEWORK", help="For example jax.")],
    versions: Annotated[
        str | None, typer.Argument(metavar="[OLD..NEW]", help="The releases to search, both included.")
    ] = None,
    mode: Annotated[str, typer.Option(help="The execution mode, for example jit.")] = "",
    metric: Annotated[
        str, typer.Option(help="update, updates (several in one call), act, or startup.")
    ] = "update",
    algorithm: Annotated[str, typer.Option(help="The agent whose network is timed.")] = "dqn",
    net: Annotated[str, typer.Option(help="small, large, mlp64, mlp128, … mlpN.")] = "mlp64",
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of a batch. Default: 64; of act 1.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    cores: Annotated[int, typer.Option(min=1, help="CPU cores of each worker.")] = 1,
    threshold: Annotated[
        float, typer.Option(metavar="SHARE", help="Ignore changes below this share.")
    ] = 0.05,
    rounds: Annotated[int, typer.Option(min=3, help="Most rounds of one comparison.")] = 40,
    seconds: Annotated[float, typer.Option(min=0.001, help="Length of one measurement.")] = 0.2,
    releases: Annotated[
        str | None, typer.Option(help="Search these instead of a range: 0.6.0,0.6.1,./jax-0.7-….whl")
    ] = None,
    pre: Annotated[bool, typer.Option("--pre", help="Include pre-releases.")] = False,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Do not prove the releases first.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Directory of bisect.json. The same one goes on.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Find the release in which a figure moved by more than the noise."""
    from rldyno.bisection.question import ROWS, Question

    _check(framework, mode, metric, algorithm, device, threshold)
    question = Question(
        framework,
        mode,
        metric,
        algorithm,
        net,
        rows or ROWS[metric],
        device,
        cores,
        threshold=threshold,
        most_rounds=rounds,
        seconds=seconds,
    )
    _search(question, _releases(framework, versions, releases, pre), out, json_, verify=not no_verify)


def _check(framework: str, mode: str, metric: str, algorithm: str, device: str, threshold: float) -> None:
    from rldyno.bisection.question import METRICS
    from rldyno.errors import Problem
    from rldyno.toml.suggestions import suggest
    from rldyno.toolchains.catalogue import catalogue, unknown
    from rldyno.toolchains.contestants import chosen_contestants
    from rldyno_rig.algorithms import LEARNERS
    from rldyno_rig.contestant import Contestant

    known = catalogue()
    if framework not in known:
        raise unknown(framework, known)
    if not mode:
        raise Problem("no mode is given", fix=f"--mode {' or --mode '.join(known[framework].modes)}")
    chosen_contestants([str(Contestant(framework, mode))], device)
    if metric not in METRICS:
        raise Problem(f"unknown metric `{metric}`", fix=f"choose from: {', '.join(METRICS)}")
    if algorithm not in LEARNERS:
        raise Problem(f"unknown algorithm '{algorithm}'{suggest(algorithm, LEARNERS)}", fix="rldyno hyper")
    if not threshold > 0:
        raise Problem("the threshold must be above 0", fix="give a share, for example --threshold 0.05")


def _releases(framework: str, versions: str | None, releases: str | None, pre: bool) -> tuple[str, ...]:
    from rldyno.bisection.index import given_releases, releases_between
    from rldyno.config import load_config
    from rldyno.errors import Problem
    from rldyno.toolchains.catalogue import toolchain
    from rldyno.toolchains.resolve import chosen_variant

    if (versions is None) == (releases is None):
        raise Problem(
            "give either a range or --releases", fix=f"for example rldyno bisect {framework} 0.5..0.8"
        )
    if releases is not None:
        return tuple(given_releases(releases.split(",")))
    chain = toolchain(framework)
    return tuple(releases_between(chain, chosen_variant(chain), versions or "", load_config().pip_args, pre))


def _search(
    question: Question, releases: tuple[str, ...], out: Path | None, json_: bool, verify: bool
) -> None:
    import json

    from rich.console import Console

    from rldyno.bisection import record, show
    from rldyno.bisection.measuring import ProcessMeasurer, default_directory
    from rldyno.bisection.run import search
    from rldyno.machine.cpus import available_cpus, place
    from rldyno.processes.control import pin
    from rldyno.toolchains.progress import shown_progress

    console = Console(highlight=False, stderr=json_)
    path = (out or default_directory(question, releases)) / record.BISECT_FILE
    evidence = record.resume(path, question, releases)

    def print_line(line: str) -> None:
        console.print(line, style="dim", markup=False, soft_wrap=True)

    kept = f"; {len(evidence.rounds)} rounds are kept from before" if evidence.rounds else ""
    print_line(f"{len(releases)} releases, {releases[0]} to {releases[-1]}; kept in {path}{kept}")
    available = available_cpus()
    own, pool = place(available, question.cores)
    cpus = None if pool is None else pool[: question.cores]
    with shown_progress(console) as on_progress:
        measurer = ProcessMeasurer(question, cpus, print_line, on_progress, verify=verify)
        pin(None if own is None else (own,))
        try:
            evidence, finding = search(
                evidence,
                measurer,
                path,
                lambda found: print_line(show.progress_line(found)),
                lambda release, reason: print_line(f"not measured: {release}: {reason}"),
            )
        except KeyboardInterrupt:
            typer.echo("stopped; the same command goes on", err=True)
            raise typer.Exit(130) from None
        finally:
            pin(available)
    if json_:
        print(json.dumps(show.as_json(evidence, finding), indent=1, allow_nan=False))
    else:
        show.show(evidence, finding, console)
