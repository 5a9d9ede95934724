"""Measure every contestant in turn, several rounds in random order, while the others sleep.

Drift of the machine then meets all alike, and ratios are taken within a round.
"""

from __future__ import annotations

import platform
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import psutil

import rldyno
import rldyno_rig
from rldyno.errors import Problem
from rldyno.limits.disturbance import Watch
from rldyno.limits.measure import limits_of
from rldyno.machine.cpus import available_cpus, place
from rldyno.machine.facts import machine_facts
from rldyno.nets.timer import Timer, TimerGone
from rldyno.nets.utilisation import Meter, Utilisation, open_meter
from rldyno.nets.work import Asked, Net, least_bytes, time_job
from rldyno.processes.control import pin
from rldyno.processes.rig import Runtime
from rldyno.records import files as records
from rldyno.records.directory import check_free
from rldyno.records.provenance import git_revision
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig import identity
from rldyno_rig.hyper import network_kind

Json = dict[str, Any]
Say = Callable[[str], None]

NETS_SCHEMA = 1
SHUFFLE_SEED = 0


def run(
    asked: Asked, path: Path, say: Say, overrides: Mapping[str, Path] | None = None, verify: bool = False
) -> Json:
    """Measure and keep the record in `path`, after every round: an interruption keeps what was measured."""
    available = available_cpus()
    probe_cpu, pool = place(available, asked.cores)
    cpus = None if pool is None else pool[: asked.cores]
    meter, no_meter = open_meter(asked.device)
    record = new_record(asked, cpus, no_meter)
    interpreters = find_interpreters(asked, overrides, record, say)
    record["toolchains"] = {
        framework: {"python": interpreter.python, "versions": interpreter.versions}
        for framework, interpreter in interpreters.items()
    }
    check_memory(asked, len(usable(asked, interpreters)))
    check_free(path.parent)
    if verify:
        prove(asked, interpreters, say)
    record["limits"] = machine_limits(asked, overrides, say)
    shuffle = random.Random(SHUFFLE_SEED)
    pin(None if probe_cpu is None else (probe_cpu,))
    try:
        for net in asked.nets:
            with warm_timers(asked, net, cpus, interpreters, record, say) as timers:
                measuring_s = asked.rounds * asked.seconds * len(asked.requests) * len(timers)
                say(f"{net.name}: {measuring_s:.0f} s of measuring")
                for number in range(1, asked.rounds + 1):
                    if not timers:
                        break
                    say(f"{net.name}: round {number} of {asked.rounds}: {', '.join(timers)}")
                    with Watch(cpus, partial(cpu_s_of, tuple(timers.values()))) as watch:
                        one_round(number, asked, net, timers, meter, shuffle, record, say)
                    record["disturbed"].append(
                        {"net": net.name, "round": number, "taken_percent": watch.taken_percent}
                    )
                    records.write_json(path, record)
        record["complete"] = True
    finally:
        pin(available)
        if record["complete"] or record["measurements"]:
            records.write_json(path, record)
    return record


def new_record(asked: Asked, cpus: Sequence[int] | None, no_meter: str | None) -> Json:
    return {
        "schema": NETS_SCHEMA,
        "rldyno": rldyno.__version__,
        "git_revision": git_revision(),
        "made_at": records.now_iso(),
        "complete": False,
        "asked": asdict(asked),
        "cpus": None if cpus is None else list(cpus),
        "python": platform.python_version(),
        "machine": machine_facts(),
        "gpu_percent_reason": no_meter,
        "limits": None,
        "toolchains": {},
        "workers": [],
        "absent": [],
        "disturbed": [],
        "measurements": [],
    }


def find_interpreters(
    asked: Asked, overrides: Mapping[str, Path] | None, record: Json, say: Say
) -> dict[str, Interpreter]:
    """Framework → interpreter, of those that are installed; the contestants of the others are left out."""
    found: dict[str, Interpreter] = {}
    missing: list[Problem] = []
    for framework in dict.fromkeys(name.partition(":")[0] for name in asked.contestants):
        try:
            found[framework] = resolve(framework, overrides)
        except Problem as problem:
            missing.append(problem)
            why = f"{problem.message} (fix: {problem.fix})"
            for contestant in asked.contestants:
                if contestant.partition(":")[0] == framework:
                    leave_out(record, contestant, None, why, say)
    if not found:
        raise Problem(
            "none of these contestants can be measured here",
            fix=missing[0].fix if len(missing) == 1 else "rldyno setup",
            code=1,
        )
    return found


def usable(asked: Asked, interpreters: Mapping[str, Interpreter]) -> list[str]:
    return [name for name in asked.contestants if name.partition(":")[0] in interpreters]


def check_memory(asked: Asked, contestants: int) -> None:
    """A Problem for what cannot fit: the kernel would end some process, not always ours."""
    free = psutil.virtual_memory().available
    workers = "one worker holds" if contestants == 1 else f"{contestants} workers at once hold"
    for net in asked.nets:
        needed = contestants * least_bytes(asked, net)
        if needed > free:
            raise Problem(
                f"{net.name}: {workers} {needed / 1e9:,.0f} GB at least, "
                f"{free / 1e9:,.0f} GB of memory are free",
                fix="give fewer --contestants, a smaller network, or smaller --batch-act and --batch-train",
            )


