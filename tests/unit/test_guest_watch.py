"""What the hooks see of a script's environments, with environments that do nothing."""

from __future__ import annotations

import copy
import csv
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rldyno_rig.clock import Clock
from rldyno_rig.guest import hooks, report
from rldyno_rig.guest.watch import BudgetSpentError, GuestRecorder, Watch, finish
from rldyno_rig.schema import EPISODES_FILE, PROGRESS_FILE
from rldyno_rig.trial_file import Budget


class Env:
    """Episodes of three steps with a reward of 2 each."""

    spec = SimpleNamespace(id="CartPole-v1")
    observation_space = SimpleNamespace(shape=(4,))
    action_space = SimpleNamespace(n=2)

    def __init__(self) -> None:
        self.count = 0

    def reset(self) -> tuple[int, dict[str, Any]]:
        self.count = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.count += 1
        return 0, 2.0, self.count == 3, False, {}


class Below:
    """An environment around another one that was made, too."""

    spec = Env.spec

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def reset(self) -> Any:
        return self.inner.reset()

    def step(self, action: int) -> Any:
        return self.inner.step(action)


class Vector:
    """Two environments whose first episode ends with every second step."""

    def __init__(self) -> None:
        self.count = 0
        self.metadata = {"autoreset_mode": SimpleNamespace(name="NEXT_STEP")}

    def reset(self) -> None:
        self.count = 0

    def step(self, actions: Any) -> Any:
        self.count += 1
        return None, [1.0, 1.0], [self.count == 2, False], [False, False], {}


def watch_in(folder: Path, **budget: Any) -> Watch:
    return Watch(GuestRecorder(folder, Budget(**budget), Clock(), 0), "CartPole-v1")


def made(watch: Watch, make: Any = Env) -> Any:
    """`make()` of a module that the hook has changed."""
    module = SimpleNamespace(make=make)
    hooks.change_registration(module, watch)
    return module.make()


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_steps_episodes_and_returns_are_seen(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=7)
    env = made(watch)
    env.reset()
    for _ in range(7):
        if env.step(0)[2]:
            env.reset()
    watch.recorder.close(watch.recorder.clock.started + 10**9, watch.steps, None)
    episodes = rows(tmp_path / EPISODES_FILE)
    assert [(row["step"], row["return"], row["length"]) for row in episodes] == [
        ("3", "6.0", "3"),
        ("6", "6.0", "3"),
    ]
    result = finish(watch, 0, watch.recorder.clock.started + 10**9)
    assert (result["reason"], result["steps"], result["episodes"]) == ("steps", 7, 2)
    assert result["train_ns"] == 10**9
    assert 0 < result["phases_ns"].pop("environment") < 10**9
    assert not result["phases_ns"]
    assert sum(result["startup_ns"].values()) == result["train_start_ns"]
    assert (watch.observation_shape, watch.actions) == ((4,), 2)


def test_what_cannot_be_seen_is_empty_and_never_zero(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=1)
    made(watch).step(0)
    watch.recorder.close(watch.recorder.clock.started + 1, watch.steps, None)
    (row,) = rows(tmp_path / PROGRESS_FILE)
    assert {name for name, value in row.items() if value} == {
        *("time_ns", "step", "episode", "environment_ns")
    }


def test_an_environment_inside_another_counts_once(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=100)
    inner = made(watch)
    env = made(watch, lambda: Below(inner))
    env.step(0)
    assert watch.steps == 1


def test_a_copy_of_an_environment_is_watched_with_an_episode_of_its_own(tmp_path: Path) -> None:
    """A script that plans ahead copies its environment."""
    watch = watch_in(tmp_path, steps=100)
    env = made(watch)
    env.step(0), env.step(0)
    copied = copy.deepcopy(env)
    assert copied.step(0)[2]
    copied.reset()
    assert (watch.steps, watch.recorder.episodes, env.count, copied.count) == (3, 1, 2, 0)
    assert env.step(0)[2]
    watch.recorder.close(1, watch.steps, None)
    assert [row["length"] for row in rows(tmp_path / EPISODES_FILE)] == ["3", "3"]


def test_a_pickled_environment_is_as_the_script_made_it(tmp_path: Path) -> None:
    """Other processes and files know nothing of a watch."""
    env = made(watch_in(tmp_path, steps=1))
    env.step(0)
    text = pickle.dumps(env)
    assert b"rldyno" not in text
    again = pickle.loads(text)
    assert (again.step(0)[0], again.count, again.reset()) == (0, 2, (0, {}))


