"""Outcome and manifest: one way to and from JSON, also for files of other versions."""

import json
from pathlib import Path

import pytest

from rldyno.records.interim import GroupFinding
from rldyno.records.machine_facts import GpuFacts, MachineFacts
from rldyno.records.machine_limits import DeviceLimits, StudyLimits
from rldyno.records.manifest import AdaptiveSeeds, Amendment, InterimCheck, Manifest, Task, ToolchainFacts
from rldyno.records.outcome import Noise, Outcome
from rldyno_rig.result_file import WorkerResult

SAMPLE = Path(__file__).parents[2] / "tests/data/old_sample"
TRIALS = sorted((SAMPLE / "trials").iterdir())

DONE = Outcome(
    trial="t",
    attempt=2,
    status="done",
    reason="steps",
    message="reached its budget of steps",
    wall_s=2.0,
    sections={
        "memory": {"steady_bytes": 5, "leak": None, "reasons": {"leak": "too short"}},
        "added": {"toy_percent": 50.0, "reasons": {}},
    },
    noise=Noise(host="here", calibration_ns=7, score=0.1, reasons={"steal_percent": "hidden"}),
    reasons={"gpu": "the trial runs on the CPU"},
    warnings=("memory leak",),
    result=WorkerResult("steps", steps=10, train_ns=5, transfer={"put_ns": 3}),
)
MANIFEST = Manifest(
    rldyno="1",
    title="t",
    study_text="seeds = 5",
    study_path="mine.toml",
    started_at="now",
    resumed_at=("later",),
    machine=MachineFacts("here", gpus=(GpuFacts(0, "a GPU"),), load=(0.5, 0.4, 0.3), affinity=(0, 1)),
    limits=StudyLimits((DeviceLimits("cpu", 1, {"float32": 1e9}, 1e9, None),)),
    idle_cpu_percent=1.5,
    toolchains={"torch": ToolchainFacts("3.12", "built", "cpu", {"torch": "2"})},
    left_out=("numpy:eager on cuda: it runs on cpu only",),
    untuned=(Task("ppo", "Acrobot-v1"),),
    amended=(Amendment("later", ("seeds: 3 → 5",), "seeds = 3", 2),),
    adaptive=AdaptiveSeeds(
        2,
        5,
        "winner",
        0.02,
        (InterimCheck("now", 1, (GroupFinding("g", ("a", "b"), (), {"c": "failed"}),)),),
        "max",
    ),
    trials=("a", "b"),
)


@pytest.mark.parametrize("record", [DONE, MANIFEST], ids=["outcome", "manifest"])
def test_to_json_and_back_is_the_same_record(record):
    values = json.loads(json.dumps(record.to_json(), allow_nan=False))
    assert type(record).from_json(values) == record
    assert type(record).from_json({**values, "invented": 1}) == record


@pytest.mark.parametrize("path", TRIALS, ids=lambda path: path.name)
def test_the_outcomes_of_the_sample_directory_load_without_loss(path):
    written = json.loads((path / "outcome.json").read_text(encoding="utf-8"))
    again = Outcome.from_json(written).to_json()
    for name, value in written.items():
        if name in ("noise", "result"):
            assert {part: again[name][part] for part in value} == value
        else:
            assert again[name] == value


def test_the_manifest_of_the_sample_directory_loads_without_loss():
    written = json.loads((SAMPLE / "manifest.json").read_text(encoding="utf-8"))
    again = Manifest.from_json(written).to_json()
    assert {name: again[name] for name in written} == written


def test_an_outcome_knows_how_it_ended():
    assert (DONE.done, DONE.failed, DONE.absent) == (True, False, False)
    absent = Outcome(status="failed", reason="absent")
    assert (absent.done, absent.failed, absent.absent) == (False, True, True)
    assert Outcome.from_json({"status": "no such status"}).failed


def test_an_amendment_of_an_older_record_counts_as_made_after_results():
    assert Amendment.from_json({"at": "then", "changes": ["seeds: 3 → 5"]}).after_results
    assert not Amendment("then", (), trials_ended=0).after_results
