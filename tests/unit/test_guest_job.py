"""Scripts in a process of their own, with the real Gymnasium: how each one ends."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rldyno_rig
from rldyno_rig.contestant import Contestant
from rldyno_rig.guest.file import Guest
from rldyno_rig.schema import EPISODES_FILE, FACTS_FILE, RESULT_FILE, TRIAL_FILE
from rldyno_rig.trial_file import Budget, TrialFile

pytestmark = pytest.mark.slow

MAKE = "import gymnasium\nenv = gymnasium.make('CartPole-v1')\n"
PLAY = """
def play(env, steps):
    env.reset(seed=0)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample() * 0)
        if terminated or truncated:
            env.reset()
"""


def run(folder: Path, script: str, edit: str = "", **budget: Any) -> dict[str, Any]:
    """result.json of a script. `edit`: what the file holds when it is started."""
    path = folder / "train.py"
    path.write_text(script)
    trial = TrialFile(
        trial="t",
        contestant=Contestant("script", "train.py"),
        algorithm="dqn",
        environment="CartPole-v1",
        seed=3,
        hyper={},
        budget=Budget(**(budget or {"steps": 60})),
        guest=Guest(hashlib.sha256(path.read_bytes()).hexdigest(), ("--seed", "3"), (), str(path)),
    )
    (folder / TRIAL_FILE).write_text(json.dumps(trial.to_json()))
    if edit:
        path.write_text(edit)
    command = [sys.executable, "-I", str(Path(rldyno_rig.__file__).parent), "guest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    result: dict[str, Any] = json.loads((folder / RESULT_FILE).read_text())
    assert (done.returncode == 0) == (result["reason"] == "steps"), done.stderr
    return result


@pytest.mark.parametrize(
    "made",
    [
        "gymnasium.make('CartPole-v1')",
        "gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make('CartPole-v1'))",
        "gymnasium.make_vec('CartPole-v1', num_envs=1, vectorization_mode='sync')",
        "gymnasium.make_vec('CartPole-v1', num_envs=1, vectorization_mode='vector_entry_point')",
        "gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make('CartPole-v1')])",
        "gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make('CartPole-v1')])",
    ],
)
def test_every_way_to_make_an_environment_is_seen(tmp_path: Path, made: str) -> None:
    script = f"""
import gymnasium
if __name__ == "__main__":
    env = {made}
    env.reset(seed=0)
    for _ in range(70):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample() * 0)
        if (terminated or truncated) is True:
            env.reset()
    raise AssertionError("the budget should have ended it")
"""
    result = run(tmp_path, script)
    assert (result["reason"], result["steps"]) == ("steps", 60)
    assert result["episodes"] >= 1
    assert result["phases_ns"]["environment"] > 0
    lengths = [int(row.split(",")[5]) for row in (tmp_path / EPISODES_FILE).read_text().splitlines()[1:]]
    returns = [float(row.split(",")[4]) for row in (tmp_path / EPISODES_FILE).read_text().splitlines()[1:]]
    assert returns == lengths
    assert "gymnasium" in json.loads((tmp_path / FACTS_FILE).read_text())["versions"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys\nsys.exit(3)", "the script exited with code 3"),
        ("import sys\nsys.exit('no data')", "the script exited: no data"),
        ("raise ValueError('bad\\nworse')", "the script failed: ValueError: bad"),
        ("print('nothing to do')", "took no step"),
        (MAKE + PLAY + "play(env, 20)", "too few steps: the script ended by itself after 20 of 60"),
        (MAKE.replace("CartPole-v1", "MountainCar-v0") + PLAY + "play(env, 60)", "played MountainCar-v0"),
        ("def broken(:", "the script failed: SyntaxError"),
    ],
)
def test_every_failure_has_one_clear_reason(tmp_path: Path, script: str, words: str) -> None:
    result = run(tmp_path, script)
    assert result["reason"] == "crashed"
    assert words in result["message"]


def test_a_script_that_catches_its_end_is_ended_all_the_same(tmp_path: Path) -> None:
    script = (
        MAKE
        + """
print("here", end="")
while True:
    try:
        env.reset(seed=0)
        while not any(env.step(0)[2:4]):
            pass
    except:
        pass
"""
    )
    result = run(tmp_path, script)
    assert (result["reason"], result["steps"], result["message"]) == (
        "steps",
        60,
        "reached its budget of steps",
    )
    assert result["episodes"] == len((tmp_path / EPISODES_FILE).read_text().splitlines()) - 1 > 3


def test_a_script_that_was_edited_does_not_run(tmp_path: Path) -> None:
    result = run(tmp_path, "print(1)", edit="open('ran', 'w')")
    assert result["message"] == "train.py has changed since the run began"
    assert not (tmp_path / "work").exists()


def test_a_script_sees_its_own_world(tmp_path: Path) -> None:
    """Arguments, name, folder of its modules, and a working folder of its own."""
    (tmp_path / "beside.py").write_text("VALUE = 60")
    script = (
        "import sys, beside\n"
        "assert __name__ == '__main__' and sys.argv[1:] == ['--seed', '3']\n"
        "open('notes.txt', 'w').write('x')\n" + MAKE + PLAY + "play(env, beside.VALUE)"
    )
    assert run(tmp_path, script)["reason"] == "steps"
    assert (tmp_path / "work" / "notes.txt").exists()


def test_environments_are_copied_and_sent_to_processes(tmp_path: Path) -> None:
    script = """
import copy, multiprocessing, pickle
import gymnasium

def play(env):
    env.reset(seed=0)
    for _ in range(5):
        env.step(0)
    return type(env).__name__

if __name__ == "__main__":
    env = gymnasium.make("CartPole-v1")
    play(env)
    copied = copy.deepcopy(env)
    assert b"rldyno" not in pickle.dumps(copied)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(play, [env, copied]) == [type(env).__name__] * 2
    for _ in range(11):
        play(copied)
"""
    result = run(tmp_path, script)
    assert (result["reason"], result["steps"], result["message"]) == (
        "steps",
        60,
        "reached its budget of steps",
    )


def test_a_script_without_gymnasium_reports_itself(tmp_path: Path) -> None:
    script = """
from rldyno_rig.guest import report
report.begin()
while True:
    report.step(8)
    report.episode(1.0, 8)
"""
    result = run(tmp_path, script)
    assert (result["reason"], result["steps"], result["phases_ns"]) == ("steps", 64, {})
