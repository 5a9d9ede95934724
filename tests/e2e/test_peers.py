"""Ready-made guests in their own toolchains: each library trains as a contestant of a study."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import outcome_of, rldyno

from rldyno.peers.catalogue import peers
from rldyno.toolchains.catalogue import toolchain
from rldyno.toolchains.resolve import state

STUDY = """\
contestants = "script:{name}"
algorithms = ["dqn", "ppo"]
environments = "CartPole-v1"
seeds = 1

[budget]
steps = 512

[hyper.dqn]
learning_starts = 64
batch_size = 32

[hyper.ppo]
environments = 2
rollout_steps = 64
"""


@pytest.mark.parametrize("name", sorted(peers()))
def test_a_library_trains_as_a_guest(name: str, tmp_path: Path) -> None:
    if state(toolchain(name)).status not in ("ready", "given"):
        pytest.skip(f"the toolchain of {name} is not built (rldyno setup {name})")
    study, out = tmp_path / "study.toml", tmp_path / "out"
    study.write_text(STUDY.format(name=name))
    options = ("--no-verify", "--no-limits", "--no-report")
    done = rldyno("run", study, "--out", out, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = [outcome_of(trial) for trial in sorted((out / "trials").iterdir())]
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome["status"] == "done", outcome["message"]
        assert 0.9 * 512 <= outcome["result"]["steps"] <= 512 + 10
        assert outcome["result"]["episodes"] > 5
    assert f"`script:{name}`" in done.stdout
    # A results directory starts it again without a study file: the script is rldyno's own.
    again = rldyno("run", out, *options)
    assert again.returncode == 0, again.stdout + again.stderr
