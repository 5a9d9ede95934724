"""A warm worker process that measures on request, and sleeps otherwise."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from rldyno.nets.record import Kind
from rldyno.processes.rig import RIG, Runtime, end, ending, start_rig
from rldyno_rig.job_files import TIMING_FILE, TimingJob

Json = dict[str, Any]

START_TIMEOUT_S = 900.0
"""A compiler that meets a network for the first time may take minutes."""
ANSWER_SLACK_S = 120.0
"""An answer may take this much longer than the measurement itself."""


class TimerGone(Exception):
    """The worker died, did not answer, or its answer is not JSON; the message holds the reason."""


class Timer:
    def __init__(
        self,
        job: TimingJob,
        runtime: Runtime,
        cpus: Sequence[int] | None,
        rig: Path = RIG,
    ) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="rldyno-time-")
        home = Path(self._home.name)
        (home / TIMING_FILE).write_text(json.dumps(job.to_json()), encoding="utf-8")
        self._log = home / "log"
        self._buffer = b""
        self._cpu_s = 0.0
        pipe = subprocess.PIPE
        with self._log.open("wb") as log:
            self._process = start_rig(
                "time", home, runtime, cpus=cpus, stdin=pipe, stdout=pipe, stderr=log, rig=rig
            )

    def ready(self, timeout_s: float = START_TIMEOUT_S) -> Json:
        """Wait until it is built and warm; its facts and start-up times."""
        answer = self._read(timeout_s)
        if answer.get("ready") is not True:
            raise TimerGone(f"it did not get ready: {answer.get('error', answer)}")
        return answer

    def measure(self, kind: Kind, seconds: float) -> Json:
        """One measurement. An `error` in the answer: this contestant cannot do that kind of call."""
        assert self._process.stdin is not None
        request = {"measure": kind.measure, "rows": kind.rows, "data": kind.data, "seconds": seconds}
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._gone() from None
        return self._read(seconds + ANSWER_SLACK_S)

    def cpu_s(self) -> float:
        """Used by it and the children it waited for; after its end, the last known value."""
        with contextlib.suppress(psutil.Error):
            self._cpu_s = sum(psutil.Process(self._process.pid).cpu_times()[:4])
        return self._cpu_s

    def close(self) -> None:
        end(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._home.cleanup()

    def _read(self, timeout_s: float) -> Json:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        waiting = select.poll()
        waiting.register(self._process.stdout, select.POLLIN)
        while b"\n" not in self._buffer:
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise TimerGone(f"no answer within {timeout_s:.0f} s")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                raise self._gone()
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise TimerGone(f"its answer is not JSON: {line[:80].decode(errors='replace')}")
        return answer

    def _gone(self) -> TimerGone:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return TimerGone("its process closed its output")
        log = self._log.read_text(encoding="utf-8", errors="replace")
        return TimerGone(f"its process ended: {ending(code, log)}")
