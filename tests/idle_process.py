"""A process that does nothing until it is ended, for tests that look for the processes of a toolchain."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def idle_process(python: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`python -c … arguments`, once it runs: `Popen` returns during exec, before a command line shows."""
    process = subprocess.Popen(
        [str(python), "-c", "print(flush=True); input()", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()
