"""trial.json: everything that a trial needs. The lab writes it, the trial runner and the worker read it.

Unknown keys, of newer versions, are ignored. Missing optional keys, of older versions, get their defaults.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, FrozenSet, Mapping, Optional

from rldyno_rig import schema
from rldyno_rig.contestant import Contestant
from rldyno_rig.envs.atari_rules import AtariRules
from rldyno_rig.guest.file import Guest

Json = Dict[str, Any]


@dataclass(frozen=True)
class Budget:
    """What ends a trial, whichever comes first; None is no limit."""

    steps: Optional[int] = None
    """Environment steps."""
    episodes: Optional[int] = None
    wall_s: Optional[float] = None
    """Seconds of the training loop."""
    stop_return: Optional[float] = None
    """Mean return of the last `stop_episodes` episodes at which training stops."""
    stop_episodes: Optional[int] = None
    stop_ends: bool = True
    """False: that return is noted as the threshold, and training goes on."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Budget:
        return Budget(**_known(Budget, values))

    def to_json(self) -> Json:
        """Without `stop_ends` where it is true: ids of trials are those of versions without it."""
        return {name: value for name, value in asdict(self).items() if name != "stop_ends" or not value}


@dataclass(frozen=True)
class Conditions:
    """What the lab knows of the machine before the trial starts. A trial runs without it, too."""

    host: Optional[str] = None
    """The machine on which the run began (`host_sha256` of the manifest)."""
    idle_cpu_percent: Optional[float] = None
    """CPU use of that machine before the first trial; None when it was not measured."""
    best_calibration_ns: Mapping[str, int] = field(default_factory=dict)
    """Machine → shortest calibration of the trials that ended earlier in this run."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> Conditions:
        return Conditions(**_known(Conditions, values))

    def to_json(self) -> Json:
        return {
            "host": self.host,
            "idle_cpu_percent": self.idle_cpu_percent,
            "best_calibration_ns": dict(self.best_calibration_ns),
        }


@dataclass(frozen=True)
class TrialFile:
    """The content of trial.json."""

    trial: str
    """Id of the trial: the name of its directory."""
    contestant: Contestant
    algorithm: str
    environment: str
    seed: int
    hyper: Mapping[str, Any]
    """Complete hyper-parameters as JSON; `Algorithm.hyper_from_json` gives the typed form."""
    budget: Budget
    backend: str = ""
    """Module in `rldyno_rig.backends`, of the contestant's toolchain; without it `<framework>_`."""
    max_episode_steps: Optional[int] = None
    """None leaves the environment's own limit."""
    atari: Optional[AtariRules] = None
    """None where the environment is no `ALE/…-v5`, or was recorded before there were rules."""
    guest: Optional[Guest] = None
    """The script that runs in place of a backend, of contestants such as `script:train.py`."""
    device: str = "cpu"
    cores: int = 1
    workers: int = 1
    collective: str = "none"
    """How several workers average their gradients: native, horovod or host. "none" for one worker."""
    scaling: str = "weak"
    """"weak": every worker keeps its batch; "strong": they divide it."""
    share_gpu: bool = False
    """Several workers may use one GPU."""
    dtype: str = "float32"
    division: str = "closed"
    caches: Optional[str] = None
    """"cold": the trial starts with empty caches of its own; "warm": with those that an earlier, unmeasured
    start of the same contestant has filled. None: unknown, recorded before this was controlled."""
    block: int = 0
    """Position of the seed in the study: trials of one block run together."""
    hang_timeout_s: float = 300.0
    """A worker without progress for so long is ended."""
    sample_hz: float = 20.0
    """Readings of the probe per second."""
    interpreter: Optional[str] = None
    """Python of the toolchain; None when there is none, and the trial cannot run."""
    mpiexec: Optional[str] = None
    """What starts the workers of a team that meet through MPI; None: they are started one by one."""
    isolated: bool = False
    """Start the interpreter without PYTHONPATH and the user's packages."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the worker. `{caches}` in a value stands for the directory of its caches."""
    conditions: Conditions = Conditions()

    def __post_init__(self) -> None:
        if not self.backend:
            object.__setattr__(self, "backend", self.contestant.family + "_")

    @property
    def cpus(self) -> int:
        """That the trial needs: each worker has `cores` of its own."""
        return self.workers * self.cores

    @property
    def by_mpi(self) -> bool:
        """Whether its workers meet through MPI: by the framework's own collective, or by `host`."""
        return self.mpiexec is not None

    @property
    def framework(self) -> str:
        return self.contestant.framework

    @property
    def mode(self) -> str:
        return self.contestant.mode

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> TrialFile:
        known = _known(TrialFile, values)
        known["contestant"] = Contestant.parse(values["contestant"])
        known["budget"] = Budget.from_json(values["budget"])
        known["atari"] = AtariRules.from_json(values["atari"]) if values.get("atari") else None
        known["guest"] = Guest.from_json(values["guest"]) if values.get("guest") else None
        known["conditions"] = Conditions.from_json(values.get("conditions") or {})
        return TrialFile(**known)

    def to_json(self) -> Json:
        """With `framework` and `mode`, for people and tools that read the file."""
        return {
            "schema": schema.SCHEMA_VERSION,
            "trial": self.trial,
            "contestant": str(self.contestant),
            "framework": self.framework,
            "mode": self.mode,
            "backend": self.backend,
            "algorithm": self.algorithm,
            "environment": self.environment,
            "max_episode_steps": self.max_episode_steps,
            "atari": self.atari.to_json() if self.atari else None,
            "guest": self.guest.to_json() if self.guest else None,
            "device": self.device,
            "cores": self.cores,
            "workers": self.workers,
            "collective": self.collective,
            "scaling": self.scaling,
            "share_gpu": self.share_gpu,
            "dtype": self.dtype,
            "division": self.division,
            "caches": self.caches,
            "seed": self.seed,
            "block": self.block,
            "hyper": dict(self.hyper),
            "budget": self.budget.to_json(),
            "hang_timeout_s": self.hang_timeout_s,
            "sample_hz": self.sample_hz,
            "interpreter": self.interpreter,
            "mpiexec": self.mpiexec,
            "isolated": self.isolated,
            "variables": dict(self.variables),
            "conditions": self.conditions.to_json(),
        }

    @staticmethod
    def read(directory: Path) -> TrialFile:
        """From a trial's directory. Raises OSError or ValueError when the file is missing or damaged."""
        text = (directory / schema.TRIAL_FILE).read_text(encoding="utf-8")
        return TrialFile.from_json(json.loads(text))


def _known(kind: Any, values: Mapping[str, Any]) -> Json:
    """The values that the dataclass has a field for."""
    names = _names(kind)
    return {name: value for name, value in values.items() if name in names}


@lru_cache(maxsize=None)
def _names(kind: Any) -> FrozenSet[str]:
    return frozenset(entry.name for entry in fields(kind))
