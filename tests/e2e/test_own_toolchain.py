"""A toolchain of the user's own, whose framework has another name than the backend it is trained by."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from fakes import rldyno

TOOLCHAIN = """
framework = "numpy-next"
backend = "numpy_"
import_name = "numpy"
summary = "the next NumPy"
python = ">=3.11"
[modes]
eager = ["cpu"]
[cpu]
steps = [["numpy"]]
"""
STUDY = """
contestants = "numpy-next:eager"
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1
[budget]
steps = 300
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    chains = tmp_path / "chains"
    chains.mkdir()
    (chains / "numpy-next.toml").write_text(TOOLCHAIN)
    config = tmp_path / "config.toml"
    given = "".join(f"{name} = '{sys.executable}'\n" for name in ("numpy-next", "numpy"))
    config.write_text(f"toolchain_dirs = ['{chains}']\n[toolchains]\n{given}")
    (tmp_path / "study.toml").write_text(STUDY)
    monkeypatch.setenv("RLDYNO_CONFIG", str(config))
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_it_is_planned_proven_and_run(home: Path) -> None:
    planned = rldyno("plan", home / "study.toml")
    assert planned.returncode == 0, planned.stderr
    assert "numpy-next:eager" in planned.stdout
    out = home / "out"
    ran = rldyno("run", home / "study.toml", "--out", out, "--no-limits")
    assert ran.returncode == 0, ran.stderr
    (trial,) = (out / "trials").iterdir()
    asked = json.loads((trial / "trial.json").read_text())
    assert (asked["framework"], asked["backend"]) == ("numpy-next", "numpy_")
    outcome = json.loads((trial / "outcome.json").read_text())
    assert (outcome["status"], outcome["reason"]) == ("done", "steps")
    proofs = [json.loads(path.read_text()) for path in (out / "certificates").glob("*.json")]
    assert {(proof["contestant"], proof["passed"]) for proof in proofs} == {("numpy-next:eager", True)}
    assert sorted("shape" in proof for proof in proofs) == [False, True]
    assert "✓ numpy-next:eager" in ran.stdout


def test_its_network_alone_is_timed(home: Path) -> None:
    done = rldyno(
        *("nets", "--contestants", "numpy-next:eager", "--nets", "mlp64", "--batch-act", "1"),
        *("--batch-train", "8", "--rounds", "1", "--seconds", "0.01", "--no-verify", "--out", home / "nets"),
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((home / "nets" / "nets.json").read_text())
    assert [worker["contestant"] for worker in record["workers"]] == ["numpy-next:eager"]
    assert all(one["rounds"] for one in record["measurements"])