def prove(asked: Asked, interpreters: Mapping[str, Interpreter], say: Say) -> None:
    """A time counts only beside a certificate: make those that are missing."""
    from rldyno.proofs.certificate import Subject
    from rldyno.proofs.prove import prove as prove_subjects

    wanted = {
        Subject.of(contestant, asked.algorithm, network_of(net), asked.device)
        for contestant in asked.contestants
        for net in asked.nets
        if contestant.partition(":")[0] in interpreters
    }
    prove_subjects(sorted(wanted), interpreters, lambda made: say(made.sentence()))


def network_of(net: Net) -> str:
    return network_kind(net.convolutions)


def machine_limits(asked: Asked, overrides: Mapping[str, Path] | None, say: Say) -> Json | None:
    """The floors' denominators; a machine that cannot be measured costs a column, not the run."""
    say("limits of this machine: measured once and kept")
    try:
        return limits_of(asked.device, asked.cores, overrides)
    except Problem as problem:
        say(f"no limits: {problem.message}")
        return None


@contextmanager
def warm_timers(
    asked: Asked,
    net: Net,
    cpus: Sequence[int] | None,
    interpreters: Mapping[str, Interpreter],
    record: Json,
    say: Say,
) -> Iterator[dict[str, Timer]]:
    """Contestant → its warm worker. One that cannot start is told in one line and left out.

    As many start at once as a worker has cores, for they share these.
    """
    timers: dict[str, Timer] = {}
    waiting = usable(asked, interpreters)
    try:
        while waiting:
            batch, waiting = waiting[: asked.cores], waiting[asked.cores :]
            say(f"{net.name}: starting {', '.join(batch)}")
            for contestant in batch:
                interpreter = interpreters[contestant.partition(":")[0]]
                timers[contestant] = start(asked, contestant, net, interpreter, cpus)
            for contestant in batch:
                try:
                    said = timers[contestant].ready()
                except TimerGone as gone:
                    timers.pop(contestant).close()
                    leave_out(record, contestant, net.name, str(gone), say)
                else:
                    interpreter = interpreters[contestant.partition(":")[0]]
                    record["workers"].append(worker_facts(asked, contestant, net, interpreter, said))
        yield timers
    finally:
        for timer in timers.values():
            timer.close()


def start(
    asked: Asked, contestant: str, net: Net, interpreter: Interpreter, cpus: Sequence[int] | None
) -> Timer:
    return Timer(time_job(asked, contestant, net), Runtime.of(interpreter, asked.cores), cpus)


def worker_facts(asked: Asked, contestant: str, net: Net, interpreter: Interpreter, said: Json) -> Json:
    """What a reader must know to judge the worker's figures, beside its toolchain."""
    backend = toolchain(contestant.partition(":")[0]).backend
    file = Path(rldyno_rig.__file__).parent / "backends" / f"{backend}.py"
    return {
        "contestant": contestant,
        "net": net.name,
        **identity.hashes(str(file)),
        "certificate": certificate_state(asked, contestant, net, interpreter),
        "facts": said.get("facts"),
        "startup_ns": said.get("startup_ns"),
        "started_together": asked.cores,
    }


def cpu_s_of(timers: Sequence[Timer]) -> float:
    return sum(timer.cpu_s() for timer in timers)


def certificate_state(asked: Asked, contestant: str, net: Net, interpreter: Interpreter) -> str:
    """valid, failed or absent: whether this very code was proven, on this device, to compute the same."""
    from rldyno.proofs import store
    from rldyno.proofs.certificate import Subject

    return store.state(Subject.of(contestant, asked.algorithm, network_of(net), asked.device), interpreter)


def one_round(
    number: int,
    asked: Asked,
    net: Net,
    timers: dict[str, Timer],
    meter: Meter | None,
    shuffle: random.Random,
    record: Json,
    say: Say,
) -> None:
    """Every request, each asked of all contestants in a row, in an order of its own."""
    for request in asked.requests:
        for contestant in shuffle.sample(sorted(timers), len(timers)):
            figure = figure_of(record, contestant, net, request)
            if figure["error"] is not None:
                continue
            timer = timers[contestant]
            try:
                with Utilisation(meter) as busy:
                    answer = timer.ask(request)
            except TimerGone as gone:
                timers.pop(contestant).close()
                leave_out(record, contestant, net.name, str(gone), say)
                continue
            if "error" in answer:
                figure["error"] = answer["error"]
            else:
                figure["rounds"].append({"round": number, **answer, "gpu_percent": busy.percent})


def figure_of(record: Json, contestant: str, net: Net, request: Json) -> Json:
    """The object that holds all rounds of this figure; a new one the first time."""
    key = {
        "contestant": contestant,
        "net": net.name,
        **{name: request[name] for name in ("measure", "rows", "data")},
    }
    figure: Json
    for figure in record["measurements"]:
        if all(figure[name] == value for name, value in key.items()):
            return figure
    figure = {**key, "rounds": [], "error": None}
    record["measurements"].append(figure)
    return figure


def leave_out(record: Json, contestant: str, net: str | None, why: str, say: Say) -> None:
    """One line; the others go on. `net` None: left out of all."""
    record["absent"].append({"contestant": contestant, "net": net, "reason": why})
    say(f"left out: {contestant}{f' on {net}' if net else ''}: {why}")
