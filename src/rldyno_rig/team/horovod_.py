"""Horovod for the workers of a team, without `horovodrun`: they know each other already.

Horovod's processes find each other through a small HTTP server, which rank 0 runs until all have come.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from typing import Any, Dict, Iterator, Optional

from rldyno_rig.team import ports
from rldyno_rig.team.link import LOCAL, TeamError
from rldyno_rig.team.team import Team

MEANS = "horovod, gloo"
# To Horovod all workers are on one host: it then reduces over all of them at once.
_HOST = "localhost"


def begin(team: Team, framework: str) -> Any:
    """`horovod.torch` and so on, initialised: from now on its calls reduce over the team. All ranks call it.

    Raises TeamError.
    """
    with _meeting_point(team) as port:
        found = team.link.broadcast(None if port is None else str(port).encode())
        os.environ.update(_variables(team, found.decode()))
        module = importlib.import_module("horovod." + framework)
        module.init()
        team.link.meet()
    if (module.rank(), module.size()) != (team.rank, team.size):
        seen = "Horovod sees worker {} of {}, not {} of {}"
        raise TeamError(seen.format(module.rank(), module.size(), team.rank, team.size))
    team.on_finish(module.shutdown)
    return module


@contextlib.contextmanager
def _meeting_point(team: Team) -> Iterator[Optional[int]]:
    """The port of the server, at rank 0."""
    if team.rank:
        yield None
        return
    from horovod.runner.common.util.hosts import SlotInfo
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    size = team.size
    server = RendezvousHTTPServer((LOCAL if team.address == LOCAL else "", 0), RendezvousHandler, 0)
    server.init([SlotInfo(_HOST, rank, rank, 0, size, size, 1) for rank in range(size)])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _variables(team: Team, port: str) -> Dict[str, str]:
    """What `horovodrun` would set."""
    interface = ports.interface(team)
    here = {} if interface is None else {"HOROVOD_GLOO_IFACE": interface}
    return {
        "HOROVOD_HOSTNAME": _HOST,
        "HOROVOD_RANK": str(team.rank),
        "HOROVOD_SIZE": str(team.size),
        "HOROVOD_LOCAL_RANK": str(team.rank),
        "HOROVOD_LOCAL_SIZE": str(team.size),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": team.address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(int(team.patience_s)),
        # Otherwise it looks for work every ms: a step of torch takes 2.2 ms, not 1.4 (17,410 parameters).
        "HOROVOD_CYCLE_TIME": os.environ.get("HOROVOD_CYCLE_TIME", "0.1"),
        **here,
    }
