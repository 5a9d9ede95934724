"""Bytes between host and device, against a learner that counts what it is given and what it returns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from test_training import SMALL, run

from rldyno_rig import footprint, transfers
from rldyno_rig.backends import numpy_
from rldyno_rig.transfers import total_bytes


class Counting:
    """Hands everything through to a learner and counts bytes, from the end of the warm-up on."""

    def __init__(self, learner: Any) -> None:
        self._learner = learner
        self.to_device = self.to_host = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def load(self, state: Any) -> None:
        self._learner.load(state)
        self.to_device = self.to_host = 0

    def put(self, *arrays: np.ndarray) -> Any:
        self.to_device += total_bytes(arrays)
        return self._learner.put(*arrays)

    def act(self, *placed: Any) -> Any:
        found = self._learner.act(*placed)
        self.to_host += total_bytes(found)
        return found

    def read(self, handle: Any) -> Any:
        loss, priorities = self._learner.read(handle)
        self.to_host += np.float32(loss).nbytes + (0 if priorities is None else priorities.nbytes)
        return loss, priorities


@pytest.mark.parametrize("algorithm", SMALL)
def test_bytes_are_those_that_were_moved(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Counting] = []
    original = numpy_.make

    def make(spec: Any, params: Any, mode: str, device: str, dtype: str) -> Counting:
        assert device == "cuda"
        made.append(Counting(original(spec, params, mode, "cpu", dtype)))
        return made[-1]

    monkeypatch.setattr(numpy_, "make", make)
    result = run(tmp_path, algorithm, {"steps": 900}, device="cuda")
    transfer = result["transfer"]
    assert transfer["to_device_bytes"] == made[0].to_device > 0
    assert transfer["to_host_bytes"] == made[0].to_host > 0
    assert transfer["put_ns"] == result["phases_ns"]["transfer"] > 0
    assert transfer["read_ns"] == result["phases_ns"]["read"]
    assert transfer["reasons"] == {}


def test_nothing_is_moved_on_the_host(tmp_path: Path) -> None:
    transfer = run(tmp_path, "dqn", {"steps": 100})["transfer"]
    reasons = transfer.pop("reasons")
    assert set(transfer.values()) == {None}
    assert reasons.keys() == transfer.keys()
    assert "nothing is moved" in reasons["put_ns"]


def test_the_worker_notes_what_it_holds_after_each_part_of_its_start(tmp_path: Path) -> None:
    memory = run(tmp_path, "dqn", {"steps": 100}, capacity=500)["memory"]
    resident = [memory[f"after_{part}_bytes"] for part in ("import", "build", "first_call")]
    if footprint.resident_bytes() is None:
        assert resident == [None] * 3
    else:
        assert all(value > 10 * 2**20 for value in resident)
    # Two observations of 4 floats, reward and discount in float32, an int64 action.
    assert (memory["replay_rows"], memory["replay_bytes"]) == (500, 500 * (2 * 16 + 2 * 4 + 8))


def test_memory_of_the_device_is_the_frameworks_word_or_null_with_a_reason() -> None:
    told = SimpleNamespace(device_memory=lambda: {"used_bytes": 1, "used_peak_bytes": 2})
    found = transfers.device_memory(told, "cuda")
    assert (found["used_bytes"], found["used_peak_bytes"], found["reserved_bytes"]) == (1, 2, None)
    assert found["reasons"] == {"reserved_bytes": "the framework does not report it"}
    on_cpu = transfers.device_memory(told, "cpu")
    assert on_cpu["used_bytes"] is None
    assert set(on_cpu["reasons"]) == {"used_bytes", "used_peak_bytes", "reserved_bytes"}
    assert transfers.device_memory(SimpleNamespace(), "cuda")["used_peak_bytes"] is None


FREES_MOST = """
import sys
import numpy as np
from rldyno_rig import footprint
held = [np.ones(125_000) for _ in range(64)]
kept = held[-1]
del held
resident, used = footprint.resident_bytes(), footprint.used_bytes()
print(resident, used)
"""


def test_what_was_freed_is_resident_but_not_used() -> None:
    variables = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
    path = os.pathsep.join(sys.path)
    said = subprocess.run(
        [sys.executable, "-c", FREES_MOST],
        env={**variables, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if "None" in said:
        pytest.skip("no glibc here, or no /proc: nothing tells what is used")
    resident, used = map(int, said)
    # 63 of 64 MB were freed.
    assert 55e6 < resident - used < 70e6
