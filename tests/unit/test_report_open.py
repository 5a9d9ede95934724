"""Open loops in the report of a results directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from report_parts import html_of, material_of, tables
from rldyno.division.record import OpenRecord, OpenRow
from rldyno.errors import Problem
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.hyper import to_json
from rldyno_rig.open.job_file import OpenFound
from synthetic import COMPILE, TORCH, Shape, write_results

SMALL = Shape(contestants=[TORCH, COMPILE], algorithms=["ppo"], seeds=3, sample_hz=2)


def open_record(root: Path) -> dict[str, Any]:
    """Of the machine of these results."""
    manifest = json.loads((root / "manifest.json").read_text())
    found = OpenFound(1.5, (1e6,), 1000, (20.0,), {"torch": "2"}, "cpu")
    values = to_json(ALGORITHMS["ppo"].defaults("CartPole-v1"))
    row = OpenRow("torch", values["environments"], found, limit_steps_per_s=4e6)
    host = manifest["machine"].get("host_sha256")
    record = OpenRecord("now", host, "ppo", "CartPole-v1", "cpu", "float32", 1, values, (row,))
    return record.to_json()


@pytest.mark.slow
def test_open_loops_stand_beside_the_closed_trials(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", SMALL)
    assert "open-division" not in tables(material_of(root))
    record = open_record(root)
    (root / "open.json").write_text(json.dumps(record))
    (row,) = tables(material_of(root))["open-division"].rows
    assert row[:3] == ("torch", str(record["rows"][0]["environments"]), "1,000,000")
    assert row[3].startswith("torch:")
    closed = float(row[4].replace(",", ""))
    assert float(row[5].rstrip("×")) == pytest.approx(1e6 / closed, rel=0.01)
    assert row[6] == "25.0%"
    assert "on the table" in html_of(root)
    # Other hyper-parameters, or another machine: two figures that nobody may divide.
    for changed in ({"hyper": {**record["hyper"], "gamma": 0.5}}, {"host_sha256": "other"}):
        (root / "open.json").write_text(json.dumps(record | changed))
        (row,) = tables(material_of(root))["open-division"].rows
        assert row[3:6] == ("–", "–", "–")


@pytest.mark.parametrize("text", ["{}", '{"rows": [{}]}'])
def test_open_loops_that_cannot_be_read_are_a_problem_with_a_fix(tmp_path: Path, text: str) -> None:
    root = write_results(tmp_path / "r", SMALL)
    (root / "open.json").write_text(text)
    with pytest.raises(Problem, match=r"open\.json is damaged") as found:
        tables(material_of(root))
    assert found.value.fix
