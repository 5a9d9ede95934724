"""Measure every contestant in turn, several rounds in random order, while the others sleep.

A drift of the machine then affects all of them in the same way, and ratios are taken within a round.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from rldyno.errors import Problem
from rldyno.limits.disturbance import Watch
from rldyno.limits.measure import limits_of
from rldyno.machine.cpus import available_cpus, place
from rldyno.nets import workers
from rldyno.nets.record import Kind, NetsRecord, Round
from rldyno.nets.recorder import NetsRecorder, PrintLine
from rldyno.nets.timer import Timer, TimerGone
from rldyno.nets.utilisation import Meter, Utilisation, open_meter
from rldyno.nets.work import Benchmark, Net
from rldyno.processes.control import pin
from rldyno.records.directory import check_free
from rldyno.records.machine_limits import DeviceLimits
from rldyno.toolchains.resolve import Interpreter

SHUFFLE_SEED = 0


def run(
    benchmark: Benchmark,
    path: Path,
    print_line: PrintLine,
    overrides: Mapping[str, Path] | None = None,
    verify: bool = False,
) -> NetsRecord:
    """Measure and keep the record in `path`, after every round: an interruption keeps what was measured."""
    available = available_cpus()
    probe_cpu, pool = place(available, benchmark.cores)
    cpus = None if pool is None else pool[: benchmark.cores]
    meter, no_meter = open_meter(benchmark.device)
    recorder = NetsRecorder(benchmark, path, cpus, no_meter, print_line)
    interpreters = workers.find_interpreters(benchmark, overrides, recorder)
    workers.check_memory(benchmark, len(interpreters))
    check_free(path.parent)
    if verify:
        workers.prove(benchmark, interpreters, recorder)
    recorder.limits = machine_limits(benchmark, overrides, print_line)
    pin(None if probe_cpu is None else (probe_cpu,))
    shuffle = random.Random(SHUFFLE_SEED)
    try:
        for net in benchmark.nets:
            measure_net(benchmark, net, cpus, interpreters, meter, shuffle, recorder)
        recorder.complete = True
    finally:
        pin(available)
        if recorder.complete or not recorder.is_empty:
            recorder.write()
    return recorder.record()


def machine_limits(
    benchmark: Benchmark, overrides: Mapping[str, Path] | None, print_line: PrintLine
) -> DeviceLimits | None:
    """What floors are computed from; without them a column is missing, but the run goes on."""
    print_line("limits of this machine: measured once and kept")
    try:
        return limits_of(benchmark.device, benchmark.cores, overrides)
    except Problem as problem:
        print_line(f"no limits: {problem.message}")
        return None


def measure_net(
    benchmark: Benchmark,
    net: Net,
    cpus: Sequence[int] | None,
    interpreters: Mapping[str, Interpreter],
    meter: Meter | None,
    shuffle: random.Random,
    recorder: NetsRecorder,
) -> None:
    """All rounds of one network."""
    kinds = [Kind(net.name, *call) for call in benchmark.calls]
    with workers.warm_timers(benchmark, net, cpus, interpreters, recorder) as timers:
        measuring_s = benchmark.rounds * benchmark.seconds * len(kinds) * len(timers)
        recorder.print_line(f"{net.name}: {measuring_s:,.{0 if measuring_s >= 10 else 1}f} s of measuring")
        for number in range(1, benchmark.rounds + 1):
            if not timers:
                break
            recorder.print_line(f"{net.name}: round {number} of {benchmark.rounds}: {', '.join(timers)}")
            with Watch(cpus, partial(workers.cpu_s_of, tuple(timers.values()))) as watch:
                measure_round(number, kinds, benchmark.seconds, timers, meter, shuffle, recorder)
            recorder.add_disturbance(net.name, number, watch.taken_percent)
            recorder.write()


def measure_round(
    number: int,
    kinds: Sequence[Kind],
    seconds: float,
    timers: dict[str, Timer],
    meter: Meter | None,
    shuffle: random.Random,
    recorder: NetsRecorder,
) -> None:
    """Every kind of call, measured of all contestants in a row, in an order of its own."""
    for kind in kinds:
        for contestant in shuffle.sample(sorted(timers), len(timers)):
            if recorder.has_error(contestant, kind):
                continue
            try:
                with Utilisation(meter) as busy:
                    answer = timers[contestant].measure(kind, seconds)
            except TimerGone as gone:
                timers.pop(contestant).close()
                recorder.leave_out(contestant, kind.net, str(gone))
                continue
            if "error" in answer:
                recorder.add_error(contestant, kind, answer["error"])
            else:
                measured = {"round": number, **answer, "gpu_percent": busy.percent}
                recorder.add_round(contestant, kind, Round.from_json(measured))
