"""The one way to start a rig process: a job of `rldyno_rig` in the interpreter of a toolchain.

Every process started here leads a session of its own and dies with this one. A trial's process imports this
module, so nothing heavy is imported at the top.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import rldyno_rig
from rldyno.errors import Problem
from rldyno.processes.children import die_with_parent, kill_all
from rldyno_rig.schema import CACHES_PLACE, SPAWN_VARIABLE

if TYPE_CHECKING:
    from rldyno.toolchains.resolve import Interpreter
    from rldyno_rig.trial_file import TrialFile

RIG = Path(rldyno_rig.__file__).parent
TIME_LIMIT_S = 600.0
LOG_LINES = 15
LONGEST_LINE = 300
FAULT_HANDLER = ("-X", "faulthandler")
"""Prints the stack of every thread when a signal such as SIGABRT ends the interpreter."""
_PYTHON_VARIABLES = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE"}

Stream = int | IO[bytes] | None


@dataclass(frozen=True)
class Runtime:
    """An interpreter and how its processes are started."""

    python: Path
    isolated: bool
    """Ignore PYTHONPATH and the user's site directory: true of toolchains that rldyno built."""
    variables: Mapping[str, str]
    """Added to the environment of this process. `{caches}` in a value stands for `caches`."""
    caches: Path | None = None
    """Where the process keeps compiled code and temporary files. None: where the user's programs do. Proofs,
    networks timed alone and limits share those, because nothing that they report is start-up."""
    mpiexec: Path | None = None
    """What starts the workers of a team that meet through MPI; None: they are started one by one."""

    @staticmethod
    def of(
        interpreter: Interpreter, cores: int, network: str | None, collective: str | None = None
    ) -> Runtime:
        """With the variables of the interpreter's toolchain, for so many cores and this kind of network, and
        those of the parts that environments and a team's collective need.

        Without a network none is computed; without a collective there is no team.
        """
        from rldyno.toolchains.catalogue import toolchain

        variables = toolchain(interpreter.framework).worker_variables(cores, network)
        variables |= interpreter.variables_for(collective)
        part = interpreter.part_for(collective) if collective else None
        mpiexec = None if part is None else part.mpiexec
        return Runtime(interpreter.path, interpreter.isolated, variables, mpiexec=mpiexec)

    @staticmethod
    def of_trial(trial: TrialFile, caches: Path | None) -> Runtime:
        """As trial.json says."""
        mpiexec = None if trial.mpiexec is None else Path(trial.mpiexec)
        return Runtime(Path(trial.interpreter or ""), trial.isolated, trial.variables, caches, mpiexec)

    def command(self, arguments: Sequence[str]) -> list[str]:
        return [str(self.python), *(["-I"] if self.isolated else []), *arguments]

    def environment(self, spawn_ns: int | None = None) -> dict[str, str]:
        """`spawn_ns`: what the process counts its start-up from; by default now."""
        hidden = _PYTHON_VARIABLES if self.isolated else set()
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        spawned = time.monotonic_ns() if spawn_ns is None else spawn_ns
        place = str(self.caches)
        own = {name: value.replace(CACHES_PLACE, place) for name, value in self.variables.items()}
        return {**inherited, **own, SPAWN_VARIABLE: str(spawned)}


@dataclass(frozen=True)
class Ended:
    """A process that has ended, and what it printed."""

    code: int | None
    """None when it did not end in time; negative when a signal ended it."""
    seconds: float
    out: str
    err: str
    cpu_s: float = 0.0
    """Of the process and of the children that it waited for."""

    def last_words(self, limit_s: float = TIME_LIMIT_S) -> str:
        return ending(self.code, self.err, limit_s)


