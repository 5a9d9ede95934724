"""The studies that come with rldyno: found by name, listed, printed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.processes.caches import COLD
from rldyno.records.directory import ResultsDirectory
from rldyno.stats.estimates import ENOUGH_RUNS
from rldyno.studies.given import given_study
from rldyno.studies.shipped import find_study, networks_studies, shipped_studies
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan


def test_every_shipped_study_loads() -> None:
    assert "quickstart" in shipped_studies()
    for path in shipped_studies().values():
        assert load_study(path).question


def test_a_name_finds_the_shipped_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").mkdir()
    assert find_study("quickstart") == shipped_studies()["quickstart"]


def test_a_file_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quickstart").write_text("")
    assert find_study("quickstart") == Path("quickstart")


@pytest.mark.parametrize("path", ["quickstart.toml", "studies/quickstart"])
def test_a_path_stays_a_path(path: str) -> None:
    assert find_study(path) == Path(path)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(Problem, match="did you mean 'quickstart'") as caught:
        find_study("quikstart")
    assert "rldyno studies" in (caught.value.fix or "")


def test_the_list_shows_every_study() -> None:
    done = CliRunner().invoke(app, ["studies"])
    assert done.exit_code == 0, done.output
    for name in (*shipped_studies(), "stooke2017"):
        assert name in done.output
    assert "30 trials, at most" in done.output


def test_the_list_as_json() -> None:
    listed = json.loads(CliRunner().invoke(app, ["studies", "--json"]).output)
    assert [study["name"] for study in listed] == sorted([*shipped_studies(), *networks_studies()])
    quickstart = next(study for study in listed if study["name"] == "quickstart")
    assert quickstart["trials"] == 30
    assert quickstart["contestants"] == ["numpy:eager", "torch:eager", "torch:compile"]


def test_one_study_is_printed_as_it_is() -> None:
    printed = CliRunner().invoke(app, ["studies", "quickstart"]).output
    assert tomllib.loads(printed) == tomllib.loads(shipped_studies()["quickstart"].read_text())


def test_a_study_is_planned_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["plan", "quickstart", "--json"])
    assert len(json.loads(done.output)["trials"]) == 30


def test_seeds_of_the_command_line_replace_those_of_the_study(tmp_path: Path) -> None:
    study = tmp_path / "a.toml"
    study.write_text(shipped_studies()["quickstart"].read_text())
    fixed = given_study(study, "7").study
    assert (len(fixed.seeds), fixed.adaptive) == (7, None)
    adaptive = given_study(study, "5..30").study.adaptive
    assert adaptive is not None
    assert (adaptive.min, adaptive.max, adaptive.until) == (5, 30, "resolved")
    study.write_text(given_study(study, "5..30").text.replace("resolved", "winner"))
    kept = given_study(study, "3..8").study.adaptive
    assert kept is not None
    assert (kept.min, kept.max, kept.until) == (3, 8, "winner")
    with pytest.raises(Problem, match="not a number of seeds"):
        given_study(study, "many")
    with pytest.raises(Problem, match="must be at least min"):
        given_study(study, "8..3")


def test_a_folder_of_that_name_does_not_hide_a_shipped_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quickstart").mkdir()
    assert given_study(Path("quickstart")).path == "quickstart"
    Path("other").mkdir()
    with pytest.raises(Problem, match="not a results directory"):
        given_study(Path("other"))


def test_records_keep_no_folder_of_this_machine(tmp_path: Path) -> None:
    study = tmp_path / "a.toml"
    study.write_text(shipped_studies()["quickstart"].read_text())
    assert given_study(study).path == "a.toml"


def test_the_study_of_an_older_record_is_still_recognised() -> None:
    """Its manifest has the hash alone: new keys of studies must not change it."""
    sample = Path(__file__).parents[2] / "tests/data/old_sample"
    manifest = ResultsDirectory(sample).read_manifest()
    assert manifest.study_text == ""
    given = given_study(sample)
    assert given.study.sha256 == manifest.study_sha256
    assert given.directory == sample


def test_the_quickstart_has_enough_seeds_for_an_answer() -> None:
    assert len(load_study(shipped_studies()["quickstart"]).seeds) >= ENOUGH_RUNS


def test_the_workers_study_compares_teams_on_two_cores() -> None:
    plan = make_plan(load_study(shipped_studies()["workers"]))
    assert max(cell.cpus for cell in plan.cells) == 2
    teams = {(cell.framework, cell.collective) for cell in plan.cells if cell.workers == 2}
    trained = {"torch", "tensorflow", "mxnet"}
    assert teams == {
        *((framework, "host") for framework in (*trained, "jax", "numpy")),
        *((framework, "native") for framework in (*trained, "jax")),
        *((framework, "horovod") for framework in trained),
    }
    assert {cell.scaling for cell in plan.cells if cell.workers == 2} == {"weak", "strong"}
    assert {(cell.workers, cell.cores) for cell in plan.cells} == {(1, 1), (1, 2), (2, 1)}


def test_the_workers_study_may_run_on_several_nodes() -> None:
    """Slurm's launcher refuses warm caches there."""
    plan = make_plan(load_study(shipped_studies()["workers"]))
    assert {cell.caches for cell in plan.cells} == {COLD}
