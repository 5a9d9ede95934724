"""Running a study from Python: the example of docs/python.md, failures, problems."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import FAKE_WORKER, fake_interpreter

import rldyno
from documentation import python_blocks
from rldyno.records.directory import ResultsDirectory
from synthetic import write_results

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
STUDY = {
    "contestants": "numpy:eager",
    "algorithms": "dqn",
    "environments": "CartPole-v1",
    "seeds": 2,
    "budget": {"steps": 5000},
}


@pytest.mark.toolchain("numpy")
def test_the_python_page_runs_with_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_results(tmp_path / "results/quickstart")
    names: dict[str, object] = {}
    for block in python_blocks(PAGE.read_text(encoding="utf-8")):
        exec(compile(block.code, "docs/python.md", "exec"), names)
    results = names["results"]
    assert isinstance(results, rldyno.StudyResults)
    assert results.trials["status"].to_list() == ["done"] * 4
    assert results.directory == Path("results/batch-size")


def fake_run(
    folder: Path, behaviour: str, monkeypatch: pytest.MonkeyPatch, **options: bool
) -> rldyno.StudyResults:
    """With workers that behave like this; see tests/workers/fake_worker.py."""
    assert FAKE_WORKER.exists()
    monkeypatch.setenv("FAKE_WORKER", behaviour)
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(folder / "cache"))
    toolchains = {"numpy": fake_interpreter(folder)}
    study = rldyno.Study(**STUDY)
    return rldyno.run(study, folder / "out", toolchains=toolchains, verify=False, limits=False, **options)


def test_it_is_quiet_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    first = fake_run(tmp_path, "good", monkeypatch)
    assert capfd.readouterr() == ("", "")
    assert first.trials["status"].to_list() == ["done", "done"]
    again = fake_run(tmp_path, "good", monkeypatch, progress=True)
    assert "numpy:eager" in capfd.readouterr().out
    assert again.trials["started_at"].to_list() == first.trials["started_at"].to_list()


def test_failed_trials_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="1 of 2 trials are not done"):
        results = fake_run(tmp_path, ".s0.=dies", monkeypatch)
    assert sorted(results.trials["status"]) == ["done", "failed"]


def test_a_problem_of_the_run_is_raised_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_run(tmp_path, "good", monkeypatch)
    changed = rldyno.Study(**(STUDY | {"seeds": 3}))
    with pytest.raises(rldyno.Problem, match="the study has changed") as caught:
        rldyno.run(changed, tmp_path / "out", toolchains={"numpy": fake_interpreter(tmp_path)})
    assert "seeds: 2 → 3" in (caught.value.detail or "")
    assert "amend" in (caught.value.fix or "")


def test_a_run_goes_on_by_its_directory_with_more_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fake_run(tmp_path, "good", monkeypatch)
    toolchains = {"numpy": fake_interpreter(tmp_path)}
    more = rldyno.run(first.directory, seeds=3, toolchains=toolchains, verify=False, limits=False)
    assert more.directory == first.directory
    assert more.trials["status"].to_list() == ["done"] * 3
    manifest = ResultsDirectory(first.directory).read_manifest()
    assert [amendment.changes for amendment in manifest.amended] == [("seeds: 2 → 3",)]
    assert manifest.study_path == "study.toml"
