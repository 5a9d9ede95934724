"""`rldyno nets` with real workers: what a person sees, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import rldyno

pytestmark = pytest.mark.toolchain("numpy")


@pytest.mark.parametrize("algorithm", ["classifier", "ppo"])
def test_one_contestant_is_measured_and_an_absent_one_is_told(tmp_path: Path, algorithm: str) -> None:
    done = rldyno(
        *("nets", "--contestants", "numpy:eager,torch:eager", "--toolchain", "torch=/nonexistent/python"),
        *("--nets", "mlp64", "--algorithm", algorithm, "--batch-act", "1,16", "--batch-train", "32"),
        *("--copies", "pageable,resident", "--rounds", "3", "--seconds", "0.02", "--out", tmp_path),
    )
    assert done.returncode == 0, done.stderr
    assert "left out: torch:eager: the interpreter given for torch does not exist" in done.stdout
    record = json.loads((tmp_path / "nets.json").read_text())
    assert record["complete"]
    figures = {(one["measure"], one["rows"], one["data"]): one for one in record["measurements"]}
    assert len(figures) == 6
    for (_, _, data), figure in figures.items():
        if data == "resident":
            assert "no device memory" in figure["error"]
        else:
            assert [one["round"] for one in figure["rounds"]] == [1, 2, 3]
            assert all(one["wall_ns"] > 0 and one["calls"] > 0 for one in figure["rounds"])
    (worker,) = record["workers"]
    assert worker["certificate"] == "valid"
    assert worker["startup_ns"].keys() >= {"import", "build", "first_call"}
    assert record["limits"]["flops_per_s"]["float32"] > 0

    shown = rldyno("nets", "show", tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("numpy:eager") >= 3
    assert {"nets.md", "nets.tex", "nets.csv"} <= {path.name for path in tmp_path.iterdir()}
