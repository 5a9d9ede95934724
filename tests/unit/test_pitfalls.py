from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from report_parts import html_of
from rldyno.answers.comparison import compare
from rldyno.report.sections.pitfalls import CLEAR, FOUND, Pitfall, look_for
from rldyno.results.load import load_results
from synthetic import NUMPY, TORCH, Contestant, Shape, write_results

CLEAN = Shape(contestants=[NUMPY, TORCH], algorithms=["dqn"], seeds=5, sample_hz=1, steps=8000)


def pitfalls(directory: Path) -> dict[str, Pitfall]:
    results = load_results(directory)
    return {pitfall.name: pitfall for pitfall in look_for(results, compare(results))}


def change(directory: Path, pattern: str, file: str, **values: Any) -> None:
    for path in directory.glob(f"trials/{pattern}/{file}"):
        path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pitfall]:
    return pitfalls(write_results(tmp_path_factory.mktemp("clean") / "r", CLEAN))


def test_a_clean_study_has_none(clean: dict[str, Pitfall]) -> None:
    assert {name: pitfall.verdict for name, pitfall in clean.items()} == dict.fromkeys(clean, CLEAR)
    assert all(pitfall.evidence for pitfall in clean.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pitfall", "shape"),
    [
        ("Too few seeds", replace(CLEAN, seeds=4)),
        ("Numbers without spread", replace(CLEAN, seeds=1)),
        (
            "Uncertified contestants",
            replace(CLEAN, contestants=[NUMPY, replace(TORCH, certificate="absent")]),
        ),
        ("A selective subset", replace(CLEAN, pending=1)),
        (
            "A selective subset",
            replace(CLEAN, contestants=[NUMPY, Contestant("torch:x", 1, outcome="some:killed")]),
        ),
    ],
)
def test_pitfalls_of_a_study(tmp_path: Path, pitfall: str, shape: Shape) -> None:
    pitfall = pitfalls(write_results(tmp_path / "r", shape))[pitfall]
    assert pitfall.verdict == FOUND
    assert pitfall.fix


NOISE = {"score": 0.4, "calibration_ns": 1_000_000}


@pytest.mark.parametrize(
    ("pitfall", "file", "values", "evidence"),
    [
        (
            "Noisy runs",
            "outcome.json",
            {"noise": NOISE},
            "5 of 10 trials score above 0.1; the worst score is 0.40",
        ),
        (
            "Mixed or unsteady machines",
            "outcome.json",
            {"noise": {"score": 0, "calibration_ns": 3_000_000}},
            "a fixed piece of work took 3.0 times as long",
        ),
        ("Unequal versions", "facts.json", {"python": "3.12.1"}, "python 3.11.7, 3.12.1"),
        (
            "Hidden budget cuts",
            "outcome.json",
            {"reason": "wall", "result": None},
            "torch:eager (DQN on CartPole-v1): 5",
        ),
        (
            "A measurement that disturbs",
            "outcome.json",
            {"probe": {"core_percent": 9.0}},
            "4.65 % of one core",
        ),
        (
            "Memory that leaks",
            "outcome.json",
            {"memory": {"leak": True, "growth_bytes_per_s": 3 * 2**20}},
            "torch:eager: 5 trials, 3 MiB/s",
        ),
        (
            "More threads than cores",
            "outcome.json",
            {"cpu": {"oversubscribed_share": 0.4, "threads_runnable_mean": 7.5}},
            "torch:eager: up to 7.5 threads on 1 core in 5 trials",
        ),
    ],
)
def test_pitfalls_of_single_trials(
    tmp_path: Path, pitfall: str, file: str, values: Any, evidence: str
) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    change(root, "torch*", file, **values)
    pitfall = pitfalls(root)[pitfall]
    assert pitfall.verdict == FOUND
    assert evidence in pitfall.evidence
    assert pitfall.fix


