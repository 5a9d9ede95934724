"""The workers of a trial as one thing: running, ended, failed first at some rank, stopped."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rldyno.errors import UNWRITABLE
from rldyno.processes import team
from rldyno.processes.children import EndWatch, signal_group
from rldyno.processes.rig import FAULT_HANDLER, Runtime, start_rig
from rldyno.records.trial_state import log_tail
from rldyno.trial.nodes import PASSED_ON, Began, Nodes
from rldyno.trial.outcome import Ending
from rldyno.trial.places import Places
from rldyno.trial.results import read_result
from rldyno.trial.worker import AbsentError, Silence, Worker
from rldyno_rig import schema
from rldyno_rig.team.names import LOST, SUBDIRECTORY, home
from rldyno_rig.trial_file import TrialFile

_GRACE_S = 2.0
_POLL_S = 0.005
_LOG_LIMIT_BYTES = 64 * 2**20
_LAST_WORDS_S = 1.0
"""In which the others may end, too, after one has failed: the first to be seen need not be the cause."""
_FAR_S = 60.0
"""The same for workers on other nodes: a network's file system may show their notes late."""
_SRUN_S = 10.0
"""In which srun kills its tasks."""
_TRACEBACK_LINES = 1000
_LOST_ANOTHER = 3
_TAKES_ALONG = {-signal.SIGABRT, -signal.SIGPIPE}
"""Exit codes of workers that some libraries end when the connection to another breaks."""


@dataclass(frozen=True)
class _Exit:
    code: int
    time_ns: int
    """When its result was written; when it was seen for one that left none."""


