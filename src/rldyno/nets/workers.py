"""The workers of a benchmark: which contestants have one, whether they fit, and starting them warm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from rldyno.errors import Problem
from rldyno.nets.record import TimedWorker
from rldyno.nets.recorder import NetsRecorder
from rldyno.nets.timer import Json, Timer, TimerGone
from rldyno.nets.work import Benchmark, Net, least_bytes, time_job
from rldyno.processes.rig import Runtime
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno_rig.contestant import Contestant
from rldyno_rig.hyper import network_kind


def find_interpreters(
    benchmark: Benchmark, overrides: Mapping[str, Path] | None, recorder: NetsRecorder
) -> dict[str, Interpreter]:
    """Contestant → interpreter, of those that are installed; the others are left out."""
    frameworks = {contestant: Contestant.parse(contestant).framework for contestant in benchmark.contestants}
    installed: dict[str, Interpreter] = {}
    missing: dict[str, Problem] = {}
    for framework in dict.fromkeys(frameworks.values()):
        try:
            installed[framework] = resolve(framework, overrides)
        except Problem as problem:
            missing[framework] = problem
    for contestant, framework in frameworks.items():
        if framework in missing:
            why = missing[framework]
            recorder.leave_out(contestant, None, f"{why.message} (fix: {why.fix})")
    if not installed:
        (first, *others) = missing.values()
        raise Problem(
            "none of these contestants can be measured here",
            fix="rldyno setup" if others else first.fix,
            code=1,
        )
    recorder.set_toolchains(installed)
    return {name: installed[framework] for name, framework in frameworks.items() if framework in installed}


def check_memory(benchmark: Benchmark, contestants: int) -> None:
    """A Problem for what cannot fit: the kernel would end some process, not always ours."""
    free = psutil.virtual_memory().available
    workers = "one worker holds" if contestants == 1 else f"{contestants} workers at once hold"
    for net in benchmark.nets:
        needed = contestants * least_bytes(benchmark, net)
        if needed > free:
            raise Problem(
                f"{net.name}: {workers} {needed / 1e9:,.0f} GB at least, "
                f"{free / 1e9:,.0f} GB of memory are free",
                fix="give fewer --contestants, a smaller network, or smaller --batch-act and --batch-train",
            )


def prove(benchmark: Benchmark, interpreters: Mapping[str, Interpreter], recorder: NetsRecorder) -> None:
    """A time counts only with a certificate: make those that are missing."""
    from rldyno.proofs.certificate import Subject
    from rldyno.proofs.prove import prove as prove_subjects

    wanted = {
        Subject.of(contestant, benchmark.algorithm, network_kind(net.convolutions), benchmark.device)
        for contestant in interpreters
        for net in benchmark.nets
    }
    of_framework = {one.framework: one for one in interpreters.values()}
    prove_subjects(sorted(wanted), of_framework, lambda made: recorder.print_line(made.sentence()))


@contextmanager
def warm_timers(
    benchmark: Benchmark,
    net: Net,
    cpus: Sequence[int] | None,
    interpreters: Mapping[str, Interpreter],
    recorder: NetsRecorder,
) -> Iterator[dict[str, Timer]]:
    """Contestant → its warm worker. One that cannot start is reported in one line and left out.

    As many start at once as a worker has cores, for they share these.
    """
    timers: dict[str, Timer] = {}
    waiting = list(interpreters)
    try:
        while waiting:
            batch, waiting = waiting[: benchmark.cores], waiting[benchmark.cores :]
            recorder.print_line(f"{net.name}: starting {', '.join(batch)}")
            for contestant in batch:
                timers[contestant] = start(benchmark, contestant, net, interpreters[contestant], cpus)
            for contestant in batch:
                try:
                    ready = timers[contestant].ready()
                except TimerGone as gone:
                    timers.pop(contestant).close()
                    recorder.leave_out(contestant, net.name, str(gone))
                else:
                    worker = describe(benchmark, contestant, net, interpreters[contestant], ready)
                    recorder.add_worker(worker)
        yield timers
    finally:
        for timer in timers.values():
            timer.close()


def start(
    benchmark: Benchmark, contestant: str, net: Net, interpreter: Interpreter, cpus: Sequence[int] | None
) -> Timer:
    runtime = Runtime.of(interpreter, benchmark.cores, network_kind(net.convolutions))
    return Timer(time_job(benchmark, contestant, net), runtime, cpus)


def describe(
    benchmark: Benchmark, contestant: str, net: Net, interpreter: Interpreter, ready: Json
) -> TimedWorker:
    """What a reader must know beside the worker's figures and its toolchain."""
    from rldyno.proofs import store
    from rldyno.proofs.certificate import Subject

    subject = Subject.of(contestant, benchmark.algorithm, network_kind(net.convolutions), benchmark.device)
    details = {
        **store.code_hashes(subject.framework),
        "facts": ready.get("facts"),
        "startup_ns": ready.get("startup_ns"),
        "started_together": benchmark.cores,
    }
    return TimedWorker(contestant, net.name, store.state(subject, interpreter), details)


def cpu_s_of(timers: Sequence[Timer]) -> float:
    return sum(timer.cpu_s() for timer in timers)
