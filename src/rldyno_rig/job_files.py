"""What the lab writes for a job of the rig, beside trials: one type per job, to and from JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

from rldyno_rig.envs.atari_rules import is_preprocessed
from rldyno_rig.hyper import tuples
from rldyno_rig.shape import Shape

PROOF_FILE = "job.json"
TIMING_FILE = "time.json"
LIMITS_FILE = "limits.json"
USABILITY_FILE = "usability.json"
ENVIRONMENTS_FILE = "environments.json"


@dataclass(frozen=True)
class ProofSubject:
    """What one proof is about."""

    algorithm: str
    network: str
    """mlp or cnn."""
    shape: Optional[Shape] = None
    """Of a study; None: small forms, in which every branch of the loss is proven."""
    collective: Optional[str] = None
    """Of a team, whose averages are proven; None: a worker alone."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> ProofSubject:
        shape = values["shape"]
        given = None if shape is None else Shape.from_json(shape)
        return ProofSubject(values["algorithm"], values["network"], given, values["collective"])

    def to_json(self) -> Dict[str, Any]:
        return {**vars(self), "shape": None if self.shape is None else self.shape.to_json()}


@dataclass(frozen=True)
class ProofJob:
    """What `prove` or, of a team, `prove-team` shows of one contestant on one device."""

    backend: str
    """Module of `rldyno_rig.backends`."""
    mode: str
    device: str
    dtypes: Tuple[str, ...]
    subjects: Tuple[ProofSubject, ...]
    rungs: Tuple[str, ...] = ()
    """Only these; empty for all of them."""
    workers: int = 1

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> ProofJob:
        subjects = tuple(map(ProofSubject.from_json, values["subjects"]))
        return ProofJob(**{**_known(ProofJob, values), "subjects": subjects})

    def to_json(self) -> Dict[str, Any]:
        return {**asdict(self), "subjects": [subject.to_json() for subject in self.subjects]}


@dataclass(frozen=True)
class TimingJob:
    """The learner that `time` measures, and the numbers of rows it is warmed up with."""

    backend: str
    """Module of `rldyno_rig.backends`."""
    mode: str
    device: str
    dtype: str
    algorithm: str
    hyper: Mapping[str, Any]
    observation: Tuple[int, ...]
    """Shape of one."""
    observation_dtype: str
    actions: int
    act_rows: Tuple[int, ...]
    update_rows: Tuple[int, ...]
    together: int = 1
    """Updates that the measure `updates` makes at once."""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> TimingJob:
        return TimingJob(**_known(TimingJob, values))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class EnvironmentCase:
    """Environments that are stepped side by side in one process."""

    environment: str
    environments: int = 1
    max_episode_steps: Optional[int] = None
    cores: int = 1
    """On which they are stepped: more than one only where an environment uses several."""

    @staticmethod
    def of(
        environment: str, environments: int, max_episode_steps: Optional[int], cores: int
    ) -> EnvironmentCase:
        """Of a trial with so many cores."""
        used = cores if is_preprocessed(environment) else 1
        return EnvironmentCase(environment, environments, max_episode_steps, used)

    @property
    def key(self) -> str:
        cores = "" if self.cores == 1 else " on {} cores".format(self.cores)
        return "{} x{} limit {}{}".format(self.environment, self.environments, self.max_episode_steps, cores)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> EnvironmentCase:
        """Without cores in records of before."""
        return EnvironmentCase(**_known(EnvironmentCase, {"cores": 1, **values}))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class EnvironmentsJob:
    """What `environments` tries to make."""

    names: Tuple[str, ...]

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> EnvironmentsJob:
        return EnvironmentsJob(**_known(EnvironmentsJob, values))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class EnvironmentFacts:
    """What `environments` found of one."""

    name: str
    error: Optional[str] = None
    """Why it cannot be made; None when it can."""
    observation_shape: Tuple[int, ...] = ()
    observation_dtype: str = ""
    actions: int = 0

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> EnvironmentFacts:
        return EnvironmentFacts(**_known(EnvironmentFacts, values))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class LimitsJob:
    """What `limits` measures: the environments without an agent or, without any, the GPU."""

    backend: str
    """Module of `rldyno_rig.limits` that measures the GPU."""
    environments: Tuple[EnvironmentCase, ...] = ()

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> LimitsJob:
        return LimitsJob(values["backend"], tuple(map(EnvironmentCase.from_json, values["environments"])))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class UsabilityJob:
    """One part of what `usability` tries; a part uses only some of the fields."""

    backend: str
    """Module of `rldyno_rig.backends` and of `rldyno_rig.usability`."""
    part: str
    """One of those that `rldyno_rig.usability.job` lists."""
    mode: str = ""
    network: str = ""
    export: str = ""
    """A name in the module's EXPORTS."""
    paths: Tuple[str, ...] = ()
    """Where packages are that only this part needs."""
    loader: str = ""
    """A name in the module's BATCHES."""
    server: int = 0
    """Process group of a TensorBoard that watches; 0 without one."""
    runtime: str = ""
    """The module that runs what was exported."""
    program: str = ""
    """It reads what was exported, and defines `answer(obs)`."""
    workers: int = 1
    collective: str = ""

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> UsabilityJob:
        return UsabilityJob(**_known(UsabilityJob, values))

    def to_json(self) -> Dict[str, Any]:
        return asdict(self)


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _known(kind: Any, values: Mapping[str, Any]) -> Dict[str, Any]:
    """The values that the dataclass has a field for; lists as tuples."""
    return {entry.name: tuples(values[entry.name]) for entry in fields(kind)}
