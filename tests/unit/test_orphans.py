"""Processes that a worker leaves behind in sessions of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rldyno.processes.orphans import end_leftovers
from rldyno_rig.schema import SPAWN_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans to an ancestor")

# A worker that leaves a process in a session of its own, whose parent ends in a moment, and prints its pid.
WORKER = """
import os, subprocess, sys, time
code = 'import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(30)'
parent = 'import subprocess, sys, time; subprocess.Popen([sys.executable, "-c", sys.argv[1]]); '
parent += 'time.sleep({parent_s})'
subprocess.Popen([sys.executable, '-c', parent, code])
time.sleep(600)
"""
RUNNER = """
import os, subprocess, sys
from rldyno.processes.orphans import adopt_orphans, children, end_orphans
adopt_orphans()
other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])
before = children()
environment = {{**os.environ, {variable!r}: '1'}}
worker = subprocess.Popen([sys.executable, '-c', {worker!r}], stdout=subprocess.PIPE, env=environment)
stray = int(worker.stdout.readline())
worker.kill()
worker.wait()
end_orphans({spared}, of_workers_only={only})
print(os.path.exists(f'/proc/{{stray}}'), other.poll() is None, flush=True)
other.kill()
"""


@pytest.mark.parametrize("parent_s", [0, 30], ids=["its parent ended", "its parent lives"])
@pytest.mark.parametrize(("spared", "only"), [("before", False), ("()", True)])
def test_an_orphan_in_a_session_of_its_own_is_ended_and_other_children_are_not(
    spared: str, only: bool, parent_s: int
) -> None:
    worker = WORKER.format(parent_s=parent_s)
    code = RUNNER.format(variable=SPAWN_VARIABLE, worker=worker, spared=spared, only=only)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    stray_lives, other_lives = out.split()
    assert (stray_lives, other_lives) == ("False", "True")


def test_what_a_killed_runner_and_lab_left_is_ended_before_the_next_attempt(tmp_path: Path) -> None:
    def start(folder: Path, **variables: str) -> subprocess.Popen[bytes]:
        code = "import time; print(1, flush=True); time.sleep(600)"
        environment = {**os.environ, **variables}
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, env=environment, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        return process

    (tmp_path / "elsewhere").mkdir()
    left = start(tmp_path, **{SPAWN_VARIABLE: "1"})
    users_own = start(tmp_path)
    of_another_trial = start(tmp_path / "elsewhere", **{SPAWN_VARIABLE: "1"})
    try:
        end_leftovers(tmp_path)
        assert left.wait(timeout=60) == -signal.SIGKILL
        time.sleep(0.1)
        assert (users_own.poll(), of_another_trial.poll()) == (None, None)
    finally:
        for process in (left, users_own, of_another_trial):
            process.kill()
            process.communicate()
