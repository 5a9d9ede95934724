"""Where a framework's own collective listens. It gets the number of a port, and opens it itself."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Iterator, Optional, Set

from rldyno_rig.team.link import LOCAL, POLL_S
from rldyno_rig.team.team import Team

_LISTENING = "0A"  # in /proc/net/tcp
_ADDRESS_OF = 0x8915  # SIOCGIFADDR: the IPv4 address of a network interface


@contextlib.contextmanager
def reserved(team: Team, shared: int = socket.SO_REUSEADDR) -> Iterator[int]:
    """A free port that no other process is given meanwhile. Who names it may listen there.

    `shared`: how both sides ask to share the port; only one of them listens.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, shared, 1)
        holder.bind((LOCAL if team.address == LOCAL else "", 0))
        yield int(holder.getsockname()[1])


def of_first(team: Team, port: int) -> int:
    """The port that rank 0 has reserved, on all ranks."""
    return int(team.link.broadcast(str(port).encode() if team.rank == 0 else None))


def own_address(team: Team) -> str:
    """At which the other workers reach this one."""
    if team.rank == 0 or team.address == LOCAL:
        return team.address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards_first:
        towards_first.connect((team.address, 1))  # sends nothing
        return str(towards_first.getsockname()[0])


def interface(team: Team) -> Optional[str]:
    """That has this worker's address, by its name; None if it cannot be found (Linux only).

    gloo would look for the name of this machine instead, which need not lead anywhere.
    """
    if team.address == LOCAL:
        return "lo"
    own = socket.inet_aton(socket.gethostbyname(own_address(team)))
    for _, name in socket.if_nameindex():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked, contextlib.suppress(OSError):
            asks = struct.pack("256s", name.encode()[:15])
            if fcntl.ioctl(asked.fileno(), _ADDRESS_OF, asks)[20:24] == own:
                return name
    return None


def opened(process: "subprocess.Popen[bytes]", port: int) -> bool:
    """Wait until this child listens on the port; False when it has ended before."""
    while process.poll() is None:
        with contextlib.suppress(OSError):  # files that it closes meanwhile
            files = Path("/proc/{}/fd".format(process.pid)).iterdir()
            if _listeners(port) & {file.stat().st_ino for file in files}:
                return True
        time.sleep(POLL_S)
    return False


def _listeners(port: int) -> Set[int]:
    """Inodes of the sockets that listen there."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    ending = ":{:04X}".format(port)
    return {int(line[9]) for line in lines if line[3] == _LISTENING and line[1].endswith(ending)}
