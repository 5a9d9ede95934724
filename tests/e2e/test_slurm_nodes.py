"""Teams whose workers are on two nodes of a private Slurm, on which nothing else has failed before."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest
from fakes import PATIENCE_S, wait_until
from slurm_lab import NODE_PATIENCE_S, Lab, ended

from private_slurm import PrivateSlurm


def learning(out: Path) -> dict[str, list[str]]:
    """Trial → its actions and its episodes without their times."""
    found = {}
    for path in sorted(out.glob("trials/*")):
        rows = list(csv.reader((path / "episodes.csv").open()))
        timed = rows[0].index("time_ns")
        episodes = [",".join(row[:timed] + row[timed + 1 :]) for row in rows]
        found[path.name] = [(path / "actions.csv").read_text(), *episodes]
    return found


def sampled_cpu_s(trial: Path) -> float:
    """Of the worker on the first node, as the probe saw it last."""
    *_, last = csv.DictReader((trial / "samples.csv").open())
    return (int(last["cpu_user_ns"]) + int(last["cpu_system_ns"])) / 1e9


@pytest.mark.slow
@pytest.mark.toolchain("torch")
def test_workers_on_two_nodes_learn_the_same_as_on_one(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm).with_team("torch:eager", '["native", "host"]', 2000)
    run = lab.run("--no-report")
    assert run.returncode == 0, run.stdout + run.stderr
    for path in lab.out.glob("trials/*/outcome.json"):
        outcome = json.loads(path.read_text())
        assert outcome["affinity"]["nodes"] == ["n1", "n2"]
        assert outcome["probe"]["watched"] == 1
        assert outcome["cpu_s"] > 1.5 * sampled_cpu_s(path.parent), "of both, and each had as much to do"
        assert "cpu_s" not in outcome["reasons"]
        assert "watched 1 of 2 workers" in outcome["reasons"]["peak_rss_bytes"]
    here = tmp_path / "here"
    command = [sys.executable, "-m", "rldyno", "run", "study.toml", "--out", str(here), "--no-verify"]
    local = lab.call([*command, "--no-report", "--no-limits"])
    assert local.returncode == 0, local.stdout + local.stderr
    far, near = learning(lab.out), learning(here)
    assert len(far) == 2
    assert all(len(rows) > 10 for rows in far.values())
    assert far == near


@pytest.mark.slow
@pytest.mark.parametrize(
    ("contestant", "collective"),
    [
        pytest.param("mxnet:hybrid", "host", marks=pytest.mark.toolchain("mxnet")),
        pytest.param("chainer:eager", "native", marks=pytest.mark.toolchain("chainer")),
    ],
)
def test_mpi_meets_on_two_nodes_before_the_framework_is_loaded(
    contestant: str, collective: str, tmp_path: Path, slurm: PrivateSlurm
) -> None:
    lab = Lab(tmp_path, slurm).with_team(contestant, f'"{collective}"', 1000)
    run = lab.run("--no-report")
    assert run.returncode == 0, run.stdout + run.stderr
    assert lab.done() == 1


@pytest.mark.slow
@pytest.mark.toolchain("numpy")
def test_workers_share_a_node_that_has_room_for_them(tmp_path: Path, slurm: PrivateSlurm) -> None:
    """`slurm` has one CPU on each node; here is one node with two."""
    (tmp_path / "lab").mkdir()
    wide = PrivateSlurm(tmp_path / "wide", slurm.programs, nodes=1, cpus=2)
    try:
        wide.up()
        lab = Lab(tmp_path / "lab", wide).with_team("numpy:eager", '"host"', 1000)
        lab.changes = ()
        run = lab.run("--no-report")
    finally:
        wide.down()
    assert run.returncode == 0, run.stdout + run.stderr
    (file,) = lab.out.glob("trials/*/outcome.json")
    outcome = json.loads(file.read_text())
    assert outcome["status"] == "done"
    assert outcome["probe"]["watched"] == 2
    assert "nodes" not in outcome["affinity"]
    own, other = outcome["affinity"]["workers"]
    assert own != other, "each has a CPU of its own"
    assert not wide.processes()


@pytest.mark.slow
@pytest.mark.toolchain("numpy")
def test_a_worker_dies_on_another_node(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm).with_team("numpy:eager", '"host"', 100_000_000)
    process = lab.start("--no-report")
    wait_until(lambda: lab.worker_on("n2") is not None, NODE_PATIENCE_S)
    victim = lab.worker_on("n2")
    assert victim is not None
    victim.kill()
    assert ended(process) == 1
    (file,) = lab.out.glob("trials/*/outcome.json")
    outcome = json.loads(file.read_text())
    assert (outcome["status"], outcome["reason"]) == ("failed", "killed")
    assert outcome["message"].startswith("worker 1 was killed by SIGKILL")
    wait_until(lambda: not lab.workers(), PATIENCE_S)


@pytest.mark.slow
@pytest.mark.toolchain("numpy")
def test_a_cancelled_team_is_submitted_again(tmp_path: Path, slurm: PrivateSlurm) -> None:
    lab = Lab(tmp_path, slurm).with_team("numpy:eager", '"host"', 20_000)
    process = lab.start("--no-report")
    wait_until(lambda: lab.worker_on("n2") is not None, NODE_PATIENCE_S)
    job, _ = lab.first_running()
    slurm.run([slurm.program("scancel"), job])
    assert ended(process) == 0, (tmp_path / "lab.log").read_text()
    assert lab.done() == 1
    assert "(CANCELLED) without an outcome; submitting it again" in (tmp_path / "lab.log").read_text()
    assert not lab.workers()
