"""Starting the rig processes of a team: one for each rank, by themselves or through MPI's `mpiexec`.

A process of a trial imports this module, so nothing heavy is imported at the top.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rldyno.processes.mpi import mpi_command
from rldyno.processes.rig import FAULT_HANDLER, RIG, Runtime, start_command, start_rig
from rldyno_rig.schema import CPUS_VARIABLE
from rldyno_rig.team.names import MEETING_VARIABLE, RANK_VARIABLE, SIZE_VARIABLE, SUBDIRECTORY, home

MEETING, MPI_LOG = "meeting", "mpiexec.log"
_KEPT_VARIABLE, _LOG_VARIABLE = "RLDYNO_KEPT", "RLDYNO_LOG"
_KEEPER = (
    f'trap "" USR1; echo $$ >"${_KEPT_VARIABLE}.pid"; '
    f'"$@" >"${_LOG_VARIABLE}" 2>&1; echo $? >"${_KEPT_VARIABLE}.ended"'
)
"""Around each rank below mpiexec, which says neither which rank ended nor how: a shell that notes both, and
leads the rank's session. When one rank ends, hydra sends SIGUSR1 to the others, which may still have a result
to write."""


@dataclass(frozen=True)
class Post:
    """One worker of a team before it is started."""

    rank: int
    log: Path
    cpus: tuple[int, ...] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Its own, besides those of the team."""


def start_team(
    job: str,
    directory: Path,
    runtime: Runtime,
    posts: Sequence[Post],
    spawn_ns: int | None = None,
) -> list[subprocess.Popen[bytes]]:
    """Start `job` on the job file in `directory` for all ranks: one process each; where the runtime has
    mpiexec that alone, whose children the ranks are. Each writes into its `home` below the directory.
    Raises OSError.
    """
    prepare(directory, len(posts))
    started: list[subprocess.Popen[bytes]] = []
    try:
        if runtime.mpiexec is not None:
            return [_start_mpi(job, directory, runtime, runtime.mpiexec, posts, spawn_ns)]
        for post in posts:
            process = start_post(job, directory, runtime, post, len(posts), spawn_ns)
            started.append(process)
    except OSError:
        for process in started:
            process.kill()
            process.wait()
        raise
    return started


def start_post(
    job: str,
    directory: Path,
    runtime: Runtime,
    post: Post,
    size: int,
    spawn_ns: int | None = None,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start one worker of a team. Raises OSError."""
    own = replace(runtime, variables={**runtime.variables, **_variables(directory, post, size)})
    with post.log.open("wb") as log:
        return start_rig(
            job,
            directory,
            own,
            cpus=post.cpus,
            stdout=log,
            spawn_ns=spawn_ns,
            options=FAULT_HANDLER,
            keep=keep,
        )


def tidy(directory: Path) -> None:
    """Remove what only served the start of a team."""
    folder = directory / SUBDIRECTORY
    for path in folder.glob("*") if folder.is_dir() else ():
        if not path.is_dir():
            path.unlink()


def note_of_exit(directory: Path, rank: int) -> Path:
    """Where the exit code of a rank is noted that is no child of the trial runner."""
    return directory / SUBDIRECTORY / f"{rank}.ended"


def noted_exit(directory: Path, rank: int) -> int | None:
    """Exit code of a rank that is no child, negative for a signal; None while it is not known."""
    code = _noted(note_of_exit(directory, rank))
    # A shell's way to say that a signal ended a program.
    return code if code is None or code <= 128 else 128 - code


def note_of_cpu_time(directory: Path, rank: int) -> Path:
    """Where a node notes the CPU time of a rank, in nanoseconds, before its exit code."""
    return directory / SUBDIRECTORY / f"{rank}.used"


def noted_cpu_s(directory: Path, ranks: int) -> float | None:
    """CPU time of all ranks together; None where that of one is not known."""
    used = [_noted(note_of_cpu_time(directory, rank)) for rank in range(ranks)]
    known = [one for one in used if one is not None]
    return sum(known) / 1e9 if len(known) == ranks else None


def group_below_mpi(directory: Path, rank: int) -> int | None:
    """Process group of a rank that mpiexec started; None while it is not known."""
    return _noted(directory / SUBDIRECTORY / f"{rank}.pid")


def _noted(note: Path) -> int | None:
    try:
        text = note.read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.endswith("\n") else None


def prepare(directory: Path, size: int) -> None:
    """Make the homes of the ranks, and remove what an earlier attempt left there."""
    for rank in range(1, size):
        home(directory, rank).mkdir(parents=True, exist_ok=True)
    tidy(directory)


def _variables(directory: Path, post: Post, size: int) -> dict[str, str]:
    return {
        **post.variables,
        RANK_VARIABLE: str(post.rank),
        SIZE_VARIABLE: str(size),
        MEETING_VARIABLE: str(directory / SUBDIRECTORY / MEETING),
    }


def _start_mpi(
    job: str, directory: Path, runtime: Runtime, mpiexec: Path, posts: Sequence[Post], spawn_ns: int | None
) -> subprocess.Popen[bytes]:
    command = ["/bin/sh", "-c", _KEEPER, "worker"]
    command += runtime.command([*FAULT_HANDLER, str(RIG), job, str(directory)])
    variables = [_variables(directory, post, len(posts)) | _kept(directory, post) for post in posts]
    every = [cpu for post in posts for cpu in post.cpus or ()]
    log = directory / SUBDIRECTORY / MPI_LOG
    with log.open("wb") as output:
        return start_command(
            mpi_command(mpiexec, command, variables),
            directory,
            runtime.environment(spawn_ns),
            cpus=every or None,
            stdout=output,
        )


def _kept(directory: Path, post: Post) -> dict[str, str]:
    """Ranks are no children of this process: they pin themselves."""
    own = {
        _KEPT_VARIABLE: str(directory / SUBDIRECTORY / str(post.rank)),
        _LOG_VARIABLE: str(post.log),
    }
    return own if post.cpus is None else {**own, CPUS_VARIABLE: ",".join(map(str, post.cpus))}
