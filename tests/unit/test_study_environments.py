"""Which environments a study may name: what is known at once, and what a toolchain says."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rldyno.errors import Problem
from rldyno.session import environments
from rldyno.session.environments import check_environments, try_environments
from rldyno.session.room import check_memory
from rldyno.study.environments import check_environment
from rldyno.study.file import load_study
from rldyno.study.memory import replay_bytes
from rldyno.study.plan import Cell, make_plan
from rldyno.toolchains.resolve import Interpreter
from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.job_files import EnvironmentFacts

ACROBOT = EnvironmentFacts("Acrobot-v1", None, (6,), "float32", 3)


def here(framework: str) -> Interpreter:
    return Interpreter(framework, Path(sys.executable), "given", "3", {}, None)


def cells(tmp_path: Path, environment: str, hyper: str = "") -> tuple[Cell, ...]:
    path = tmp_path / "x.toml"
    path.write_text(
        f"""
contestants = ["numpy:eager", "torch:eager"]
algorithms = "ppo"
environments = "{environment}"
seeds = 1
budget.steps = 10
[hyper]
{hyper}
"""
    )
    return make_plan(load_study(path)).cells


@pytest.mark.parametrize(
    "name", ["CartPole-v2", "Acrobot-v1", "NoSuch-v3", "ALE/Pong-v5", "my_package.envs:CartPol-v1"]
)
def test_environments_that_a_toolchain_must_be_asked_for(name: str) -> None:
    assert check_environment(name) == name


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Pendulum-v1", "continuous actions"), ("HalfCheetah-v5", "continuous actions"), ("Taxi-v4", "boxes")],
)
def test_environments_that_can_never_run(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check_environment(name)


@pytest.mark.slow
def test_a_toolchain_says_what_it_can_make() -> None:
    found = try_environments(here("numpy"), ("Acrobot-v1", "NoSuch-v3", "gymnasium:Pendulum-v1"))
    assert found["Acrobot-v1"] == ACROBOT
    assert "doesn't exist" in (found["NoSuch-v3"].error or "")
    assert "only discrete ones are supported" in (found["gymnasium:Pendulum-v1"].error or "")


class Toolchains:
    """Instead of rig processes: framework → what it finds."""

    def __init__(self, found: Mapping[str, EnvironmentFacts]) -> None:
        self.found = found
        self.said: list[str] = []

    def __call__(self, interpreter: Interpreter, names: tuple[str, ...]) -> dict[str, EnvironmentFacts]:
        return dict.fromkeys(names, self.found[interpreter.framework])

    def check(self, cells: tuple[Cell, ...]) -> None:
        check_environments(cells, {name: here(name) for name in self.found}, self.said.append)


def test_an_environment_that_runs_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EnvironmentFacts("NoSuch-v3", "no such thing")
    toolchains = Toolchains({"numpy": broken, "torch": broken})
    monkeypatch.setattr(environments, "try_environments", toolchains)
    with pytest.raises(Problem, match="NoSuch-v3 cannot run: nothing was measured") as caught:
        toolchains.check(cells(tmp_path, "NoSuch-v3"))
    assert caught.value.detail == "NoSuch-v3: no such thing"


def test_an_environment_that_one_toolchain_lacks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchains = Toolchains({"numpy": ACROBOT, "torch": EnvironmentFacts("Acrobot-v1", "no Gymnasium")})
    monkeypatch.setattr(environments, "try_environments", toolchains)
    toolchains.check(cells(tmp_path, "Acrobot-v1"))
    (line,) = toolchains.said
    assert "torch" in line
    assert "no Gymnasium" in line


def test_a_network_that_does_not_fit_the_observations_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchains = Toolchains({"numpy": ACROBOT, "torch": ACROBOT})
    monkeypatch.setattr(environments, "try_environments", toolchains)
    with pytest.raises(Problem) as caught:
        toolchains.check(cells(tmp_path, "Acrobot-v1", 'convolutions = "small"'))
    assert "`convolutions` given" in str(caught.value.detail)


def test_a_replay_memory_of_observations_that_only_a_toolchain_knows_is_limited(tmp_path: Path) -> None:
    """Raw colour frames of a game: 2 × 100,800 bytes a transition."""
    path = tmp_path / "raw.toml"
    path.write_text(
        'contestants = "numpy:eager"\nalgorithms = "dqn"\nenvironments = "Pong-v4"\nseeds = 1\n'
        "budget.steps = 10\n[hyper]\ncapacity = 100_000_000\n"
    )
    (cell,) = make_plan(load_study(path)).cells
    raw = EnvironmentFacts("Pong-v4", None, (3, 210, 160), "uint8", 6)
    assert replay_bytes(cell) is None
    assert replay_bytes(cell, raw) == 100_000_000 * (2 * 3 * 210 * 160 + 16)
    check_memory([cell])
    with pytest.raises(Problem, match=r"the replay memory of dqn on Pong-v4 takes 20,16\d") as caught:
        check_memory([cell], {("numpy", "Pong-v4"): raw})
    assert "`capacity` in [hyper.dqn]" in str(caught.value.fix)


def test_built_in_environments_ask_no_toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "try_environments", None)
    check_environments(cells(tmp_path, "CartPole-v1"), {"numpy": here("numpy")}, print)


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_generic_values_make_updates_of_a_usual_size(name: str) -> None:
    """Small enough to learn from early, large enough to be a batch; and returns of either sign."""
    algorithm = ALGORITHMS[name]
    values = algorithm.defaults("Acrobot-v1")
    assert 32 <= algorithm.rows(values) <= 512
    assert values.learning_rate <= 1e-3
    assert getattr(values, "v_min", -1) < 0 < getattr(values, "v_max", 1)
    assert values != algorithm.defaults("CartPole-v1")
