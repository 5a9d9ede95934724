"""How long a user waits: for the import, and from starting the process to the first update."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rldyno.processes.rig import Ended
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno.usability.process import rig, start
from rldyno_rig.job_files import UsabilityJob

Json = dict[str, Any]
IMPORTS = 5
FIRST_UPDATES = 3
# A mode that compiles for longer than this is started once.
SLOW_S = 10.0


def measure_import(interpreter: Interpreter, chain: Toolchain, directory: Path) -> Json:
    """Median seconds of `import` in fresh processes, less those of an interpreter that imports nothing.

    The two kinds of processes alternate.

    The process ends at once after the import: tearing a framework down is another matter.
    """
    empty, full = "import os; os._exit(0)", f"import os, {chain.import_name}; os._exit(0)"
    # The first import of a cold machine reads from the disk.
    _check(start(interpreter, chain, ["-c", full], directory))
    runs: dict[str, list[Ended]] = {empty: [], full: []}
    for _ in range(IMPORTS):
        for code, ended in runs.items():
            ended.append(_check(start(interpreter, chain, ["-c", code], directory)))
    interpreter_s, import_s = (statistics.median(run.seconds for run in ended) for ended in runs.values())
    interpreter_cpu_s, import_cpu_s = (
        statistics.median(run.cpu_s for run in ended) for ended in runs.values()
    )
    return {
        "import_s": max(0.0, import_s - interpreter_s),
        "import_cpu_s": max(0.0, import_cpu_s - interpreter_cpu_s),
        "interpreter_s": interpreter_s,
        "processes": IMPORTS,
    }


def measure_first_update(
    interpreter: Interpreter, chain: Toolchain, directory: Path
) -> Iterator[tuple[str, Json]]:
    """(mode, seconds from the start of the process to the loss of the first update) of each mode on the CPU.

    Compilers keep what they compiled: `first_s` is the first process, `median_s` of all of them.
    """
    missing = chain.missing_needs(interpreter.path)
    for mode, devices in chain.modes.items():
        unmet = [need for need in missing if not need.modes or mode in need.modes]
        if "cpu" not in devices:
            continue
        if unmet:
            yield mode, {"first_s": None, "median_s": None, "reason": unmet[0].why}
            continue
        yield mode, _first_update(interpreter, chain, mode, directory)


def _first_update(interpreter: Interpreter, chain: Toolchain, mode: str, directory: Path) -> Json:
    job = UsabilityJob(chain.backend, "first_update", mode)
    spent: list[float] = []
    while len(spent) < FIRST_UPDATES and not (spent and spent[0] > SLOW_S):
        answer = rig(interpreter, chain, job, directory)
        if answer["error"]:
            return {"first_s": None, "median_s": None, "reason": answer["error"]}
        spent.append(answer["nanoseconds"] / 1e9)
    return {
        "first_s": spent[0],
        "median_s": statistics.median(spent),
        "processes": len(spent),
        "reason": None,
    }


def _check(ended: Ended) -> Ended:
    if ended.code != 0:
        raise RuntimeError(ended.last_words())
    return ended
