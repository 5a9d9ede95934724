"""A handful of random kills of real runs; `make fuzz` does a thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kills import kill_many


@pytest.mark.slow
def test_runs_that_are_killed_at_random_end_complete(tmp_path: Path) -> None:
    report = kill_many(4, 1, seed=1, folder=tmp_path)
    assert report.flaws == []
    assert report.kills.total() >= 4
    assert report.trials >= 3
