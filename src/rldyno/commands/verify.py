"""`rldyno verify`: prove contestants against the reference and show how closely they agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rldyno.commands.options import Toolchains

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from rldyno.proofs.certificate import Certificate, Subject
    from rldyno.toolchains.resolve import Interpreter


CollectiveOption = Annotated[
    list[str] | None,
    typer.Option(help="Only how several workers average: native, horovod or host; repeatable."),
]
DtypeOption = Annotated[
    list[str] | None,
    typer.Option(help="Only this precision: float64, float32, tf32. Makes no certificate."),
]
RungOption = Annotated[
    list[str] | None,
    typer.Option(help="Only this rung, such as `gradients`; repeatable. Makes no certificate."),
]


def verify(
    contestants: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONTESTANT]...",
            help="torch:compile, or torch for all modes. Default: all whose toolchain is built.",
        ),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="STUDY",
            help="Only what this study runs, in its own shapes too: a file, a name or a results directory.",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda; with --study, those of the study.")] = "cpu",
    force: Annotated[
        bool, typer.Option("--force", help="Prove again even if there is a certificate.")
    ] = False,
    table: Annotated[
        bool, typer.Option("--table", help="Show every rung of the ladder, not only the worst.")
    ] = False,
    algorithm: Annotated[
        list[str] | None, typer.Option(help="Only this algorithm, or classifier; repeatable.")
    ] = None,
    network: Annotated[list[str] | None, typer.Option(help="Only mlp or cnn.")] = None,
    collective: CollectiveOption = None,
    dtype: DtypeOption = None,
    rung: RungOption = None,
    toolchain: Toolchains = None,
) -> None:
    """Prove that contestants compute what the float64 reference computes."""
    from rich.console import Console

    from rldyno.proofs.display import ProofDisplay
    from rldyno.proofs.jobs import Part
    from rldyno.proofs.prove import prove, to_make
    from rldyno_rig.algorithms import LEARNERS
    from rldyno_rig.hyper import NETWORKS
    from rldyno_rig.proof.standard import GATE, RUNGS
    from rldyno_rig.team.names import COLLECTIVES

    algorithms = _among(algorithm, LEARNERS, "algorithm") or list(LEARNERS)
    networks = _among(network, NETWORKS, "network") or list(NETWORKS)
    collectives = _among(collective, COLLECTIVES, "collective")
    part = Part(tuple(_among(dtype, GATE, "dtype")), tuple(_among(rung, RUNGS, "rung")))
    console = Console(highlight=False, soft_wrap=True)
    if study is None:
        chosen, interpreters = _chosen(contestants or [], device, toolchain or [], collectives, console)
        every = _everything(chosen, interpreters, device, collectives)
    else:
        every, interpreters = _of_study(study, contestants or [], toolchain or [], console)
    wanted = [one for one in every if one.algorithm in algorithms and one.network in networks]
    if collectives:
        wanted = [one for one in wanted if one.collective in collectives]
    force = force or not part.whole
    with ProofDisplay(console, len(to_make(wanted, interpreters, force)), part.whole) as display:
        proven = prove(wanted, interpreters, display.proven, force, part=part, on_progress=display.progress)
    (_rung_table if table or not part.whole else _summary_table)(proven, console)
    _say_failed([one for one in proven if one.refuted or (part.whole and not one.proven)], console)


def _say_failed(failed: list[Certificate], console: Console) -> None:
    for certificate in failed:
        console.print(certificate.sentence(), style="red", markup=False)
    if failed:
        raise typer.Exit(1)


def _among(given: list[str] | None, known: Iterable[str], what: str) -> list[str]:
    """What was asked for; a Problem that suggests the right word for one that is unknown."""
    from rldyno.errors import Problem
    from rldyno.toml.suggestions import suggest

    names = list(known)
    for name in given or []:
        if name not in names:
            raise Problem(
                f"unknown {what} '{name}'{suggest(name, names)}", fix=f"choose from: {', '.join(names)}"
            )
    return list(dict.fromkeys(given or []))


def _everything(
    chosen: list[str], interpreters: dict[str, Interpreter], device: str, collectives: list[str]
) -> list[Subject]:
    """Every algorithm and network of these contestants; with collectives, every algorithm in teams."""
    from rldyno.errors import Problem
    from rldyno.proofs.prove import every_subject, every_team

    if not collectives:
        return every_subject(chosen, device)
    teams = [
        one
        for one in every_team(chosen, device, collectives)
        if interpreters[one.framework].has(one.collective)
    ]
    if not teams:
        raise Problem(
            f"no collective {' or '.join(collectives)} on {device}: {', '.join(chosen)}",
            fix="`rldyno setup --list` shows the collectives of each framework",
        )
    return teams


def _of_study(
    study: Path, names: list[str], overrides: list[str], console: Console
) -> tuple[list[Subject], dict[str, Interpreter]]:
    """What `rldyno run` would prove of a study, of all its contestants or of these."""
    from rldyno.machine.devices import check_device
    from rldyno.proofs.prove import subjects
    from rldyno.session.environments import check_environments
    from rldyno.session.preparation import find_interpreters, needs_of, why_absent
    from rldyno.studies.given import given_study
    from rldyno.study.plan import make_plan
    from rldyno.toolchains.resolve import parse_overrides

    plan = make_plan(given_study(study).study)
    chosen = _among(names, plan.study.contestants, "contestant of this study") or plan.study.contestants
    cells = tuple(cell for cell in plan.cells if cell.contestant in chosen)
    for device in sorted({cell.device for cell in cells}):
        check_device(device, "run it on the machine on which the study will run")
    used = needs_of(cells)
    interpreters, absent = find_interpreters(used, parse_overrides(overrides), None, console, used)
    for problem in absent.values():
        console.print(f"left out: {problem.message} (fix: {problem.fix})", style="yellow", markup=False)
    if not interpreters:
        raise next(iter(absent.values()))
    cells = tuple(cell for cell in cells if why_absent(absent, cell) is None)
    environments = check_environments(cells, interpreters, lambda line: console.print(line, markup=False))
    return subjects(cells, environments), interpreters


def _chosen(
    names: list[str], device: str, overrides: list[str], collectives: list[str], console: Console
) -> tuple[list[str], dict[str, Interpreter]]:
    """Contestants to prove and the interpreters they run in; toolchains named explicitly are built."""
    from rldyno.errors import Problem
    from rldyno.machine.devices import check_device
    from rldyno.toolchains.catalogue import catalogue
    from rldyno.toolchains.contestants import chosen_contestants
    from rldyno.toolchains.progress import shown_progress
    from rldyno.toolchains.resolve import ensure, parse_overrides, resolve
    from rldyno_rig.contestant import Contestant

    check_device(device)
    given = parse_overrides(overrides)
    chosen = chosen_contestants(names, device)
    frameworks = dict.fromkeys(Contestant.parse(name).framework for name in chosen)
    known = catalogue()
    using = {name: [one for one in collectives if one in known[name].collectives] for name in frameworks}
    if names:
        with shown_progress(console) as on_progress:
            return chosen, ensure(frameworks, given, None, on_progress, using)
    interpreters = {}
    for framework in frameworks:
        try:
            interpreters[framework] = resolve(framework, given, using[framework])
        except Problem as problem:
            console.print(f"left out: {problem.message} (fix: {problem.fix})", style="yellow", markup=False)
    if not interpreters:
        raise Problem("no toolchain is built, so nothing can be proven", fix="rldyno setup", code=1)
    return [name for name in chosen if Contestant.parse(name).framework in interpreters], interpreters


def _summary_table(certificates: list[Certificate], console: Console) -> None:
    """Contestants × algorithms: worst error that has a limit, in float64 and float32."""
    from rich.table import Table

    algorithms = list(dict.fromkeys(certificate.subject.algorithm for certificate in certificates))
    shown = Table(
        title="worst relative error against the reference: float64 (limit 1e-10), float32 (limit 1e-5)"
    )
    shown.add_column("contestant", no_wrap=True)
    shown.add_column("network")
    for algorithm in algorithms:
        shown.add_column(algorithm, justify="right")
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for certificate in certificates:
        subject = certificate.subject
        errors = (certificate.worst(dtype) for dtype in ("float64", "float32"))
        numbers = "  ".join("–" if error is None else f"{error:.0e}" for error in errors)
        cells = rows.setdefault((certificate.contestant, subject.form), {})
        cells[subject.algorithm] = f"{numbers}{'' if certificate.proven else ' ✗'}"
    for (contestant, form), cells in rows.items():
        shown.add_row(contestant, form, *(cells.get(algorithm, "–") for algorithm in algorithms))
    console.print(shown)


def _rung_table(certificates: list[Certificate], console: Console) -> None:
    from rich import box
    from rich.table import Table

    shown = Table(
        title="every rung: relative error against the float64 reference",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for column in ("contestant", "algorithm", "network", "dtype", "rung"):
        shown.add_column(column, no_wrap=column != "rung", overflow="fold")
    for column in ("error", "limit", ""):
        shown.add_column(column, justify="right", no_wrap=True)
    for certificate in certificates:
        subject = certificate.subject
        for rung in certificate.rungs:
            shown.add_row(
                certificate.contestant,
                subject.algorithm,
                subject.form,
                rung.dtype,
                rung.name,
                f"{rung.error:.1e}",
                "–" if rung.tolerance is None else f"{rung.tolerance:.0e}",
                "✓" if rung.passed else "✗",
            )
    console.print(shown)
