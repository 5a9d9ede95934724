"""Ports on which a framework's own collective listens."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rldyno_rig.clock import Clock
from rldyno_rig.team import ports
from rldyno_rig.team.link import LOCAL, Link
from rldyno_rig.team.team import NATIVE, Team

LISTENING = """
import socket, sys
own = socket.socket()
own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
own.bind(("127.0.0.1", int(sys.argv[1])))
own.listen()
sys.stdin.read()
"""


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(0, 1, NATIVE, Link(0, 1, []), Clock())


def started(port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", LISTENING, str(port)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def test_a_reserved_port_is_for_the_process_that_is_told_it(team: Team) -> None:
    with ports.reserved(team) as port:
        process = started(port)
        assert ports.opened(process, port)
        process.communicate()
    assert process.returncode == 0


def test_a_process_that_finds_its_port_taken_is_not_taken_for_the_one_that_has_it() -> None:
    with socket.create_server((LOCAL, 0)) as taken:
        process = started(taken.getsockname()[1])
        assert not ports.opened(process, taken.getsockname()[1])
        process.communicate()


def test_workers_of_one_machine_meet_on_it(team: Team) -> None:
    assert ports.own_address(team) == LOCAL


def test_a_worker_elsewhere_is_reached_where_it_reaches_the_first(tmp_path: Path) -> None:
    team = Team(1, 2, NATIVE, Link(1, 2, []), Clock(), address="127.0.0.2")
    assert ports.own_address(team) in {"127.0.0.1", "127.0.0.2"}
