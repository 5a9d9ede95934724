"""Samples of profilers: phases by the line of the loop, functions by their innermost frame."""

from __future__ import annotations

import json
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_trust import written
from test_why import asked, with_phases
from typer.testing import CliRunner

from rldyno.cli import app
from rldyno.errors import Problem
from rldyno.profiling import profile as profiling
from rldyno.profiling.profile import Profile, find_tool, of_phase, on_this_machine, profile, symbols
from rldyno.profiling.stacks import by_phase, collapsed, hottest, rig_line
from rldyno.records.trial_records import read_trial
from rldyno_rig.algorithms import dqn, rollout
from synthetic import NUMPY, TORCH

START = "train (rldyno_rig/training.py:50);"
LOOP = {
    "act": "(chosen,) = act(*placed)",
    "update": "handle = update(placed, lr)",
    "environment": "env.step(actions)",
}


def numbered(module: object, text: str) -> str:
    """`rldyno_rig/algorithms/dqn.py:71`: where the loop has this text."""
    file = Path(str(module.__file__))  # type: ignore[attr-defined]
    line = next(number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line)
    return f"rldyno_rig/algorithms/{file.name}:{line}"


def test_a_sample_belongs_to_the_phase_of_the_line_that_called(tmp_path: Path) -> None:
    """Against the real source of the loops, so that a loop that is written anew is noticed."""
    train = f"{START}train (rldyno_rig/algorithms/ppo.py:70);"
    learn = f"{START}train ({numbered(dqn, 'handle = learn(step)')});learn ({numbered(dqn, LOOP['update'])})"
    samples = [
        f"{START}train ({numbered(dqn, LOOP['act'])});Learner.act (x.py:3);matmul (np.py:8) 30",
        f"{learn};grad (t.py:1) 50",
        f"{learn};grad (t.py:9) 10",
        f"{train}collect ({numbered(rollout, 'env.step(action)')});step (e.py:4) 7",
        f"{START}train ({numbered(dqn, 'store(actions, obs')}) 3",
        "<module> (rldyno_rig/__main__.py:1);load_backend (rldyno_rig/loading.py:11) 99",
        "<module> (rldyno_rig/jobs.py:1);<module> (rldyno_rig/algorithms/dqn.py:9);_create_fn (d.py:1) 99",
        "torn line",
    ]
    found = by_phase(collapsed("\n".join(samples)))
    assert found == {
        "act": Counter({"matmul (np.py)": 30}),
        "update": Counter({"grad (t.py)": 60}),
        "environment": Counter({"step (e.py)": 7}),
        "store": Counter({f"train ({numbered(dqn, 'store(').partition(':')[0]})": 3}),
    }
    made = of_phase("torch:eager", found, "update")
    assert (made.samples, made.share, made.functions[0].name) == (100, 0.6, "grad (t.py)")


def test_lines_of_the_rig_are_read_from_its_files() -> None:
    file, _, line = numbered(dqn, LOOP["act"]).partition(":")
    assert LOOP["act"] in rig_line(file, int(line))
    assert rig_line("rldyno_rig/algorithms/none.py", 3) == rig_line(file, 10_000) == ""


def test_symbols_of_perf_count_within_the_training_alone() -> None:
    script = "\n".join(
        [
            "   10.000000:   7f00 early (/lib/a.so)",
            "   11.500000:   7f01 sgemm kernel (/usr/lib/libblas.so.3)",
            "   11.600000:   7f01 sgemm kernel (/usr/lib/libblas.so.3)",
            "   12.000000:   7f02 [unknown] ([unknown])",
            "   20.000000:   7f03 late (/lib/a.so)",
            "garbage",
        ]
    )
    found = symbols(script, 11 * 10**9, 13 * 10**9)
    assert found == Counter({"sgemm kernel (libblas.so.3)": 2, "[unknown] ([unknown])": 1})
    assert hottest(found, 1)[0].share == pytest.approx(2 / 3)


