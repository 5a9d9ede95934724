"""A few damaged and hostile records and studies; `make fuzz` tries many."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import fuzz_records, fuzz_studies


@pytest.mark.slow
def test_damaged_records_are_named_and_never_a_traceback(tmp_path: Path) -> None:
    report = fuzz_records(tmp_path, 60, seed=1)
    assert report.failures == []
    assert report.outcomes["exit 1"] > 20


@pytest.mark.slow
def test_wild_studies_are_refused_with_a_message(tmp_path: Path) -> None:
    report = fuzz_studies(tmp_path, 150, seed=1)
    assert report.failures == []
    assert report.outcomes["problems"] > 100
