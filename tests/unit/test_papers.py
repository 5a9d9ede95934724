"""`rldyno papers`, and the study that times networks alone."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_blocks import HOME
from rldyno.cli import app
from rldyno.commands import nets as nets_command
from rldyno.commands.papers import of_study
from rldyno.errors import Problem
from rldyno.nets.work import Benchmark
from rldyno.session.estimate import Rates, estimate, load_rates
from rldyno.studies.given import given_study
from rldyno.studies.networks_study import networks_study
from rldyno.studies.papers import PAPERS
from rldyno.studies.shipped import networks_studies, shipped_studies
from rldyno.study.file import load_study
from rldyno.study.plan import make_plan


def test_every_study_of_a_paper_is_shipped() -> None:
    named = [study for paper in PAPERS for study in paper.studies]
    assert set(named) <= shipped_studies().keys() | networks_studies().keys()


@pytest.mark.slow
def test_the_list_says_what_each_study_needs() -> None:
    listed = json.loads(CliRunner().invoke(app, ["papers", "--json"]).output)
    assert [paper["name"] for paper in listed] == ["liu2022", "seong2024", "stooke2017", "lizarralde2019"]
    commands = [one["command"] for paper in listed for one in paper["needs"]]
    assert "rldyno run liu2022 --quick" in commands
    assert "rldyno run stooke2017" in commands
    (seong, *_) = listed[1]["needs"]
    assert seong["frameworks"] == ["tensorflow", "mxnet", "jax"]
    assert seong["size"].startswith("60 trials")


def test_a_study_that_does_not_fit_says_why(tmp_path: Path) -> None:
    path = tmp_path / "wide.toml"
    path.write_text(
        'contestants = "numpy:eager"\nalgorithms = "dqn"\nenvironments = "CartPole-v1"\ncores = 4096\n'
        "seeds = 1\n[budget]\nsteps = 100\n"
    )
    assert "4096" in of_study("rldyno run wide.toml", load_study(path)).obstacle


@pytest.mark.parametrize("name", ["liu2022", "seong2024"])
@pytest.mark.parametrize("form", ["gpu", "workers"])
def test_gpus_and_workers_change_no_hyper_parameter(name: str, form: str) -> None:
    alone, other = (tomllib.loads(shipped_studies()[study].read_text()) for study in (name, f"{name}-{form}"))
    assert alone["hyper"] == other["hyper"]


def test_every_task_of_seong2024_with_horovod_has_a_column_of_its_own() -> None:
    cells = make_plan(load_study(shipped_studies()["seong2024-workers"])).cells
    ran = {(cell.contestant, cell.workers, cell.collective) for cell in cells}
    assert ran == {
        (name, *way)
        for name in ("tensorflow:eager", "tensorflow:graph", "mxnet:eager", "mxnet:hybrid")
        for way in ((1, "none"), (2, "horovod"))
    }


@pytest.mark.parametrize("name", ["liu2022", "seong2024", "lizarralde2019"])
def test_a_quick_size_says_how_long_it_takes_at_most(name: str) -> None:
    """From the rates that come with rldyno, where this machine has none of its own."""
    plan = make_plan(given_study(Path(name), None, True).study)
    found = estimate(plan, Rates(own={}, shipped=load_rates().shipped))
    assert found.unknown == 0
    assert found.total_s < 15 * 60


def test_networks_alone_have_no_report_and_the_message_says_what_shows_them() -> None:
    nets = HOME / "docs" / "samples" / "papers" / "stooke2017"
    failure = CliRunner().invoke(app, ["report", str(nets)]).exception
    assert isinstance(failure, Problem)
    assert "no trials" in failure.message
    assert "rldyno nets show" in (failure.fix or "")


def test_run_times_the_networks_of_stooke2017(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[Benchmark, Path]] = []
    monkeypatch.setattr(nets_command, "_measure", lambda benchmark, home, *_: asked.append((benchmark, home)))
    monkeypatch.setattr("rldyno.machine.devices.usable_gpus", lambda: (0, "none"))
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--quick"]):
        assert CliRunner().invoke(app, ["run", "stooke2017", *options]).exit_code == 0
    (whole, home), (quick, quick_home) = asked
    assert (str(home), str(quick_home)) == ("results/stooke2017", "results/stooke2017-quick")
    assert {name.partition(":")[0] for name in whole.contestants} == {
        "theano",
        "tensorflow",
        "chainer",
        "torch",
    }
    assert [net.name for net in whole.nets] == ["small", "large"]
    assert (whole.act_rows, whole.update_rows, whole.rounds) == ((16,), (128,), 10)
    assert ([net.name for net in quick.nets], quick.rounds) == (["small"], 5)


def test_networks_have_no_plan() -> None:
    shown = CliRunner().invoke(app, ["plan", "stooke2017"])
    assert shown.exit_code != 0
    assert "times networks alone" in str(shown.exception)


def test_the_quick_size_of_networks_says_what_it_leaves_out() -> None:
    quick = networks_study("stooke2017", quick=True)
    assert quick is not None
    assert "leaves out: the large network" in quick.question


def test_what_networks_alone_cannot_use_is_refused() -> None:
    done = CliRunner().invoke(app, ["run", "stooke2017", "--quick", "--seeds", "3", "--launcher", "slurm"])
    assert isinstance(done.exception, Problem)
    assert done.exception.message == "stooke2017 times networks alone and cannot use --seeds, --launcher"
