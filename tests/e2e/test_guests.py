"""Unmodified training scripts as contestants, from the command to the answer."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from fakes import outcome_of, rldyno

SEARCH = '''\
"""Random search for a linear policy."""
import argparse

import gymnasium
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
parser.add_argument("--total-timesteps", type=int)
args = parser.parse_args()
rng = np.random.default_rng(args.seed)
env = gymnasium.make("CartPole-v1")
best, weights, steps = 0.0, rng.normal(size=4), 0
while steps < args.total_timesteps:
    tried = weights + 0.5 * rng.normal(size=4)
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    total, ended = 0.0, False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(int(observation @ tried > 0))
        total, steps, ended = total + reward, steps + 1, terminated or truncated
    if total >= best:
        best, weights = total, tried
with open("best.txt", "w") as file:
    file.write(str(best))
'''
VECTOR = """\
import sys

import gymnasium as gym
import numpy as np

if __name__ == "__main__":
    seed, steps = int(sys.argv[1]), int(sys.argv[2])
    envs = gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    envs.reset(seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(steps // 2):
        envs.step(rng.integers(2, size=2))
    envs.close()
"""
STUDY = """\
contestants = ["script:search.py", "script:vector.py", "script:broken.py", "numpy:eager"]
algorithms = "dqn"
environments = "CartPole-v1"
seeds = 1

[budget]
steps = 400
stop = {{ return = 5, episodes = 1, ends = false }}

[script."search.py"]
arguments = ["--seed", "{{seed}}", "--total-timesteps", "{{steps}}"]
interpreter = "{python}"

[script."vector.py"]
arguments = ["{{seed}}", "{{steps}}"]
interpreter = "{python}"

[script."broken.py"]
interpreter = "{python}"
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "cache"))
    scripts = {"search.py": SEARCH, "vector.py": VECTOR, "broken.py": "raise SystemExit(7)\n"}
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "study.toml").write_text(STUDY.format(python=sys.executable))
    return tmp_path / "study.toml"


def run(given: Path, out: Path, *more: str) -> tuple[int, str]:
    own = ("--toolchain", f"numpy={sys.executable}", "--no-limits", "--no-verify")
    done = rldyno("run", given, *own, *more, *(() if given == out else ("--out", str(out))))
    return done.returncode, done.stdout + done.stderr


def trial_of(out: Path, script: str) -> Path:
    (found,) = (out / "trials").glob(f"script-{script}-py*")
    return found


def test_scripts_run_beside_contestants_and_are_shown_apart(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, said = run(study, out, "--no-report")
    assert code == 1  # broken.py
    for script in ("search", "vector"):
        outcome = outcome_of(trial_of(out, script))
        assert outcome["status"] == "done", outcome["message"]
        assert 360 <= outcome["result"]["steps"] <= 400
        assert outcome["result"]["threshold"]["reached"]
        assert outcome["cpu_s"] > 0
        assert outcome["peak_rss_bytes"] > 10**7
    assert "the script exited with code 7" in outcome_of(trial_of(out, "broken"))["message"]
    assert "Guest, not ranked, on CartPole-v1 with DQN: `script:search.py`" in said
    assert rldyno("report", out).returncode == 0
    assert rldyno("check", out).returncode == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["toolchains"]["script:search.py"]["versions"]["gymnasium"]

    edited = SEARCH.replace("0.5", "0.6")
    (tmp_path / "search.py").write_text(edited)
    code, said = run(study, out)
    assert code == 2
    assert "script_sha256" in said


def test_a_results_directory_of_somebody_else_starts_no_script(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    run(study, out, "--no-report")
    for name in ("search", "vector", "broken"):
        shutil.rmtree(trial_of(out, name))
        shutil.copy(tmp_path / f"{name}.py", out)
    code, said = run(out, out, "--no-report")
    assert "done (steps)" in said  # the same user, who has run them before
    shutil.rmtree(trial_of(out, "search"))
    monkeypatch.setenv("RLDYNO_CACHE_DIR", str(tmp_path / "of-another-user"))
    code, said = run(out, out, "--no-report")
    assert code == 2
    assert "is not started" in said
    assert not (out / "trials" / "script-search-py").exists()
