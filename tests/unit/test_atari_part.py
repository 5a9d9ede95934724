"""The part of toolchains that Atari games need."""

from __future__ import annotations

import os
from pathlib import Path

from rldyno.toolchains.catalogue import catalogue
from rldyno.toolchains.parts import InstalledPart
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.schema import PARTS_VARIABLE


def test_parts_of_environments_reach_every_worker() -> None:
    """Beside the part of a collective, and without one."""
    parts = {
        name: InstalledPart(name, {}, {PARTS_VARIABLE: f"/{name}", name.upper(): "1"})
        for name in ("atari", "mpi")
    }
    interpreter = Interpreter("numpy", Path("python"), "built", "3", {}, "cpu", parts)
    assert interpreter.variables_for(None) == {PARTS_VARIABLE: "/atari", "ATARI": "1"}
    both = interpreter.variables_for("host")
    assert both == {PARTS_VARIABLE: f"/atari{os.pathsep}/mpi", "ATARI": "1", "MPI": "1"}


def test_every_contestant_can_play_atari() -> None:
    for chain in catalogue().values():
        assert chain.part_of("atari") == "atari", chain.framework
