"""Starting the ranks of a team through MPICH's `mpiexec` (hydra), on this host only.

What was seen with MPICH 5.0.2: each rank leads a session of its own, is a child of `hydra_pmi_proxy` and gets
`PMI_RANK`. When `mpiexec` is killed, its ranks are, too; when the proxy is killed, they stay. SIGTERM, SIGINT
and SIGUSR1 are passed on to all ranks. The status is that of a rank that failed. What
ranks print is mixed and lines are torn: each needs a log of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

PMI = "pmi2"
"""How srun, in the place of mpiexec, tells MPICH's processes of each other (`srun --mpi`)."""
# Otherwise hydra starts ranks with `srun` when it runs inside an allocation of Slurm.
_THIS_HOST = ("-launcher", "fork", "-hosts", "localhost")
# Otherwise hydra kills all ranks when the first one ends with `os._exit`, as the rig's processes do, even
# after MPI_Finalize. The trial runner ends the others where that is right.
_LEAVE_RANKS = "-disable-auto-cleanup"


def mpi_command(mpiexec: Path, command: Sequence[str], variables: Sequence[Mapping[str, str]]) -> list[str]:
    """The command that starts `command` once for each rank, with the environment variables of that rank."""
    whole = [str(mpiexec), *_THIS_HOST, _LEAVE_RANKS]
    for rank, own in enumerate(variables):
        whole += [":"] if rank else []
        whole += ["-n", "1"]
        for name, value in own.items():
            whole += ["-env", name, value]
        whole += command
    return whole
