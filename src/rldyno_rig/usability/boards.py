"""The part `visualisation`: what TensorBoard costs a training loop that writes to it and is watched."""

from __future__ import annotations

import inspect
import os
import signal
import time
from pathlib import Path
from typing import Any, Callable, Dict, NamedTuple, Optional

from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.loading import load_beside
from rldyno_rig.usability.learner import updating

LOG = "log"
TAG = "loss"
ROUNDS = 8
BLOCK_S = 1.0
"""Of each kind in a round; a watched server reads its files once in it."""
SLICES = 5
"""In which plain and written updates alternate within a round."""
LEAST_UPDATES = 10
WRITES = 2_000
SETTLING_S = 0.3
"""In which threads that still wait for work by spinning go to sleep."""
PLAIN, LOGGED, WATCHED = "plain", "logged", "watched"


class Board(NamedTuple):
    """A writer of event files."""

    write: Callable[[str, float, int], Any]
    """(tag, value, step)"""
    flush: Callable[[], Any]
    close: Callable[[], Any]


def tensorboardx(directory: Path) -> Board:
    """For frameworks that have no writer of their own."""
    from tensorboardX import SummaryWriter

    writer = SummaryWriter(str(directory))
    return Board(writer.add_scalar, writer.flush, writer.close)


def watch(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Seconds of one update whose loss is read: plain, written to an event file, and also watched.

    In each round slices of plain and written updates alternate, and the watched ones come before or after.
    The server of TensorBoard stands still but for these.
    """
    make = load_beside("usability", job.backend).board
    # The learner first: TensorFlow takes no number of threads any more once a writer has been opened.
    loop = Loop(*updating(job, "mlp"))
    board: Board = make(directory / LOG)
    loop.run(LEAST_UPDATES, board)
    scalar_cpu_s = loop.scalar_cpu_s(board)
    count = max(LEAST_UPDATES, int(BLOCK_S / SLICES / (loop.run(LEAST_UPDATES, None) / LEAST_UPDATES)))
    rounds = []
    for number in range(ROUNDS):
        kinds = [[PLAIN, LOGGED] * SLICES, *([[WATCHED] * SLICES] if job.server else [])]
        spent: Dict[str, float] = {}
        for block in kinds if number % 2 else reversed(kinds):
            let_run(job.server, block[0] == WATCHED)
            for kind in block:
                spent[kind] = spent.get(kind, 0.0) + loop.run(count, None if kind == PLAIN else board)
        rounds.append({kind: seconds / (count * SLICES) for kind, seconds in spent.items()})
    let_run(job.server, True)
    board.close()
    return {
        "updates": count * SLICES,
        "rounds": rounds,
        "scalar_cpu_s": scalar_cpu_s,
        "written": loop.written,
        "source": inspect.getsource(make),
    }


class Loop:
    """Updates, one after the other."""

    def __init__(self, learner: Any, update: Callable[[], Any]) -> None:
        self.learner, self.update = learner, update
        self.step = self.written = 0

    def run(self, count: int, board: Optional[Board]) -> float:
        """Seconds until the device and the board have nothing left to do."""
        began = time.perf_counter()
        for _ in range(count):
            loss, _ = self.learner.read(self.update())
            self.step += 1
            if board is not None:
                board.write(TAG, float(loss), self.step)
        if board is not None:
            board.flush()
            self.written += count
        self.learner.drain()
        return time.perf_counter() - began

    def scalar_cpu_s(self, board: Board) -> float:
        """CPU time of one value, in all threads of this process, while nothing else is computed."""
        time.sleep(SETTLING_S)
        used = time.process_time()
        for _ in range(WRITES):
            self.step += 1
            board.write(TAG, 0.5, self.step)
        board.flush()
        self.written += WRITES
        return (time.process_time() - used) / WRITES


def let_run(server: int, runs: bool) -> None:
    """Let all processes of the server's group go on, or stand still."""
    if server:
        os.killpg(server, signal.SIGCONT if runs else signal.SIGSTOP)