class Crew:
    """Started when made. One worker is a crew, too."""

    def __init__(
        self,
        job: str,
        directory: Path,
        trial: TrialFile,
        runtime: Runtime,
        places: Places,
        logs: Path,
    ) -> None:
        """`logs`: the trial's directory, also where the job has another one."""
        self.size = trial.workers
        self.spawn_ns = time.monotonic_ns()
        self.logs = [home(logs, rank) / schema.LOG_FILE for rank in range(self.size)]
        self._directory = directory
        self._nodes: Nodes | None = None
        if places.per_node is not None:
            self._nodes = Nodes(directory, trial, places.per_node)
        # Workers that are no children of this process: their ends are noted in files.
        self._below_other = self.size > 1 and (trial.by_mpi or self._nodes is not None)
        self._exits: dict[int, _Exit] = {}
        self._silences = [
            Silence(home(directory, rank) / schema.PROGRESS_FILE, trial.hang_timeout_s)
            for rank in range(self.size)
        ]
        self._hang_timeout_s = trial.hang_timeout_s
        try:
            processes = self._start(job, runtime, places)
        except OSError as error:
            if error.errno in UNWRITABLE:
                raise
            raise AbsentError(f"cannot start {runtime.python}: {error.strerror or error}") from error
        self._processes = [Worker(process, self.spawn_ns) for process in processes]
        self.pids = [process.pid for process in processes]
        self._watch = EndWatch()
        for pid in self.pids:
            self._watch.add(pid)
        self.began: tuple[Began, ...] = ()
        """Of workers on several nodes, in their order, once it is closed."""
        self.far_cpu_s: float | None = None
        """Of workers on several nodes together, as the kernel of each counted it, once it is closed."""

    @property
    def watched(self) -> int:
        """Workers that run on this machine."""
        return self.size if self._nodes is None else self._nodes.here

    @property
    def told_first(self) -> bool:
        """Whether its workers may hear before this process that a job is ended."""
        return self._nodes is not None

    def trees(self, stopped: Callable[[], bool]) -> list[int]:
        """Processes below which all workers of this machine run, once they do.

        Slurm may let a step wait: `stopped` ends the waiting.
        """
        if self._nodes is None:
            return self.pids
        while len(self._nodes.pids_here()) < self._nodes.here:
            if self._watch.wait(_POLL_S) or stopped():  # or srun has ended
                break
            time.sleep(_POLL_S)
        return list(self._nodes.pids_here().values()) or self.pids

    def _start(self, job: str, runtime: Runtime, places: Places) -> list[subprocess.Popen[bytes]]:
        cpus = places.cpus or (None,) * self.size
        if self.size == 1:
            with self.logs[0].open("wb") as log:
                return [
                    start_rig(
                        job,
                        self._directory,
                        runtime,
                        cpus=cpus[0],
                        stdout=log,
                        spawn_ns=self.spawn_ns,
                        options=FAULT_HANDLER,
                    )
                ]
        if self._nodes is not None:
            return [self._nodes.start(self.spawn_ns)]
        for log_file in self.logs:
            log_file.parent.mkdir(parents=True, exist_ok=True)
        posts = [
            team.Post(rank, self.logs[rank], cpus[rank], places.variables(rank)) for rank in range(self.size)
        ]
        return team.start_team(job, self._directory, runtime, posts, self.spawn_ns)

    @property
    def end_ns(self) -> int:
        return max(process.end_ns for process in self._processes)

    @property
    def seconds(self) -> float:
        """From the start to the end of the last."""
        return (self.end_ns - self.spawn_ns) / 1e9

    @property
    def usage(self) -> resource.struct_rusage | None:
        """Of all together. Of peaks the highest counts: the others had theirs at another time.

        None where they are on several nodes.
        """
        if self._nodes is not None:
            return None
        known = [process.usage for process in self._processes if process.usage is not None]
        if len(known) < 2:
            return known[0] if known else None
        total = [sum(values) for values in zip(*known, strict=True)]
        total[2] = max(usage.ru_maxrss for usage in known)
        return resource.struct_rusage(total)

    def over(self) -> bool:
        """All have ended, or one has failed."""
        self._look()
        return self._failed() or self._all_ended()

    def wait(self, timeout_s: float) -> bool:
        """Return when a worker has ended or the time is up: False if none has, True if one may have."""
        return self._watch.wait(timeout_s) or self._below_other

    def misbehaves(self, now_ns: int) -> Ending | None:
        """End all of it if a worker has shown no life for too long, or fills the disk with its log."""
        quiet = [silence.too_long(now_ns) for silence in self._silences]
        if any(quiet[rank] for rank in self._running()):
            return self._hung()
        for rank, log in enumerate(self.logs):
            if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
                self.stop(signal.SIGTERM)
                whose = "" if self.size == 1 else f" of worker {rank}"
                return Ending("killed", f"{log.name}{whose} grew beyond 64 MiB", self._code(rank), rank)
        return None

    def finish(self) -> Ending:
        """How it ended, once it is over. If a worker failed, the others are ended."""
        deadline = time.monotonic() + (_LAST_WORDS_S if self._nodes is None else _FAR_S)
        while self._unclear() and time.monotonic() < deadline:
            self._watch.wait(min(0.05, deadline - time.monotonic()))
            self._look()
        self._look()
        exits, running = dict(self._exits), self._running()
        unanswering = [rank for rank in running if self._halted(rank)] or running
        self.stop(signal.SIGTERM)
        failed = [rank for rank, ended in exits.items() if ended.code]
        if not failed:
            return Ending.from_exit(0) if len(exits) == self.size else self._starter_failed()
        first = min(failed, key=lambda rank: (self._consequence(rank), exits[rank].time_ns))
        if unanswering and self._consequence(first) == _LOST_ANOTHER:  # a collective has limits of its own
            message = f"worker {unanswering[0]} did not answer: {self._said(first)}"
            return Ending("hung", message, rank=unanswering[0])
        return Ending.from_exit(exits[first].code, first if self.size > 1 else None)

    def _hung(self) -> Ending:
        """Find out who kept the others waiting."""
        halted = [rank for rank in self._running() if self._halted(rank)]
        # faulthandler answers SIGABRT with every thread's traceback: the log shows where it hung.
        self.stop(signal.SIGABRT)
        silence = f"no progress for {self._hang_timeout_s:g} s"
        if self.size == 1:
            return Ending("hung", silence, self._code(0))
        busy = halted or [rank for rank in range(self.size) if not self._waited(rank)]
        if not busy or len(busy) == self.size:
            return Ending("hung", f"{silence} of any of the {self.size} workers", rank=0)
        others = "the other waits" if self.size == 2 else "others wait"
        return Ending("hung", f"worker {busy[0]} hung: {silence}; {others} for it", rank=busy[0])

    def stop(self, first_signal: int, grace_s: float = _GRACE_S) -> None:
        """Send the signal to all, wait for a short time, then kill what is left."""
        if self._all_ended():
            return
        self._signal(first_signal)
        deadline = time.monotonic() + grace_s
        while not self._all_ended() and time.monotonic() < deadline:
            self._watch.wait(deadline - time.monotonic())
        self._signal(signal.SIGKILL)
        deadline = time.monotonic() + (_SRUN_S if self._nodes else 0.0)
        while not self._all_ended() and time.monotonic() < deadline:
            self._watch.wait(deadline - time.monotonic())
        for pid in self.pids:
            signal_group(pid, signal.SIGKILL)
        while not self._all_ended():
            self._watch.wait(1.0)

    def close(self) -> None:
        """Remove what only served its start."""
        self._watch.close()
        if self._nodes is not None:
            self.began = tuple(one for _, one in sorted(self._nodes.began().items()))
            self.far_cpu_s = team.noted_cpu_s(self._directory, self.size)
        if self.size > 1:
            team.tidy(self._directory)

    def _look(self) -> None:
        for rank in self._running():
            code = self._code(rank)
            if code is not None:
                self._exits[rank] = _Exit(code, self._failed_at(rank))
                if not self._below_other:
                    self._watch.discard(self.pids[rank])

    def _code(self, rank: int) -> int | None:
        """Its exit code, once it has ended."""
        if self._below_other:
            return team.noted_exit(self._directory, rank)
        process = self._processes[rank]
        return process.exit_code if process.ended() else None

    def _failed_at(self, rank: int) -> int:
        with contextlib.suppress(OSError):
            return (home(self._directory, rank) / schema.RESULT_FILE).stat().st_mtime_ns
        return time.time_ns()

    def _running(self) -> list[int]:
        return [rank for rank in range(self.size) if rank not in self._exits]

    def _all_ended(self) -> bool:
        return all(process.ended() for process in self._processes)

    def _failed(self) -> bool:
        return any(ended.code for ended in self._exits.values())

    def _unclear(self) -> bool:
        """Whether others may still say more about how it ended."""
        if not self._all_ended():
            return self._doubtful()
        return self._nodes is not None and not self._processes[0].exit_code and bool(self._running())

    def _doubtful(self) -> bool:
        """Whether no failure that was seen must have come first."""
        return self._failed() and all(
            self._consequence(rank) for rank, ended in self._exits.items() if ended.code
        )

    def _consequence(self, rank: int) -> int:
        """How likely the failure of a worker follows from that of another: 0 is not at all."""
        code = self._exits[rank].code
        if code < 0:
            return 2 if code in _TAKES_ALONG else 0
        said = self._said(rank)
        return _LOST_ANOTHER if LOST in said else 1 if said else 2

    def _said(self, rank: int) -> str:
        """Its own words about its end."""
        return read_result(home(self._directory, rank) / schema.RESULT_FILE).said

    def _starter_failed(self) -> Ending:
        if self._nodes is not None:
            message, rank = self._nodes.why_ended(self._processes[0].exit_code)
            return Ending("crashed", message, rank=rank)
        tail = log_tail(self._directory / SUBDIRECTORY / team.MPI_LOG) or "it printed nothing"
        code = self._processes[0].exit_code
        return Ending("crashed", f"mpiexec ended with code {code}: {tail.splitlines()[-1][:200]}", code)

    def _groups(self) -> dict[int, int]:
        """Rank → its process group, of those that run on this machine."""
        if self._nodes is not None:
            here = self._nodes.pids_here()
            return {rank: here[rank] for rank in self._running() if rank in here}
        if not self._below_other:
            return {rank: self.pids[rank] for rank in self._running()}
        known = {rank: team.group_below_mpi(self._directory, rank) for rank in self._running()}
        return {rank: group for rank, group in known.items() if group is not None}

    def _signal(self, number: int) -> None:
        if self._nodes is not None:
            signal_group(self.pids[0], PASSED_ON.get(signal.Signals(number), signal.SIGTERM))
            return
        for group in list(self._groups().values()) or self.pids:
            signal_group(group, number)

    def _halted(self, rank: int) -> bool:
        """Whether a signal such as SIGSTOP keeps it from running."""
        group = self._groups().get(rank)
        return group is not None and any(state == "T" for state in _states(group))

    def _waited(self, rank: int) -> bool:
        """Whether its log ends with a traceback from inside a reduction or a meeting."""
        tail = log_tail(self.logs[rank], _TRACEBACK_LINES) or ""
        return f"rldyno_rig{os.sep}team{os.sep}" in tail


def _states(group: int) -> Sequence[str]:
    """Of the processes of a group (Linux)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                found.append(fields[0])
    return found