def test_one_contestant_after_the_other(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    change(root, "torch*", "trial.json", block=10)
    for seed in range(5):
        change(root, f"numpy*s{seed}", "trial.json", block=seed)
    assert pitfalls(root)["All of A, then all of B"].verdict == FOUND


def test_versions_that_change_within_a_contestant(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    change(root, "torch*s0", "facts.json", versions={"torch": "9.9", "numpy": "2.3.1"})
    pitfall = pitfalls(root)["Unequal versions"]
    assert (
        pitfall.evidence
        == "trials of one contestant ran with different packages: torch:eager: torch 1.2.3 and 9.9"
    )


def test_those_found_come_first(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", replace(CLEAN, seeds=1))
    results = load_results(root)
    verdicts = [pitfall.verdict for pitfall in look_for(results, compare(results))]
    assert verdicts == sorted(verdicts, key=(FOUND, "unknown", CLEAR).index)


def change_manifest(directory: Path, **values: Any) -> None:
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_seeds_raised_after_the_fact(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    name = "Stopping when it looks good"
    assert pitfalls(root)[name].verdict == CLEAR
    change_manifest(root, amended=[{"at": "then", "changes": ["cores: 1 → 2", "seeds: 3 → 5"]}])
    found = pitfalls(root)[name]
    assert found.verdict == FOUND
    assert "seeds: 3 → 5" in found.evidence
    assert "cores" not in found.evidence
    rule = {"min": 5, "max": 9, "until": "resolved", "within": 0.02, "looks": [], "ended": None}
    change_manifest(root, adaptive=rule)
    assert pitfalls(root)[name].verdict == CLEAR


@pytest.mark.parametrize(("slow", "verdict"), [(300, CLEAR), (8900, FOUND)])
def test_few_adaptive_seeds_are_enough_where_they_decide(tmp_path: Path, slow: int, verdict: str) -> None:
    rivals = [NUMPY, Contestant("torch:eager", slow)]
    root = write_results(tmp_path / "r", replace(CLEAN, contestants=rivals, seeds=4, stop_return=None))
    rule = {"min": 3, "max": 9, "until": "resolved", "within": 0.001, "looks": [], "ended": "resolved"}
    change_manifest(root, adaptive=rule)
    assert pitfalls(root)["Too few seeds"].verdict == verdict


def test_crossings_that_cannot_run_are_named(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    change_manifest(root, left_out=["numpy:eager on cuda: it runs on cpu only"])
    found = pitfalls(root)["A selective subset"]
    assert found.verdict == CLEAR
    assert "left out, because it cannot run: numpy:eager on cuda: it runs on cpu only" in found.evidence


def test_trials_of_one_contestant_by_two_versions_of_its_backend(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    change(root, "torch*s0", "facts.json", backend_sha256="another")
    found = pitfalls(root)["Unequal versions"]
    assert found.verdict == FOUND
    assert "torch:eager: two versions of the backend" in found.evidence


def test_a_study_that_changed_after_trials_had_run(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    name = "A study that changed on the way"
    assert pitfalls(root)[name].verdict == CLEAR
    change_manifest(root, amended=[{"at": "then", "changes": ["cores: 1 → 2"], "trials_ended": 0}])
    assert pitfalls(root)[name].verdict == CLEAR
    change_manifest(root, amended=[{"at": "then", "changes": ["cores: 1 → 2", "seeds: 3 → 5"]}])
    found = pitfalls(root)[name]
    assert found.verdict == FOUND
    assert "then: cores: 1 → 2" in found.evidence
    assert "seeds" not in found.evidence


@pytest.mark.slow
def test_an_edited_copy_of_the_study_is_named_and_not_shown(tmp_path: Path) -> None:
    root = write_results(tmp_path / "r", CLEAN)
    ran = load_results(root).study
    (root / "study.toml").write_text(f"cores = 8\n{ran}")
    assert load_results(root).study == ran
    found = pitfalls(root)["A study that changed on the way"]
    assert found.verdict == FOUND
    assert "study.toml was edited" in found.evidence
    page = html_of(root)
    assert "study.toml was edited" in page
    assert "cores = 8" not in page
