"""Parallel execution: what a team of workers takes to write, and two workers until their first reduction."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.machine.cpus import available_cpus
from rldyno.processes.children import signal_group
from rldyno.processes.rig import TIME_LIMIT_S, Runtime, end, ending
from rldyno.processes.team import Post, group_below_mpi, start_team
from rldyno.records import files as records
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter, resolve
from rldyno.usability import source
from rldyno.usability.process import first_mode, private_paths, rig, without_paths
from rldyno_rig.hyper import MLP
from rldyno_rig.job_files import USABILITY_FILE, UsabilityJob
from rldyno_rig.usability.job import ANSWER_FILE

Json = dict[str, Any]
WORKERS = 2
TEAMS = 3
LONGEST_ERROR = 300


def measure(chain: Toolchain, interpreter: Interpreter, files: Sequence[Path], directory: Path) -> Json:
    """One worker, and two of each collective on the CPU; the two kinds of runs alternate."""
    mode = first_mode(chain)
    ways = [name for name, devices in chain.collectives.items() if "cpu" in devices]
    found: dict[str, Json] = {}
    alone: list[float] = []
    for collective in ways:
        try:
            team = with_part(chain, interpreter, collective)
        except Problem as problem:
            found[collective] = {"reason": f"{problem.message}; fix: {problem.fix}", "lacks": True}
            continue
        found[collective] = _collective(chain, team, mode, collective, alone, directory)
    return {
        "mode": mode,
        "workers": WORKERS,
        "lines": team_lines(files),
        "alone_s": statistics.median(alone) if alone else None,
        "collectives": found,
        "lacks": [name for name, way in found.items() if way.get("lacks")],
    }


def with_part(chain: Toolchain, interpreter: Interpreter, collective: str) -> Interpreter:
    """The interpreter with what this collective needs; a Problem where that is not built."""
    given = {chain.framework: interpreter.path} if interpreter.origin == "given" else None
    return resolve(chain.framework, given, [collective])


def has_part(chain: Toolchain, interpreter: Interpreter, collective: str) -> bool:
    try:
        with_part(chain, interpreter, collective)
    except Problem:
        return False
    return True


def team_lines(files: Iterable[Path]) -> Json:
    """Lines of `join` in the backend, and of the file that has its collectives, if there is one."""
    join = team = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        if file.stem.endswith("_team"):
            team += len(source.code_lines(text))
        else:
            join += sum(function.lines for function in source.functions(text) if function.name == "join")
    return {"join": join, "team": team}


def _collective(
    chain: Toolchain, team: Interpreter, mode: str, collective: str, alone: list[float], directory: Path
) -> Json:
    spent, met, means = [], [], ""
    for number in range(TEAMS):
        single = rig(team, chain, UsabilityJob(chain.backend, "first_update", mode), directory)
        if not single["error"]:
            alone.append(single["nanoseconds"] / 1e9)
        home = directory / f"{collective}-{number}"
        home.mkdir()
        answer = run_team(chain, team, mode, collective, home)
        if answer["error"]:
            return {"reason": answer["error"]}
        spent.append(answer["nanoseconds"] / 1e9)
        met.append(answer["met_ns"] / 1e9)
        means = answer["means"]
    return {
        "reason": None,
        "means": means,
        "first_reduction_s": statistics.median(spent),
        "met_s": statistics.median(met),
        "teams": TEAMS,
    }


def run_team(chain: Toolchain, interpreter: Interpreter, mode: str, collective: str, directory: Path) -> Json:
    """The answer of rank 0 of a team, or why there is none."""
    job = UsabilityJob(chain.backend, "first_reduction", mode, workers=WORKERS, collective=collective)
    records.write_json(directory / USABILITY_FILE, job.to_json())
    runtime = Runtime.of(interpreter, 1, MLP, collective)
    cpus = available_cpus()
    logs = [directory / f"{rank}.log" for rank in range(WORKERS)]
    places = [None if cpus is None else (cpus[rank % len(cpus)],) for rank in range(WORKERS)]
    posts = [Post(rank, logs[rank], places[rank]) for rank in range(WORKERS)]
    processes = start_team("usability", directory, runtime, posts, time.monotonic_ns())
    deadline = time.monotonic() + TIME_LIMIT_S
    try:
        while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
            time.sleep(0.02)
    finally:
        for rank in range(WORKERS if runtime.mpiexec else 0):
            group = group_below_mpi(directory, rank)
            if group is not None:
                signal_group(group, 9)
        for process in processes:
            end(process)
    answer = directory / ANSWER_FILE
    if answer.exists():
        found: Json = records.read_json(answer)
    else:
        printed = logs[0].read_text(encoding="utf-8", errors="replace") if logs[0].exists() else ""
        found = {"error": ending(processes[0].returncode, printed)}
    if found["error"]:
        hidden = private_paths(directory, interpreter)
        found["error"] = without_paths(found["error"], hidden, LONGEST_ERROR)
    return found
