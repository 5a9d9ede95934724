"""Prove contestants against the reference, in rig processes, and keep the certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rldyno.errors import Problem
from rldyno.machine.devices import usable_gpus
from rldyno.proofs import store
from rldyno.proofs.certificate import Certificate, Subject
from rldyno.proofs.jobs import Climbing, Part, remove_leftovers, run_jobs
from rldyno.records.seal import write_record
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import MLP, NETWORKS, network_kind
from rldyno_rig.job_files import EnvironmentFacts
from rldyno_rig.proof.forms import shape_of
from rldyno_rig.team.share import share

if TYPE_CHECKING:
    from rich.console import Console

    from rldyno.study.plan import Cell

WHOLE = Part()


@dataclass(frozen=True)
class Progress:
    made: int
    total: int
    """Proofs to be made."""
    running: tuple[tuple[Subject, float], ...]
    """What is being proven, and for how many seconds."""

    @staticmethod
    def of(made: int, total: int, jobs: Iterable[Climbing]) -> Progress:
        busy = [(job.subject, job.subject_s) for job in jobs]
        return Progress(made, total, tuple((subject, s) for subject, s in busy if subject is not None))

    def sentence(self) -> str:
        """`proving 3 of 20: torch:compile dqn mlp (12 s)`."""
        names = ", ".join(f"{subject} ({seconds:.0f} s)" for subject, seconds in self.running)
        return f"proving {min(self.made + 1, self.total)} of {self.total}: {names}"


Environments = Mapping[tuple[str, str], EnvironmentFacts]
"""(framework, environment) → what its toolchain found when it made it."""


def subjects(cells: Iterable[Cell], environments: Environments) -> list[Subject]:
    """What must be proven before the times of cells are ranked: algorithms, and the shapes that will run.

    Without its environment the shape of a cell is not known.
    """
    return sorted({subject for cell in cells for subject in of_cell(cell, environments)})


def of_cell(cell: Cell, environments: Environments) -> Iterator[Subject]:
    kind = network_kind(cell.hyper.convolutions)
    subject = Subject.of(cell.contestant, cell.algorithm, kind, cell.device)
    yield subject
    if cell.workers > 1:
        yield subject.in_a_team(cell.collective, share_gpu=cell.share_gpu)
    made = environments.get((cell.framework, cell.environment))
    if made is None or made.error:
        return
    learner = LEARNERS[cell.algorithm]
    with suppress(ValueError):  # this network cannot see such observations: the trial fails, and says why
        own = share(cell.hyper, cell.workers, cell.scaling)
        spec = learner.spec(own, made.observation_shape, made.observation_dtype, made.actions)
        yield replace(subject, shape=shape_of(spec))


def every_subject(contestants: Iterable[str], device: str) -> list[Subject]:
    """All algorithms, the classifier of `rldyno nets` too, and networks of these contestants."""
    return [
        Subject.of(contestant, algorithm, network, device)
        for contestant in contestants
        for algorithm in LEARNERS
        for network in NETWORKS
    ]


def every_team(contestants: Iterable[str], device: str, collectives: Iterable[str]) -> list[Subject]:
    """Every algorithm of those that have these collectives on this device.

    On GPUs: with one that workers share and, where there are several, with one for each.
    """
    sharing = [True] if device != "cpu" and usable_gpus()[0] < 2 else [True, False]
    teams = (
        Subject.of(contestant, algorithm, MLP, device).in_a_team(collective, share_gpu=shared)
        for contestant in contestants
        for collective in collectives
        if device in _devices(contestant, collective)
        for algorithm in LEARNERS
        for shared in sharing
    )
    return list(dict.fromkeys(teams))


def _devices(contestant: str, collective: str) -> tuple[str, ...]:
    known = toolchain(Contestant.parse(contestant).framework).collectives
    return next((devices for name, devices in known.items() if name == collective), ())


def to_make(
    wanted: Iterable[Subject], interpreters: Mapping[str, Interpreter], force: bool = False
) -> list[Subject]:
    """Those without a certificate; all with `force`."""
    return [
        subject
        for subject in dict.fromkeys(wanted)
        if force or store.find(subject, interpreters[subject.framework]) is None
    ]


def prove(
    wanted: Iterable[Subject],
    interpreters: Mapping[str, Interpreter],
    on_proven: Callable[[Certificate], None],
    force: bool = False,
    *,
    part: Part = WHOLE,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> list[Certificate]:
    """The certificate of each subject, proving those that have none; contestants side by side.

    Nothing is timed here, so every core may be used. A contestant whose process cannot prove anything does
    not stop the others; a Problem if none of them could. Where only a part is proven, nothing is kept.
    """
    remove_leftovers()
    wanted = list(wanted)
    missing = to_make(wanted, interpreters, force or not part.whole)
    certificates = {
        subject: certificate
        for subject in wanted
        if subject not in missing
        and (certificate := store.find(subject, interpreters[subject.framework])) is not None
    }
    # One kind of network per process: the variables of a toolchain may differ between them.
    by_process: dict[tuple[object, ...], list[Subject]] = {}
    for subject in missing:
        team = subject.collective, subject.own_gpus
        key = subject.contestant, subject.device, subject.network, *team
        by_process.setdefault(key, []).append(subject)
    made = 0
    broken: list[Problem] = []
    for jobs in run_jobs(list(by_process.values()), interpreters, part):
        for job in jobs:
            for certificate in job.made():
                if part.whole:
                    store.keep(certificate, job.interpreter)
                certificates[certificate.subject] = certificate
                made += 1
                on_proven(certificate)
            if job.broken:
                broken.append(job.broken)
        on_progress(Progress.of(made, len(missing), jobs))
    if broken and all(certificate.error for certificate in certificates.values()):
        raise broken[0]
    return [certificates[subject] for subject in sorted(certificates)]


def ensure(
    wanted: Sequence[Subject], interpreters: Mapping[str, Interpreter], root: Path, console: Console
) -> None:
    """Prove what has no certificate yet, and keep the certificates beside a study's results."""
    from rldyno.proofs.display import ProofDisplay

    missing = to_make(wanted, interpreters)
    if missing:
        names = ", ".join(sorted({str(subject.contestant) for subject in missing}))
        console.print(
            f"proving {names} against the reference (kept until something changes)", highlight=False
        )
    home = root / "certificates"
    home.mkdir(exist_ok=True)
    with ProofDisplay(console, len(missing)) as display:
        for certificate in prove(wanted, interpreters, display.proven, on_progress=display.progress):
            subject = certificate.subject
            name = store.path_of(subject, interpreters[subject.framework]).name
            write_record(home / name, certificate.to_json())
