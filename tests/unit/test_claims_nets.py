from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import rldyno
from rldyno.claims.decide import judge_claim
from rldyno.claims.effects import HOLDS, REFUTED, UNDECIDED
from rldyno.claims.evidence import gather_in
from rldyno.claims.form import shipped_claims
from rldyno.errors import Problem
from rldyno.nets.work import net_named
from synthetic import TORCH, Contestant, Shape, write_results

GRAPH = Contestant("tensorflow:graph", 2600, rss_mb=510)


def nets_record(directory: Path, rates: dict[str, float], certificate: str = "valid") -> Path:
    """A nets.json of five rounds: calls per second of each contestant, the same for act and update."""
    kinds = [("act", 16, "pageable"), ("update", 128, "pageable"), ("update", 128, "resident")]
    record = {
        "asked": {
            "algorithm": "classifier",
            "device": "cuda",
            "cores": 1,
            "dtype": "float32",
            "nets": [asdict(net_named("small"))],
        },
        "machine": {"os": "Linux", "gpus": [{"name": "one"}]},
        "workers": [{"contestant": name, "net": "small", "certificate": certificate} for name in rates],
        "measurements": [
            {
                "contestant": name,
                "net": "small",
                "measure": measure,
                "rows": rows,
                "data": data,
                "rounds": [
                    {"round": number, "calls": 1000, "wall_ns": int(1e12 / rate * (1 + number / 500))}
                    for number in range(5)
                ],
                "error": None,
            }
            for name, rate in rates.items()
            for measure, rows, data in kinds
        ],
    }
    directory.mkdir()
    (directory / "nets.json").write_text(json.dumps(record))
    return directory


STOOKE = next(claim for claim in shipped_claims() if claim.id == "stooke-1")
RATES = {"theano:graph": 300.0, "tensorflow:graph": 200.0, "chainer:eager": 150.0, "torch:eager": 100.0}


def test_networks_alone_decide_who_is_fastest_by_a_wide_margin(tmp_path: Path) -> None:
    held = judge_claim(STOOKE, gather_in([nets_record(tmp_path / "held", RATES)]))
    assert held.verdict == HOLDS
    assert [len(check.parts) for check in held.checks] == [3, 3]
    effect = held.checks[0].effect
    assert effect is not None
    assert effect.low is not None
    assert effect.n == 5
    beaten = nets_record(tmp_path / "lost", RATES | {"torch:cudagraph": 900.0})
    assert judge_claim(STOOKE, gather_in([beaten])).verdict == REFUTED


def test_networks_timed_unproven_do_not_count(tmp_path: Path) -> None:
    found = judge_claim(STOOKE, gather_in([nets_record(tmp_path / "r", RATES, "absent")]))
    assert found.verdict == UNDECIDED
    assert "needs a certificate: `rldyno verify theano:graph`" in found.missing


def test_trials_alone_leave_inference_open(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH, GRAPH], algorithms=["ppo"], seeds=5))
    assert judge_claim(STOOKE, gather_in([root])).verdict == UNDECIDED
    with pytest.raises(Problem, match="is not a results directory"):
        gather_in([tmp_path])


def test_times_on_a_cpu_do_not_decide(tmp_path: Path) -> None:
    directory = nets_record(tmp_path / "r", RATES)
    record = json.loads((directory / "nets.json").read_text())
    record["asked"]["device"] = "cpu"
    (directory / "nets.json").write_text(json.dumps(record))
    found = judge_claim(STOOKE, gather_in([directory]))
    assert found.verdict == UNDECIDED
    assert found.missing == ("needs trials on the GPU",)


def test_networks_beside_trials_count_everywhere(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", Shape(contestants=[TORCH, GRAPH], algorithms=["ppo"], seeds=1))
    record = nets_record(tmp_path / "nets", RATES) / "nets.json"
    record.rename(root / "nets.json")
    assert judge_claim(STOOKE, gather_in([root])).verdict == HOLDS
    (in_python,) = (item for item in rldyno.load(root).claims() if item.claim.id == STOOKE.id)
    assert in_python.verdict == HOLDS
