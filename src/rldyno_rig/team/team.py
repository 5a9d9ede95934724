"""The workers of one trial as one of them sees them."""

from __future__ import annotations

import os
from array import array
from pathlib import Path
from typing import Any, Callable, List, Optional

import numpy as np

from rldyno_rig.clock import COMMUNICATE, UPDATE, Clock
from rldyno_rig.team import host
from rldyno_rig.team.link import LOCAL, Link, TeamError
from rldyno_rig.team.names import (
    ADDRESS_VARIABLE,
    COLLECTIVES,
    HOROVOD,
    HOST,
    LOST,
    MEETING_VARIABLE,
    NATIVE,
    NONE,
    RANK_VARIABLE,
    home,
)
from rldyno_rig.team.result import TeamResult

# Backends find the names of a team here, too.
__all__ = ["COLLECTIVES", "HOROVOD", "HOST", "NATIVE", "NONE", "Reduce", "Team", "home", "join", "own_rank"]

AGREE_EVERY = 16
"""Reductions from one agreement on stopping to the next. One takes about 0.1 ms."""
PATIENCE_S = 600.0

Reduce = Callable[[Any], Any]


class Team:
    def __init__(
        self,
        rank: int,
        size: int,
        collective: str,
        link: Link,
        clock: Clock,
        address: str = LOCAL,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`address`: at which the others reach rank 0. `patience_s`: in which a collective meets."""
        self.rank, self.size, self.collective, self.link = rank, size, collective, link
        self.address, self.patience_s = address, patience_s
        self.means = ""
        self.every_so_often: Callable[[], None] = lambda: None
        """Called after every AGREE_EVERY-th reduction, on all ranks after the same one."""
        self._leaving: List[Callable[[], None]] = []
        self._mark = clock.mark
        self._durations = array("q")
        self._bytes = 0
        self._count = 0

    def timed(self, reduce: Reduce, means: str, nbytes: int) -> Reduce:
        """The reduction of a learner, whose time is then phase `communicate`: a flat gradient of so many
        bytes → the mean of those of all ranks, the same to the last bit on each. It may work in place.
        """
        self.means, self._bytes = means, nbytes
        mark, durations = self._mark, self._durations

        def average(gradient: Any) -> Any:
            began = mark(UPDATE)
            try:
                averaged = reduce(gradient)
            except RuntimeError as error:  # what they all raise when a connection breaks
                raise TeamError("worker {} {}: {}".format(self.rank, LOST, error)) from error
            durations.append(mark(COMMUNICATE) - began)
            self._count += 1
            if self._count % AGREE_EVERY == 0:
                self.every_so_often()
                mark(COMMUNICATE)
            return averaged

        return average

    def on_finish(self, leave: Callable[[], None]) -> None:
        """Let a collective leave, after the last reduction of all ranks."""
        self._leaving.append(leave)

    def begin(self) -> None:
        """Training starts, for all at once: forget what warming up took."""
        del self._durations[:]
        self._count = 0
        self.link.meet()

    def finish(self) -> Optional[TeamResult]:
        """Leave it, after the last reduction. What communication took, at rank 0; None at the others."""
        gathered = self.link.gather(self._durations.tobytes())
        self.link.meet()
        if self.collective == HOST:
            host.leave()
        for leave in self._leaving:
            leave()
        if gathered is None:
            return None
        spent: List[np.ndarray] = [np.frombuffer(data, np.int64) for data in gathered]
        least = np.minimum.reduce(spent)
        return TeamResult(
            size=self.size,
            collective=self.collective,
            means=self.means,
            reductions=len(least),
            bytes=self._bytes,
            communicate_ns=tuple(int(one.sum()) for one in spent),
            wait_ns=tuple(int((one - least).sum()) for one in spent),
        )


def join(size: int, collective: str, clock: Clock, patience_s: float) -> Team:
    """Meet the other workers of the trial, as this process's environment says. Raises TeamError."""
    rank = own_rank()
    meeting = Path(os.environ[MEETING_VARIABLE])
    address = os.environ.get(ADDRESS_VARIABLE, LOCAL)
    link = Link.open(rank, size, meeting, address, patience_s)
    return Team(rank, size, collective, link, clock, address, patience_s)


def own_rank() -> int:
    return int(os.environ.get(RANK_VARIABLE, os.environ.get("PMI_RANK", "0")))