def test_without_a_profiler_the_answer_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(Problem) as problem:
        find_tool()
    assert "pip install py-spy" in str(problem.value.fix)
    tool = tmp_path / "perf"
    tool.write_text("")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert find_tool() == ("perf", tool)


def test_a_profiler_that_fails_is_reported_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = written(tmp_path / "r", NUMPY, TORCH, seeds=2, stop_return=None)
    tool = tmp_path / "bin" / "py-spy"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho Permission denied: try sudo >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    with pytest.raises(Problem) as problem:
        profile(next(root.glob("trials/numpy*")), "update", {"numpy": Path(sys.executable)})
    assert "Permission denied" in problem.value.message


def test_what_runs_is_of_this_machine_whatever_the_record_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A results directory may come from somebody else."""
    root = written(tmp_path / "r", NUMPY, TORCH, seeds=2, stop_return=None)
    home, tool = next(root.glob("trials/numpy*")), tmp_path / "py-spy"
    tool.write_text(f'#!/bin/sh\necho "$LD_PRELOAD" "$@" > {tmp_path}/started\n')
    tool.chmod(0o755)
    file = json.loads((home / "trial.json").read_text())
    forged = {
        "interpreter": "/evil",
        "variables": {"LD_PRELOAD": "evil.so"},
        "isolated": True,
        "backend": "evil",
    }
    (home / "trial.json").write_text(json.dumps(file | forged))
    trial = on_this_machine(read_trial(home), {"numpy": Path(sys.executable)})
    assert (trial.interpreter, trial.isolated, trial.backend) == (sys.executable, False, "numpy_")
    monkeypatch.setattr(profiling, "find_tool", lambda: ("py-spy", tool))
    with pytest.raises(Problem):  # it ends, but leaves no samples
        profile(home, "update", {"numpy": Path(sys.executable)})
    started = (tmp_path / "started").read_text()
    assert sys.executable in started
    assert "evil" not in started


@pytest.mark.parametrize(
    "change",
    [
        {"workers": 2},
        {"guest": {"sha256": "0", "arguments": [], "variables": [], "script": "/tmp/evil.py"}},
        {"contestant": "numpy@./evil-9-py3-none-any.whl:eager"},
        {"hyper": {}},
        {"contestant": "nothing:eager"},
    ],
)
def test_a_trial_that_cannot_be_profiled_is_one_message(change: dict[str, Any], tmp_path: Path) -> None:
    root = written(tmp_path / "r", NUMPY, TORCH, seeds=2, stop_return=None)
    home = next(root.glob("trials/numpy*"))
    file = json.loads((home / "trial.json").read_text())
    (home / "trial.json").write_text(json.dumps(file | change))
    with pytest.raises(Problem):
        on_this_machine(read_trial(home), {"numpy": Path(sys.executable)})


def test_the_command_profiles_the_largest_phase_of_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for = []

    def faked(trial: Path, phase: str, overrides: dict[str, Path]) -> Profile:
        assert overrides == {"torch": Path(sys.executable)}
        asked_for.append((trial.name.partition(".")[0], phase))
        return Profile(trial.name.partition(".")[0].replace("-", ":"), "py-spy", phase, 400, 0.5, ())

    def spent(contestant: str, phase: str) -> int:
        return 90_000 if (contestant, phase) == ("torch:eager", "act") else 10_000

    monkeypatch.setattr(profiling, "profile", faked)
    monkeypatch.setattr(profiling, "find_tool", lambda: ("py-spy", Path("py-spy")))
    root = with_phases(written(tmp_path / "r", NUMPY, TORCH, stop_return=None), spent)
    assert asked(root).split.phases[0].name == "act"
    shown = CliRunner().invoke(
        app, ["why", str(root), "--profile", "--json", "--toolchain", f"torch={sys.executable}"]
    )
    assert asked_for == [("numpy-eager", "act"), ("torch-eager", "act")]
    found = json.loads(shown.output)["profiles"]
    assert [one["share"] for one in found] == [0.5, 0.5]
