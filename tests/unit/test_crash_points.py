"""Commands killed at some of their changes of a file; `make fuzz` tries every one of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = (
    "run",
    "max-noise",
    "resume-early",
    "resume-late",
    "adaptive",
    "trial",
    "proof",
    "pack",
    "unpack",
    "bisect",
    "setup",
    "setup-again",
)
SCRIPT = Path(__file__).parents[1] / "crash_points.py"


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_command_goes_on_after_a_kill_at_any_change_of_a_file(case: str) -> None:
    done = subprocess.run([sys.executable, SCRIPT, case], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert f"{case}: killed at " in done.stdout
