"""Batch scripts, word for word, and the settings that they are made from."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from rldyno.config import SlurmSettings, load_config, seconds_of, with_changes
from rldyno.errors import Problem
from rldyno.launch.launcher import PreparedTrial
from rldyno.launch.slurm_script import Needs, array_script, check_nodes, command_script
from rldyno.trial.nodes import srun_command
from rldyno_rig.contestant import Contestant
from rldyno_rig.trial_file import Budget, TrialFile

ENTRY = (
    f'exec {sys.executable} -P -m rldyno.trial.entry /home/ann/out/trials/"${{trials[$SLURM_ARRAY_TASK_ID]}}"'
)
FILE = TrialFile("t", Contestant("numpy", "eager"), "dqn", "CartPole-v1", 0, {}, Budget(1), cores=2)
BY_MPI = {"collective": "host", "mpiexec": "/part/bin/mpiexec"}

PLAIN = f"""\
#!/bin/bash
#SBATCH --job-name=rldyno-0a1b2c3d-0001
#SBATCH --array=0-1
#SBATCH --output=/home/ann/out/slurm/logs/rldyno-0a1b2c3d-0001-%a.log
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=3
#SBATCH --hint=nomultithread
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --requeue
trials=(
  a.s0
  'b s1'
)
{ENTRY}
"""

FULL = f"""\
#!/bin/bash
#SBATCH --job-name=rldyno-0a1b2c3d-0002
#SBATCH --array=0-0%7
#SBATCH --output=/home/ann/out/slurm/logs/rldyno-0a1b2c3d-0002-%a.log
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --hint=nomultithread
#SBATCH --gres=gpu:a100:4
#SBATCH --exclusive
#SBATCH --signal=B:USR1@120
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --partition=long
#SBATCH --account=lab
#SBATCH --qos=high
#SBATCH --time=02:00:00
#SBATCH --constraint=icelake
#SBATCH --mem=8G
module load gcc/12.2 || exit 1
source ~/conda/bin/activate rl
trials=(
  a.s0
)
{ENTRY}
"""

SPREAD = f"""\
#!/bin/bash
#SBATCH --job-name=rldyno-0a1b2c3d-0004
#SBATCH --array=0-0
#SBATCH --output=/home/ann/out/slurm/logs/rldyno-0a1b2c3d-0004-%a.log
#SBATCH --nodes=2
#SBATCH --ntasks=3
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=3
#SBATCH --hint=nomultithread
#SBATCH --gres=gpu:2
#SBATCH --signal=B:USR1@60
#SBATCH --open-mode=append
#SBATCH --requeue
trials=(
  a.s0
)
{ENTRY} --per-node 2
"""

LAST = """\
#!/bin/bash
#SBATCH --job-name=rldyno-0a1b2c3d-0003
#SBATCH --output=/home/ann/out/slurm/logs/rldyno-0a1b2c3d-0003.log
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --partition=long
exec rldyno run '/home/ann/my out'
"""

ROOT, LOGS = Path("/home/ann/out"), Path("/home/ann/out/slurm/logs")


def needs(**values: object) -> Needs:
    return Needs.of(PreparedTrial(replace(FILE, **values), Path("t")))


def test_a_script_without_settings() -> None:
    text = array_script("rldyno-0a1b2c3d-0001", needs(), ("a.s0", "b s1"), ROOT, LOGS, SlurmSettings())
    assert text == PLAIN


def test_a_script_with_every_setting() -> None:
    settings = SlurmSettings(
        partition="long",
        account="lab",
        qos="high",
        time="02:00:00",
        constraint="icelake",
        modules=("gcc/12.2",),
        setup=("source ~/conda/bin/activate rl",),
        lines=("--mem=8G",),
        exclusive=True,
        probe_cpu=False,
        gpu="gpu:a100",
        throttle=7,
        warn_s=120,
    )
    asked = needs(device="cuda", workers=4)
    assert array_script("rldyno-0a1b2c3d-0002", asked, ("a.s0",), ROOT, LOGS, settings) == FULL


def test_a_script_for_workers_on_several_nodes() -> None:
    asked, settings = needs(device="cuda", workers=3), SlurmSettings(workers_per_node=2)
    assert array_script("rldyno-0a1b2c3d-0004", asked, ("a.s0",), ROOT, LOGS, settings) == SPREAD


def test_a_team_that_one_node_can_hold_stays_there() -> None:
    settings = SlurmSettings(workers_per_node=2)
    assert needs(workers=2).options(settings) == needs(workers=2).options(SlurmSettings())


@pytest.mark.parametrize(
    ("values", "mpi", "words"),
    [
        ({"caches": "warm", "collective": "native"}, ["pmi2"], "warm caches"),
        (BY_MPI, ["none", "pmix"], "the collective `host` on several nodes needs Slurm's pmi2"),
        ({**BY_MPI, "collective": "native"}, ["none", "pmix"], "the collective `native` on several nodes"),
        (BY_MPI, ["none", "pmi2"], None),
        ({"collective": "native"}, ["none"], None),
    ],
)
def test_what_cannot_run_on_several_nodes(
    values: dict[str, object], mpi: list[str], words: str | None
) -> None:
    asked = [PreparedTrial(replace(FILE, workers=2, **values), Path("t"))]
    check_nodes(asked, SlurmSettings(), lambda: mpi)
    with pytest.raises(Problem, match=words) if words else nullcontext():
        check_nodes(asked, SlurmSettings(workers_per_node=1), lambda: mpi)


def test_the_step_that_starts_the_workers() -> None:
    file = replace(FILE, workers=3, **BY_MPI)
    command = srun_command(Path("/t"), file, 2, "n1", 17)
    assert " ".join(command) == (
        "srun --nodes=2 --ntasks=3 --ntasks-per-node=2 --distribution=block --cpu-bind=none --export=ALL "
        "--input=none --kill-on-bad-exit=1 --mpi=pmi2 "
        f"{sys.executable} -P -m rldyno.trial.station /t n1 17 --per-node 2"
    )
    alone = srun_command(Path("/t"), replace(file, mpiexec=None), 2, "n1", 17)
    assert "--mpi=none" in alone


@pytest.mark.parametrize(("probe", "cpus"), [(True, 9), (False, 8)])
def test_workers_on_one_node_need_one_probe(probe: bool, cpus: int) -> None:
    asked = needs(workers=4).options(SlurmSettings(probe_cpu=probe))
    assert asked[:3] == ["--nodes=1", "--ntasks=1", f"--cpus-per-task={cpus}"]


def test_a_module_that_cannot_be_loaded_ends_the_job(tmp_path: Path) -> None:
    settings = SlurmSettings(modules=("gcc/12.2",))
    script = command_script("j", ["echo", "it runs"], tmp_path, settings)
    for loads, printed in ((False, ""), (True, "it runs\n")):
        shell = f"module() {{ echo cannot find $2 >&2; {'true' if loads else 'false'}; }}\n{script}"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
        assert (done.returncode == 0, done.stdout) == (loads, printed)


def test_workers_may_share_a_gpu() -> None:
    asked = needs(device="cuda", workers=2, share_gpu=True).options(SlurmSettings())
    assert "--gres=gpu:1" in asked


def test_the_script_of_the_job_that_goes_on() -> None:
    command = ["rldyno", "run", "/home/ann/my out"]
    text = command_script("rldyno-0a1b2c3d-0003", command, LOGS, SlurmSettings(partition="long"))
    assert text == LAST


def test_the_last_job_may_have_options_of_its_own() -> None:
    """A partition of GPUs may refuse a job without one."""
    settings = SlurmSettings(partition="gpu", lines=("--mem=8G",), last_lines=("--partition=cpu",))
    options = command_script("j", ["true"], LOGS, settings).splitlines()
    assert options[-4:-1] == ["#SBATCH --partition=gpu", "#SBATCH --mem=8G", "#SBATCH --partition=cpu"]
    trial = array_script("j", needs(), ("a.s0",), ROOT, LOGS, settings)
    assert "--partition=cpu" not in trial
    assert with_changes(settings, ["last_lines=--mem=1G"]).last_lines == ("--mem=1G",)


def test_settings_from_the_command_line() -> None:
    changes = ["partition=gpu", "throttle=3", "exclusive=true", "lines=--mem=4G", "lines=--nice"]
    found = with_changes(SlurmSettings(partition="cpu", account="lab"), changes)
    assert (found.partition, found.account, found.throttle, found.exclusive) == ("gpu", "lab", 3, True)
    assert found.lines == ("--mem=4G", "--nice")


@pytest.mark.parametrize(
    ("written", "given"), [('"1-12:00:00"', "1-12:00:00"), ("02:00:00", "02:00:00"), ("90", "90")]
)
def test_a_time_limit_needs_no_quotes(
    written: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"[slurm]\ntime = {written}\n")
    monkeypatch.setenv("RLDYNO_CONFIG", str(file))
    assert load_config().slurm.time == given


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [
        ("30", 1800),
        ("1:30", 90),
        ("02:00:00", 7200),
        ("1-0", 86_400),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("2-01:00:05", 176_405),
        ("UNLIMITED", None),
        ("1:2:3:4", None),
    ],
)
def test_times_as_sbatch_takes_them(limit: str, seconds: int | None) -> None:
    assert seconds_of(limit) == seconds


def test_a_time_limit_must_be_above_the_warning() -> None:
    for limit in ("1", "00:01:00", "0-00:00:30"):
        with pytest.raises(
            Problem, match=f"--slurm time={limit}: {limit} is over when trials are warned, warn_s = 60"
        ):
            with_changes(SlurmSettings(), [f"time={limit}"])
    with pytest.raises(Problem, match=r"time=00:05:00: .* warn_s = 300 seconds"):
        with_changes(SlurmSettings(time="00:05:00"), ["warn_s=300"])
    assert with_changes(SlurmSettings(), ["time=00:01:00", "warn_s=20"]).time == "00:01:00"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("partitoin=x", "it takes KEY=VALUE"),
        ("partition", "it takes KEY=VALUE"),
        ("throttle=0", "throttle=0: Input should be greater than or equal to 1"),
        ("account=x\n#SBATCH --uid=0", "String should match pattern"),
    ],
)
def test_wrong_settings(change: str, words: str) -> None:
    with pytest.raises(Problem, match=words):
        with_changes(SlurmSettings(), [change])
