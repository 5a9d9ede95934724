"""The closed division, pinned: the first actions of a float64 run of each algorithm, as a hash.

A change here means that the algorithm, a random stream or an environment changed for all contestants at once,
which no comparison between contestants would show. If it was meant, say so in the changelog and pin anew.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from closed_runs import trial
from rldyno_rig import schema, training

GOLDEN = {
    "dqn": "d829a2410e7ce706",
    "rainbow": "2ab6bf9b142b9ac9",
    "a2c": "eb6feb0ade58a6c9",
    "ppo": "163cfc119fe35e9d",
}
GOLDEN_ENSEMBLES = {"mean": "a9f118f0db175823", "majority": "33e2d587647faf19"}
"""Of three members of DQN, by their vote."""


@pytest.mark.parametrize("algorithm", ["dqn", "rainbow", "a2c", "ppo"])
def test_the_first_actions_are_the_pinned_ones(algorithm: str, tmp_path: Path) -> None:
    assert hashed_actions(tmp_path, algorithm) == GOLDEN[algorithm]


@pytest.mark.parametrize("vote", ["mean", "majority"])
def test_the_first_actions_of_ensembles_are_the_pinned_ones(vote: str, tmp_path: Path) -> None:
    assert hashed_actions(tmp_path, "dqn", members=3, vote=vote) == GOLDEN_ENSEMBLES[vote]


def hashed_actions(home: Path, algorithm: str, **more: Any) -> str:
    given = trial("numpy", "eager", algorithm, "float64", 1_000, **more)
    (home / schema.TRIAL_FILE).write_text(json.dumps(given))
    assert training.train(home, time.perf_counter_ns()) == 0
    return hashlib.sha256((home / schema.ACTIONS_FILE).read_bytes()).hexdigest()[:16]
