"""A private Slurm on this machine, from Debian's packages: `python tests/private_slurm.py --help`.

Munge, a controller and some nodes run from one directory, on ports of their own, as the user who starts them.
Where none is installed, packages are unpacked into a cache, without root. `down` ends what `up` started.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import psutil

VARIABLE = "RLDYNO_TEST_SLURM"
"""Names a directory into which the packages are, or will be, unpacked."""
PACKAGES = ("slurm-wlm", "munge")
COMMAND = f"sudo apt-get install --no-install-recommends {' '.join(PACKAGES)}"
"""What makes the tests possible where packages cannot be unpacked."""
CLIENTS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "srun", "sacct", "munge", "unmunge")
REBOOTED = "-b"  # of a killed node; else it is sent the jobs that it is believed to run, and drained
DAEMONS = ("munged", "slurmctld", "slurmd")
_FETCH_S = 300
_PATIENCE_S = 60.0

CONFIG = """\
ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={home}/munge/munge.socket,cred_expire=5
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={port}
SlurmctldPidFile={home}/run/slurmctld.pid
SlurmdPidFile={home}/run/slurmd.%n.pid
SlurmctldLogFile={home}/log/slurmctld.log
SlurmdLogFile={home}/log/slurmd.%n.log
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool/%n
TmpFS={home}/tmpfs/%n
{plugins}MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1,bf_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MinJobAge=300
InactiveLimit=0
KillWait=5
SlurmctldTimeout=60
SlurmdTimeout={node_timeout_s}
{nodes}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=n[1-{count}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=1
PartitionName=urgent Nodes=n[1-{count}] MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=2
"""


@dataclass(frozen=True)
class Programs:
    """Where Slurm's programs are."""

    unpacked: Path | None = None
    """The unpacked packages; None for installed ones."""

    def path(self, name: str) -> Path:
        if self.unpacked is None:
            found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
            if found is None:
                raise FileNotFoundError(f"{name} is not installed")
            return Path(found)
        for folder in ("usr/bin", "usr/sbin"):
            for called in (name, f"{name}-wlm"):  # Debian's alternatives have no links here
                if (self.unpacked / folder / called).is_file():
                    return self.unpacked / folder / called
        raise FileNotFoundError(f"{self.unpacked} has no {name}")

    def libraries(self) -> list[Path]:
        """Folders with shared libraries of unpacked packages."""
        if self.unpacked is None:
            return []
        return sorted({found.parent for found in self.unpacked.rglob("*.so*")})

    def plugins(self) -> Path | None:
        """None where the compiled-in folder is right."""
        if self.unpacked is None:
            return None
        return next(self.unpacked.rglob("auth_munge.so")).parent

    def why_not(self) -> str | None:
        """None where every program can be found."""
        try:
            for name in (*CLIENTS, *DAEMONS, "slurmstepd"):
                self.path(name)
        except FileNotFoundError as error:
            return str(error)
        return None


def cache() -> Path:
    given = os.environ.get(VARIABLE)
    return Path(given).absolute() if given else platformdirs.user_cache_path("rldyno") / "private-slurm"


def find() -> Programs | None:
    """Installed programs, or those that were unpacked earlier."""
    for programs in (Programs(), Programs(cache())):
        if programs.why_not() is None:
            return programs
    return None


def fetch() -> Programs | str:
    """Programs, fetched if there are none; else why there are none."""
    found = find()
    if found is not None:
        return found
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "Slurm is not installed, and its Debian packages cannot be unpacked without apt-get and dpkg"
    target = cache()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        try:
            _unpack(Path(scratch))
        except (OSError, subprocess.SubprocessError) as error:
            return f"Slurm's Debian packages cannot be fetched: {_last_words(error)}"
        unpacked = Path(scratch) / "root"
        reason = Programs(unpacked).why_not()
        if reason is not None:
            return reason
        shutil.rmtree(target, ignore_errors=True)
        unpacked.replace(target)
    return Programs(target)


def _unpack(scratch: Path) -> None:
    """The packages and those of their dependencies that this system lacks, into scratch/root."""
    simulated = ["apt-get", "install", "--simulate", "--no-install-recommends", "-o", "Debug::NoLocking=1"]
    planned = _output([*simulated, *PACKAGES], scratch)
    names = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
    _output(["apt-get", "download", *names], scratch)
    for package in sorted(scratch.glob("*.deb")):
        _output(["dpkg-deb", "--extract", str(package), "root"], scratch)


def _output(command: Sequence[str], cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=_FETCH_S, check=True)
    return done.stdout


def _last_words(error: Exception) -> str:
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return (text.strip().splitlines() or [str(error)])[-1]


class PrivateSlurm:
    """Everything below `home`: a controller, and nodes n1, n2 … with one CPU each."""

    def __init__(
        self, home: Path, programs: Programs, nodes: int = 2, cpus: int = 1, node_timeout_s: int = 20
    ) -> None:
        self.home, self.programs, self.cpus = home.absolute(), programs, cpus
        self.node_timeout_s = node_timeout_s
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]

    @property
    def environment(self) -> dict[str, str]:
        """For commands that talk to it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
        places = [str(self.home / "bin"), *sorted({str(self.programs.path(name).parent) for name in CLIENTS})]
        first = places[:1] if self.programs.unpacked else places
        return {
            **kept,
            "SLURM_CONF": str(self.home / "slurm.conf"),
            "PATH": ":".join([*first, os.environ.get("PATH", "/usr/bin:/bin")]),
        }

    def up(self) -> None:
        """Start everything and wait until all nodes are idle."""
        of_nodes = [*self._of_nodes("spool"), *self._of_nodes("tmpfs")]
        for name in ("bin", "run", "log", "state", "munge", *of_nodes):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        (self.home / "munge").chmod(0o700)
        self._write_wrappers()
        key = self.home / "munge/munge.key"
        if not key.exists():
            key.write_bytes(secrets.token_bytes(1024))
            key.chmod(0o400)
        if not (self.home / "slurm.conf").exists():
            (self.home / "slurm.conf").write_text(self._config())
        self.run(self._munged())
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.wait_for_nodes()

    def down(self) -> None:
        """End jobs and daemons, in whatever state they are."""
        with contextlib.suppress(subprocess.SubprocessError):
            subprocess.run(
                [self.program("scancel"), "--user", getpass.getuser()],
                env=self.environment, timeout=10, capture_output=True, check=False,
            )  # fmt: skip
        for name in [*(f"slurmd.{node}" for node in self.nodes), "slurmctld"]:
            self.kill(name, signal.SIGTERM)
        self.kill("munged", signal.SIGTERM, "munge/munged.pid")
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()

    def processes(self) -> list[psutil.Process]:
        """Living daemons of this directory, and the processes of its jobs."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            about, variables = " ".join(process.cmdline()), process.environ()
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.Error:
            return False
        told = variables.get("SLURM_CONF") == str(self.home / "slurm.conf")
        daemon = any(name in about for name in (*DAEMONS, "slurmstepd"))
        return (told and "SLURM_JOB_ID" in variables) or (daemon and (told or f"{self.home}/" in about))

    def start_controller(self) -> None:
        self.run([self.program("slurmctld")])

    def start_node(self, node: str, *flags: str) -> None:
        """On CPUs of its own, where there are enough: its jobs inherit them."""
        available = sorted(os.sched_getaffinity(0))
        number = self.nodes.index(node) * self.cpus
        own = [available[(number + cpu) % len(available)] for cpu in range(self.cpus)]
        words = [self.program("slurmd"), *flags, "-N", node, "-d", self.program("slurmstepd")]
        self.run(["taskset", "-c", ",".join(map(str, own)), *words])

    def kill_controller(self) -> None:
        self.kill("slurmctld", signal.SIGKILL)

    def kill_node(self, node: str) -> None:
        """As a power cut does: the daemon, its steps and their jobs."""
        self.kill(f"slurmd.{node}", signal.SIGKILL)
        for job in self.processes():
            with contextlib.suppress(psutil.Error):
                if job.environ().get("SLURMD_NODENAME") == node:
                    steps = [parent for parent in job.parents() if "slurmstepd" in " ".join(parent.cmdline())]
                    for process in [*steps, job]:
                        process.kill()

    def kill(self, name: str, number: signal.Signals, file: str | None = None) -> None:
        """The daemon of a pid file; returns when it has ended."""
        path = self.home / (file or f"run/{name}.pid")
        try:
            process = psutil.Process(int(path.read_text()))
            if f"{self.home}/" not in " ".join([*process.cmdline(), *process.environ().values()]):
                return
            process.send_signal(number)
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(_PATIENCE_S if process.status() != psutil.STATUS_ZOMBIE else 0)
        except (OSError, ValueError, psutil.Error):
            return
        finally:
            path.unlink(missing_ok=True)

    def wait_for_nodes(self) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            listed = [self.program("sinfo"), "--noheader", "--partition=main", "--Node", "--format=%T"]
            shown = subprocess.run(listed, env=self.environment, capture_output=True, text=True, check=False)
            states = shown.stdout.split()
            if len(states) == len(self.nodes) and set(states) <= {"idle", "allocated", "mixed", "completing"}:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the nodes did not come up: {states} {shown.stderr}; see {self.home}/log")
            time.sleep(0.1)

    def run(self, command: Sequence[str]) -> str:
        """One of its commands; its output."""
        done = subprocess.run(
            command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            cwd=self.home, timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _of_nodes(self, folder: str) -> list[str]:
        return [f"{folder}/{node}" for node in self.nodes]

    def program(self, name: str) -> str:
        return str(self.home / "bin" / name if self.programs.unpacked else self.programs.path(name))

    def _munged(self) -> list[str]:
        places = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munged.pid"}
        places |= {"log-file": "munged.log", "seed-file": "munged.seed"}
        words = [f"--{option}={self.home}/munge/{file}" for option, file in places.items()]
        return [self.program("munged"), "--force", *words]

    def _write_wrappers(self) -> None:
        """Unpacked programs find their libraries through the loader: LD_LIBRARY_PATH would reach the jobs."""
        libraries = self.programs.libraries()
        if not libraries:
            return
        loader = next(iter(sorted(Path("/").glob("lib*/ld-linux-*.so.*"))))
        for name in (*CLIENTS, *DAEMONS, "slurmstepd"):
            wrapper = self.home / "bin" / name
            search, program = ":".join(map(str, libraries)), self.programs.path(name)
            wrapper.write_text(f"#!/bin/sh\nexec '{loader}' --library-path '{search}' '{program}' \"$@\"\n")
            wrapper.chmod(0o755)

    def _config(self) -> str:
        port, *ports = free_ports(1 + len(self.nodes))
        host, plugins = socket.gethostname().split(".")[0], self.programs.plugins()
        lines = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={own} CPUs={self.cpus}"
            for node, own in zip(self.nodes, ports, strict=True)
        ]
        return CONFIG.format(
            host=host,
            user=getpass.getuser(),
            home=self.home,
            port=port,
            plugins=f"PluginDir={plugins}\n" if plugins else "",
            node_timeout_s=self.node_timeout_s,
            nodes="\n".join(lines),
            count=len(self.nodes),
        )


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def private_slurm(home: Path, programs: Programs, nodes: int = 2) -> Iterator[PrivateSlurm]:
    slurm = PrivateSlurm(home, programs, nodes)
    try:
        slurm.up()
        yield slurm
    finally:
        slurm.down()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("fetch", "up", "down"))
    parser.add_argument("home", type=Path, nargs="?", help="of the private Slurm")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=1, help="per node")
    given = parser.parse_args()
    found = fetch()
    if isinstance(found, str):
        print(f"no Slurm for the tests of the cluster ({found}); this enables them: {COMMAND}")
        return 0 if given.action == "fetch" else 1
    if given.action == "fetch":
        print(f"Slurm for the tests of the cluster: {found.path('slurmctld')}")
        return 0
    if given.home is None:
        parser.error(f"{given.action} needs a directory")
    slurm = PrivateSlurm(given.home, found, given.nodes, given.cpus)
    if given.action == "down":
        slurm.down()
        return 0
    slurm.up()
    print(f"export SLURM_CONF={slurm.environment['SLURM_CONF']} PATH={slurm.environment['PATH']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