def test_vector_environments_are_copied_and_pickled_like_others(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=100)
    module = SimpleNamespace(make_vec=Vector)
    hooks.change_registration(module, watch)
    env = module.make_vec()
    env.step([0, 0])
    copied, again = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    assert (watch.steps, watch.recorder.episodes) == (2, 0)
    copied.step([0, 0]), again.step([0, 0])
    assert (watch.steps, watch.recorder.episodes) == (4, 1)
    watch.recorder.close(1, watch.steps, None)
    assert [row["length"] for row in rows(tmp_path / EPISODES_FILE)] == ["2"]


def test_the_script_ends_at_the_first_step_after_its_budget(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=2)
    env = made(watch)
    env.step(0), env.step(0)
    assert watch.over
    with pytest.raises(BudgetSpentError):
        env.step(0)
    assert watch.stopped_ns
    assert watch.steps == 2


def test_no_exception_handler_of_a_script_catches_its_end() -> None:
    assert not issubclass(BudgetSpentError, Exception)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"steps": 100, "stop_return": 5.0, "stop_episodes": 1}, "return"),
        ({"steps": 100, "episodes": 1}, "episodes"),
    ],
)
def test_a_stop_rule_ends_the_script(tmp_path: Path, budget: dict[str, Any], reason: str) -> None:
    watch = watch_in(tmp_path, **budget)
    env = made(watch)
    for _ in range(3):
        env.step(0)
    with pytest.raises(BudgetSpentError):
        env.step(0)
    assert (watch.recorder.reason, watch.steps) == (reason, 3)
    assert watch.fault() is None


def test_a_step_that_only_resets_is_no_step(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=100)
    env = Vector()
    module = SimpleNamespace(make_vec=lambda: env)
    hooks.change_registration(module, watch)
    module.make_vec()
    env.reset()
    for _ in range(3):
        env.step([0, 0])
    assert watch.steps == 5
    watch.recorder.close(1, watch.steps, None)
    (episode,) = rows(tmp_path / EPISODES_FILE)
    assert (episode["step"], episode["return"], episode["length"]) == ("4", "2.0", "2")


def test_a_vector_environment_hides_the_environments_in_it(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=100)
    inner = made(watch)

    class Sync:
        def step(self, actions: Any) -> Any:
            observation, reward, terminated, truncated, _ = inner.step(0)
            return [observation], [reward], [terminated], [truncated], {}

        def reset(self) -> None:
            inner.reset()

    module = SimpleNamespace(Sync=Sync)
    hooks.change_vector("Sync")(module, watch)  # type: ignore[arg-type]
    env = Sync()
    env.reset()
    for _ in range(4):
        env.step([0])
    assert (watch.steps, watch.recorder.episodes) == (4, 1)


def test_a_library_whose_steps_wait_is_counted_when_they_return(tmp_path: Path) -> None:
    watch = watch_in(tmp_path, steps=2)

    class Subproc:
        def step_async(self, actions: Any) -> None: ...

        def step_wait(self) -> Any:
            return None, [1.0, 3.0], [True, False], [{}, {}]

        def reset(self) -> None: ...

    hooks.change_vector("Subproc")(SimpleNamespace(Subproc=Subproc), watch)  # type: ignore[arg-type]
    env = Subproc()
    env.step_async([0, 0]), env.step_wait()
    assert (watch.steps, watch.recorder.episodes) == (2, 1)
    with pytest.raises(BudgetSpentError):
        env.step_async([0, 0])


@pytest.mark.parametrize(
    ("steps", "environment", "budget", "words"),
    [
        (0, "CartPole-v1", {"steps": 10}, "took no step"),
        (8, "CartPole-v1", {"steps": 10}, "too few steps: the script ended by itself after 8 of 10"),
        (9, "CartPole-v1", {"steps": 10}, None),
        (9, "Acrobot-v1", {"steps": 10}, "played CartPole-v1, but its trial is of Acrobot-v1"),
        (9, "module:CartPole-v1", {"steps": 10}, None),
        (9, "CartPole-v1", {"episodes": 10}, "before its budget"),
    ],
)
def test_a_script_that_ends_by_itself(
    tmp_path: Path, steps: int, environment: str, budget: dict[str, Any], words: str | None
) -> None:
    watch = Watch(GuestRecorder(tmp_path, Budget(**budget), Clock(), 0), environment)
    env = made(watch)
    for _ in range(steps):
        env.step(0)
    fault = watch.fault()
    assert fault is None if words is None else words in str(fault)


def test_a_script_may_report_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watch_in(tmp_path, steps=10)
    monkeypatch.setattr(report, "_watch", watch)
    env = made(watch)
    report.begin()
    env.step(0)
    report.step(8)
    report.episode(5.0, 8)
    report.step(2)
    assert (watch.steps, watch.recorder.episodes) == (10, 1)
    with pytest.raises(BudgetSpentError):
        report.step()
    assert watch.recorder.phases() == {}


def test_reports_do_nothing_outside_a_trial() -> None:
    report.begin()
    report.step(3)
    report.episode(1.0, 3)
