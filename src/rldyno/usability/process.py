"""Processes of a toolchain's interpreter on all cores, and their messages without private paths."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rldyno.machine.facts import usable_cores
from rldyno.processes.rig import Ended, Runtime, run, run_rig
from rldyno.records import files as records
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.job_files import USABILITY_FILE, UsabilityJob
from rldyno_rig.usability.job import ANSWER_FILE

Json = dict[str, Any]
LONGEST_ERROR = 300


def start(interpreter: Interpreter, chain: Toolchain, arguments: list[str], directory: Path) -> Ended:
    """Run the interpreter as a trial would, on all the cores there are, and wait for its end."""
    return run(arguments, directory, _runtime(interpreter, chain, None))


def rig(
    interpreter: Interpreter,
    chain: Toolchain,
    job: UsabilityJob,
    directory: Path,
    cores: int | None = None,
) -> Json:
    """The answer of a `usability` job; a process that gave none is an answer too. None: on all cores."""
    answer = directory / ANSWER_FILE
    answer.unlink(missing_ok=True)
    records.write_json(directory / USABILITY_FILE, job.to_json())
    ended = run_rig("usability", directory, _runtime(interpreter, chain, job.network or None, cores))
    found: Json = records.read_json(answer) if answer.exists() else {"error": ended.last_words()}
    if found["error"]:
        hidden = private_paths(directory, interpreter)
        found["error"] = without_paths(found["error"], hidden, LONGEST_ERROR)
    return found


def _runtime(
    interpreter: Interpreter, chain: Toolchain, network: str | None, cores: int | None = None
) -> Runtime:
    variables = chain.worker_variables(cores or usable_cores(), network)
    return Runtime(interpreter.path, interpreter.isolated, variables)


def private_paths(directory: Path, interpreter: Interpreter) -> list[Path]:
    """Paths of this machine, which are kept out of records."""
    return [path for path in (directory, interpreter.path.parent.parent, Path.home()) if path.name]


def without_paths(text: str, hidden: Iterable[Path], longest: int) -> str:
    for path in hidden:
        text = text.replace(f"{path}{os.sep}", "").replace(str(path), "…")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def first_mode(chain: Toolchain) -> str:
    """The framework's plainest mode that runs on the CPU."""
    return next(mode for mode, devices in chain.modes.items() if "cpu" in devices)
