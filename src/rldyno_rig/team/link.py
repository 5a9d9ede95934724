"""Messages between the workers of a team: a star of TCP connections around rank 0, standard library only.

It carries what is rare and small: where the framework's own collective meets, whether to stop, and the counts
at the end. Gradients never pass through it.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import time
from pathlib import Path
from typing import Dict, List, Optional

from rldyno_rig.team.names import LOST

POLL_S = 0.02
_LENGTH = struct.Struct("!I")
_RANK = struct.Struct("!I")
LOCAL = "127.0.0.1"


class TeamError(Exception):
    """The workers cannot meet, or one of them is gone."""


class Link:
    """Every call is made by all ranks, in the same order. It blocks until the others have made theirs, which
    may be long: they train meanwhile. A worker that is gone is a TeamError; one that hangs is the trial
    runner's business.
    """

    def __init__(self, rank: int, size: int, others: List[socket.socket]) -> None:
        """`others`: of rank 0 those of all other ranks, in their order; of the rest that of rank 0."""
        self.rank, self.size, self._others = rank, size, others

    @staticmethod
    def open(rank: int, size: int, meeting: Path, host: str, patience_s: float) -> Link:
        """Meet the others through a file, in which rank 0 writes where it listens and a secret.

        Rank 0 takes any free port, so none can be taken before. `host` is the address at which the others
        reach rank 0. Raises TeamError when not all are there in time.
        """
        deadline = time.monotonic() + patience_s
        if rank == 0:
            return Link(rank, size, _receive_others(size, meeting, host, deadline))
        return Link(rank, size, [_reach_first(rank, meeting, deadline)])

    def gather(self, data: bytes) -> Optional[List[bytes]]:
        """What each rank gives, in their order, at rank 0; None at the others."""
        if self.rank:
            self._send(self._others[0], data)
            return None
        return [data, *(self._receive(other) for other in self._others)]

    def broadcast(self, data: Optional[bytes]) -> bytes:
        """What rank 0 gives; the others give None."""
        if self.rank:
            return self._receive(self._others[0])
        assert data is not None
        for other in self._others:
            self._send(other, data)
        return data

    def agree(self, wish: int) -> int:
        """The largest wish of all, 0 to 255."""
        wishes = self.gather(bytes([wish]))
        return self.broadcast(None if wishes is None else bytes([max(wish[0] for wish in wishes)]))[0]

    def meet(self) -> None:
        """Nobody goes on before all have come here."""
        self.agree(0)

    def close(self) -> None:
        for other in self._others:
            other.close()

    def _send(self, other: socket.socket, data: bytes) -> None:
        try:
            other.sendall(_LENGTH.pack(len(data)) + data)
        except OSError as error:
            raise TeamError("worker {} {}: {}".format(self.rank, LOST, error)) from error

    def _receive(self, other: socket.socket) -> bytes:
        try:
            return _exactly(other, _LENGTH.unpack(_exactly(other, _LENGTH.size))[0])
        except OSError as error:
            raise TeamError("worker {} {}: {}".format(self.rank, LOST, error)) from error


def _receive_others(size: int, meeting: Path, host: str, deadline: float) -> List[socket.socket]:
    secret = secrets.token_hex(16)
    found: Dict[int, socket.socket] = {}
    with socket.socket() as listener:
        listener.bind((LOCAL if host == LOCAL else "", 0))
        listener.listen(size)
        _publish(meeting, "{} {} {}".format(host, listener.getsockname()[1], secret))
        while len(found) < size - 1:
            listener.settimeout(max(0.0, deadline - time.monotonic()) or POLL_S)
            try:
                other, _ = listener.accept()
            except socket.timeout:
                missing = sorted(set(range(1, size)) - set(found))
                raise TeamError("worker 0 waited, but {} did not come".format(named(missing))) from None
            rank = _introduced(other, secret, deadline)
            if rank is None or not 0 < rank < size or rank in found:
                other.close()  # a stranger
            else:
                found[rank] = other
    return [found[rank] for rank in range(1, size)]


def named(ranks: List[int]) -> str:
    """`worker 1`, `workers 1, 2`."""
    return "worker{} {}".format("s" if len(ranks) > 1 else "", ", ".join(map(str, ranks)))


def _introduced(other: socket.socket, secret: str, deadline: float) -> Optional[int]:
    other.settimeout(max(0.0, deadline - time.monotonic()) or POLL_S)
    try:
        given = _exactly(other, len(secret))
        rank = int(_RANK.unpack(_exactly(other, _RANK.size))[0])
    except OSError:
        return None
    _prepare(other)
    return rank if secrets.compare_digest(given, secret.encode()) else None


def _reach_first(rank: int, meeting: Path, deadline: float) -> socket.socket:
    why: object = "it has not said where it listens"
    while time.monotonic() < deadline:
        try:
            host, port, secret = meeting.read_text(encoding="ascii").split()
            first = socket.create_connection((host, int(port)), max(POLL_S, deadline - time.monotonic()))
            _prepare(first)
            first.sendall(secret.encode() + _RANK.pack(rank))
            return first
        except FileNotFoundError:
            pass
        except OSError as error:
            why = error
        time.sleep(POLL_S)
    raise TeamError("worker {} cannot reach worker 0: {}".format(rank, why))


def _publish(meeting: Path, text: str) -> None:
    """In one step, and for nobody else to read."""
    partial = meeting.with_suffix(".partial")
    descriptor = os.open(str(partial), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(text)
    partial.replace(meeting)


def _prepare(other: socket.socket) -> None:
    other.settimeout(None)
    # A message is a few bytes that somebody waits for.
    other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _exactly(other: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = other.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
