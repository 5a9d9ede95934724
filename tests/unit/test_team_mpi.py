"""The part `mpi` of a real toolchain: two processes average host arrays, started by its mpiexec."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from rldyno.processes.mpi import mpi_command
from rldyno.processes.rig import Runtime
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno_rig.schema import PARTS_VARIABLE

SOURCES = Path(__file__).parents[2] / "src"
TIME_LIMIT_S = 300
# Inside an allocation of Slurm hydra would call `srun`.
SLURM = {"SLURM_JOB_ID": "5", "SLURM_JOBID": "5", "SLURM_NODELIST": "n[1-2]", "SLURM_NNODES": "2"}

BEGINNING = f"""
import os, sys, time
sys.path += [{str(SOURCES)!r}, *os.environ[{PARTS_VARIABLE!r}].split(os.pathsep)]
rank = int(os.environ["RLDYNO_RANK"])
assert rank == int(os.environ["PMI_RANK"])
"""
AVERAGE = """
import numpy as np
from rldyno_rig.team import host
average = host.averaging(rank, 2)
mine = np.random.default_rng(rank).standard_normal(17_410)
np.save(f"{rank}.npy", average(mine))
host.leave()
if rank:
    os._exit(0)
time.sleep(1)
print("still here", flush=True)
os._exit(0)
"""
FAIL = """
from rldyno_rig.team import host
host.averaging(rank, 2)
os._exit(7 if rank else 0)
"""


@pytest.fixture(scope="module")
def numpy() -> Interpreter:
    return ensure(["numpy"], needs={"numpy": ["host"]})["numpy"]


def run(numpy: Interpreter, code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    runtime = Runtime.of(numpy, 1, None, "host")
    part = numpy.part_for("host")
    assert part is not None
    assert part.mpiexec is not None
    command = runtime.command(["-c", BEGINNING + code])
    ranks = [{"RLDYNO_RANK": str(rank)} for rank in range(2)]
    return subprocess.run(
        mpi_command(part.mpiexec, command, ranks),
        env={**runtime.environment(), **SLURM},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )


def test_each_rank_gets_its_own_variables_and_stays_on_this_host() -> None:
    ranks = [{"RANK": "0"}, {"RANK": "1", "A": "b c"}]
    assert " ".join(mpi_command(Path("/part/bin/mpiexec"), ["python", "rig"], ranks)) == (
        "/part/bin/mpiexec -launcher fork -hosts localhost -disable-auto-cleanup "
        "-n 1 -env RANK 0 python rig : -n 1 -env RANK 1 -env A b c python rig"
    )


@pytest.mark.slow
def test_two_processes_average_and_one_may_end_before_the_other(numpy: Interpreter, tmp_path: Path) -> None:
    done = run(numpy, AVERAGE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "still here\n"
    first, second = (np.load(tmp_path / f"{rank}.npy") for rank in range(2))
    np.testing.assert_array_equal(first, second)
    whole = [np.random.default_rng(rank).standard_normal(17_410) for rank in range(2)]
    np.testing.assert_array_equal(first, (whole[0] + whole[1]) * 0.5)


@pytest.mark.slow
def test_the_status_of_a_rank_that_fails_is_passed_on(numpy: Interpreter, tmp_path: Path) -> None:
    assert run(numpy, FAIL, tmp_path).returncode == 7
