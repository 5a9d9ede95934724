"""Processes of a toolchain's interpreter: started, watched, and ended with their children."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rldyno_rig
from rldyno.machine.facts import usable_cores
from rldyno.processes.children import die_with_parent
from rldyno.records import files as records
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig import schema
from rldyno_rig.usability.job import ANSWER_FILE, JOB_FILE

Json = dict[str, Any]
TIMEOUT_S = 600.0
LONGEST_ERROR = 300


@dataclass(frozen=True)
class Ended:
    code: int | None
    """None when it did not end in time, negative when a signal ended it."""
    seconds: float
    out: str
    err: str
    cpu_s: float = 0.0
    """Of it and of the children that it waited for."""


def start(
    interpreter: Interpreter,
    chain: Toolchain,
    arguments: list[str],
    directory: Path,
    timeout_s: float = TIMEOUT_S,
) -> Ended:
    """Run the interpreter as a trial would, on all the cores there are, and wait for its end."""
    isolation = ["-I"] if interpreter.isolated else []
    used_before = _cpu_of_children()
    began_ns = time.perf_counter_ns()
    process = subprocess.Popen(
        [str(interpreter.path), *isolation, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=directory,
        start_new_session=True,
        env={**os.environ, **chain.worker_variables(usable_cores()), schema.SPAWN_VARIABLE: str(began_ns)},
        preexec_fn=die_with_parent(signal.SIGKILL),  # noqa: PLW1509 (one thread only)
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate()
        code = None
    except BaseException:
        _end(process)
        raise
    seconds = (time.perf_counter_ns() - began_ns) / 1e9
    return Ended(code, seconds, out, err, _cpu_of_children() - used_before)


def rig(interpreter: Interpreter, chain: Toolchain, job: Json, directory: Path) -> Json:
    """The answer of a `usability` job; a process that gave none is an answer too."""
    answer = directory / ANSWER_FILE
    answer.unlink(missing_ok=True)
    given = {"framework": chain.backend.removesuffix("_"), **job}
    records.write_json(directory / JOB_FILE, given)
    home = str(Path(rldyno_rig.__file__).parent)
    ended = start(interpreter, chain, [home, "usability", str(directory)], directory)
    found: Json = records.read_json(answer) if answer.exists() else {"error": last_words(ended)}
    if found["error"]:
        hidden = private_paths(directory, interpreter)
        found["error"] = without_paths(found["error"], hidden, LONGEST_ERROR)
    return found


def private_paths(directory: Path, interpreter: Interpreter) -> list[Path]:
    """Where on this machine something ran, which is nobody's business."""
    return [path for path in (directory, interpreter.path.parent.parent, Path.home()) if path.name]


def without_paths(text: str, hidden: Iterable[Path], longest: int) -> str:
    for path in hidden:
        text = text.replace(f"{path}{os.sep}", "").replace(str(path), "…")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def first_mode(chain: Toolchain) -> str:
    """The framework's plainest mode that runs on the CPU."""
    return next(mode for mode, devices in chain.modes.items() if "cpu" in devices)


def last_words(ended: Ended) -> str:
    if ended.code is None:
        return f"no answer within {TIMEOUT_S:.0f} s"
    if ended.code < 0:
        return f"crashed: {signal.Signals(-ended.code).name}"
    lines = [line for line in ended.err.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"it ended with status {ended.code} and said nothing"


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end(process: subprocess.Popen[str]) -> None:
    """A compiler may run beside the interpreter: end the whole session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
