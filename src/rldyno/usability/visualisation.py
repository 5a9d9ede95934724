"""Visualisation: what TensorBoard costs a training loop that writes to it, alone and while it is watched.

The server that watches has a toolchain of its own. A process beside it asks for the curve again and again, as
the page in a browser does.
"""

from __future__ import annotations

import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from rldyno.errors import Problem
from rldyno.processes.children import signal_group
from rldyno.processes.rig import Runtime, end, run, start
from rldyno.toolchains.catalogue import Toolchain
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno.usability.beside import beside
from rldyno.usability.data import snippet_lines
from rldyno.usability.frameworks import Board
from rldyno.usability.process import first_mode, rig
from rldyno.usability.rounds import ratio
from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.usability.boards import LOG, LOGGED, PLAIN, TAG, WATCHED

Json = dict[str, Any]
TOOL = "tensorboard"
READS_EVERY_S = 1
"""How often the server reads its files and the page asks it. TensorBoard's own defaults are 5 and 30."""
PATIENCE_S = 60.0
_ADDRESS = re.compile(r"http://[\w.]+:(\d+)/")
_PAGE = """
import sys, time, urllib.request
while True:
    for path in ("runs", "plugin/scalars/tags", "plugin/scalars/scalars?run=.&tag={tag}"):
        try:
            urllib.request.urlopen("http://127.0.0.1:{port}/data/" + path, timeout=10).read()
        except OSError:
            pass
    time.sleep({every})
"""
_READER = """
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"tensors": 0, "scalars": 0})
events.Reload()
found = events.Tensors if sys.argv[2] in events.Tags()["tensors"] else events.Scalars
print(len(found(sys.argv[2])))
"""
"""Newer writers store scalars as tensors."""


def measure(board: Board, interpreter: Interpreter, chain: Toolchain, directory: Path) -> Json:
    mode = board.mode or first_mode(chain)
    found: Json = {"title": board.title, "own": board.own, "mode": mode, "packages": list(board.packages)}
    try:
        extra = (str(beside(interpreter, board.packages)),) if board.packages else ()
    except Problem as problem:
        return {**found, "error": f"{problem.message}: {(problem.detail or '').strip()}", "passing": True}
    try:
        tool, lacks = _runtime(ensure([TOOL])[TOOL]), None
    except Problem as problem:
        tool, lacks = None, f"not watched: {problem.message}"
    (directory / LOG).mkdir()
    if tool is None:
        answer = rig(interpreter, chain, UsabilityJob(chain.backend, "watch", mode, paths=extra), directory)
        return {**found, **figures(answer), "watch_reason": lacks, "passing": True}
    with watched(tool, directory) as server:
        job = UsabilityJob(chain.backend, "watch", mode, paths=extra, server=server.group)
        answer = rig(interpreter, chain, job, directory)
        used_s = server.cpu_s() - server.used_before_s
    readable = None if answer["error"] else count(tool, directory) == answer["written"]
    return {
        **found,
        **figures(answer, used_s),
        "readable": readable,
        "watch_reason": None,
        "reads_every_s": READS_EVERY_S,
    }


def figures(answer: Json, used_s: float | None = None) -> Json:
    """Medians of the rounds. `used_s`: CPU time of the server."""
    if answer["error"]:
        return answer
    rounds = answer["rounds"]
    watched_s = sum(one[WATCHED] for one in rounds if WATCHED in one) * answer["updates"]
    return {
        "error": None,
        "lines": snippet_lines(answer["source"]),
        "updates": answer["updates"],
        "rounds": rounds,
        "update_s": statistics.median(one[PLAIN] for one in rounds),
        "scalar_cpu_s": answer["scalar_cpu_s"],
        "logged_ratio": ratio(rounds, LOGGED),
        "watched_ratio": ratio(rounds, WATCHED),
        "server_cpu": used_s / watched_s if used_s is not None and watched_s else None,
    }


@dataclass(frozen=True)
class Server:
    group: int
    used_before_s: float = 0.0

    def cpu_s(self) -> float:
        """Of the server and its children."""
        leader = psutil.Process(self.group)
        used = 0.0
        for process in (leader, *leader.children(recursive=True)):
            with suppress(psutil.Error):
                times = process.cpu_times()
                used += times.user + times.system
        return used


@contextmanager
def watched(tool: Runtime, directory: Path) -> Iterator[Server]:
    """A TensorBoard that shows the log below this directory, and a page that asks it."""
    printed = directory / "tensorboard.log"
    options = ["--logdir", str(directory / LOG), "--host", "127.0.0.1", "--port", "0"]
    options += ["--reload_interval", str(READS_EVERY_S)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        with printed.open("wb") as file:
            started.append(start(["-P", "-m", "tensorboard.main", *options], directory, tool, stdout=file))
        page = _PAGE.format(port=port_of(started[0], printed), tag=TAG, every=READS_EVERY_S)
        started.append(start(["-c", page], directory, tool, stdout=subprocess.DEVNULL))
        server = Server(started[0].pid)
        yield Server(server.group, server.cpu_s())
    finally:
        for process in started:
            # One that stands still would not notice its end.
            signal_group(process.pid, signal.SIGCONT)
            end(process)


def port_of(server: subprocess.Popen[bytes], printed: Path) -> int:
    """Where it listens, once it says so."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        said = _ADDRESS.search(printed.read_text(encoding="utf-8", errors="replace"))
        if said:
            return int(said[1])
        time.sleep(0.05)
    raise RuntimeError(f"TensorBoard did not start: {printed.read_text(errors='replace').strip()[-300:]}")


def count(tool: Runtime, directory: Path) -> int | None:
    """Values that TensorBoard's own reader finds in the event files; None where it fails."""
    ended = run(["-c", _READER, str(directory / LOG), TAG], directory, tool)
    return int(ended.out) if ended.code == 0 else None


def _runtime(tool: Interpreter) -> Runtime:
    return Runtime(tool.path, tool.isolated, {})