def start_rig(
    job: str,
    directory: Path,
    runtime: Runtime,
    *,
    cpus: Sequence[int] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream,
    stderr: Stream = subprocess.STDOUT,
    spawn_ns: int | None = None,
    options: Sequence[str] = (),
    rig: Path = RIG,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `job` on the job file in `directory`, which is also where it runs. `options` are Python's, `keep`
    are files of this process that stay open in it.
    """
    arguments = [*options, str(rig), job, str(directory)]
    return start(
        *(arguments, directory, runtime),
        cpus=cpus,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        spawn_ns=spawn_ns,
        keep=keep,
    )


def start(
    arguments: Sequence[str],
    directory: Path,
    runtime: Runtime,
    *,
    cpus: Sequence[int] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream,
    stderr: Stream = subprocess.STDOUT,
    spawn_ns: int | None = None,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start the interpreter with any arguments."""
    return start_command(
        runtime.command(arguments),
        directory,
        runtime.environment(spawn_ns),
        cpus=cpus,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        keep=keep,
    )


def start_command(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    cpus: Sequence[int] | None = None,
    stdin: Stream = subprocess.DEVNULL,
    stdout: Stream,
    stderr: Stream = subprocess.STDOUT,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a program that leads to rig processes."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=directory,
        env=environment,
        bufsize=0,
        pass_fds=keep,
        start_new_session=True,
        preexec_fn=die_with_parent(signal.SIGKILL, cpus),  # noqa: PLW1509 (one thread only)
    )


def run_rig(
    job: str,
    directory: Path,
    runtime: Runtime,
    *,
    cpus: Sequence[int] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> Ended:
    """Run `job` to its end."""
    return run([str(RIG), job, str(directory)], directory, runtime, cpus=cpus, limit_s=limit_s)


def run(
    arguments: Sequence[str],
    directory: Path,
    runtime: Runtime,
    *,
    cpus: Sequence[int] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> Ended:
    """Run the interpreter to its end, or end it and its children when the time is up."""
    used_before, began_ns = _cpu_of_children(), time.monotonic_ns()
    pipe = subprocess.PIPE
    process = start(arguments, directory, runtime, cpus=cpus, stdout=pipe, stderr=pipe, spawn_ns=began_ns)
    try:
        out, err = process.communicate(timeout=limit_s)
        code: int | None = process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate()
        code = None
    except BaseException:
        end(process)
        raise
    seconds = (time.monotonic_ns() - began_ns) / 1e9
    return Ended(code, seconds, _text(out), _text(err), _cpu_of_children() - used_before)


def answer_of(
    job: str,
    directory: Path,
    runtime: Runtime,
    answer_file: str,
    *,
    what: str,
    cpus: Sequence[int] | None = None,
    limit_s: float = TIME_LIMIT_S,
) -> Any:
    """Run `job` and read the file that it leaves; one Problem, which names `what` was done, if it fails."""
    try:
        ended = run_rig(job, directory, runtime, cpus=cpus, limit_s=limit_s)
    except OSError as error:
        raise Problem(f"{what} failed: {error}", fix="rldyno doctor", code=1) from error
    answer = directory / answer_file
    if ended.code != 0 or not answer.exists():
        raise failed(what, ended.code, ended.err, limit_s)
    try:
        return json.loads(answer.read_bytes())
    except ValueError as error:
        raise Problem(f"{what} failed: its answer is not JSON: {error}", code=1) from error


def failed(what: str, code: int | None, log: str, limit_s: float = TIME_LIMIT_S) -> Problem:
    """A process that did not do its work, with the end of its log."""
    return Problem(
        f"{what} failed: {ending(code, log, limit_s)}",
        detail="\n".join(log.strip().splitlines()[-LOG_LINES:]) or None,
        fix="read the lines above; `rldyno doctor` shows what a toolchain lacks",
        code=1,
    )


_NOTES = ("For simplicity, JAX has removed its internal frames",)
"""What libraries add to an exception, below its message."""


def ending(code: int | None, log: str, limit_s: float = TIME_LIMIT_S) -> str:
    """One line: the signal, the time limit, or the last line that the process printed."""
    if code is None:
        return f"no answer within {limit_s:.0f} s"
    if code < 0:
        return f"crashed: {signal.Signals(-code).name}"
    lines = [line for line in log.splitlines() if line.strip("- ") and not line.startswith(_NOTES)]
    return lines[-1].strip()[:LONGEST_LINE] if lines else f"it ended with status {code} and printed nothing"


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole session: a compiler may run beside the interpreter."""
    kill_all(process.pid, [])
    process.wait()


def _text(printed: bytes) -> str:
    return printed.decode("utf-8", errors="replace").replace("\r\n", "\n")


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
