"""What is measured: networks, batch sizes, where the data lies; and the job a worker gets for it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rldyno.errors import Problem
from rldyno.limits.floor import ITEM_BYTES, batch_bytes
from rldyno.toolchains.catalogue import toolchain
from rldyno_rig import hyper
from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.contestant import Contestant
from rldyno_rig.job_files import TimingJob
from rldyno_rig.spec import Spec, parameter_shapes

Json = dict[str, Any]

ACT, UPDATE = "act", "update"
UPDATES = "updates"
"""Per update, when a loop makes several at once."""
CLASSIFIER = "classifier"

PAGEABLE, PINNED, RESIDENT = "pageable", "pinned", "resident"
COPIES = (PAGEABLE, PINNED, RESIDENT)
"""Where the data lies before a call. The first two include the copy in the time, the last excludes it."""

PAPER_CALLS = {ACT: 4000, UPDATE: 500}
"""stooke2017 times this many calls of each kind, with these rows:"""
PAPER_ROWS = {ACT: 16, UPDATE: 128}


@dataclass(frozen=True)
class Net:
    name: str
    observation: tuple[int, ...]
    outputs: int
    convolutions: hyper.Convolutions
    hidden: tuple[int, ...]
    activation: str = "relu"

    @staticmethod
    def from_json(raw: Json) -> Net:
        layers = tuple((filters, kernel, stride) for filters, kernel, stride in raw["convolutions"])
        shape = raw["name"], tuple(raw["observation"]), raw["outputs"], layers, tuple(raw["hidden"])
        return Net(*shape, raw.get("activation", "relu"))


IMAGES = (4, 84, 84)
NETS = {
    "small": Net("small", IMAGES, 10, hyper.CNN_SMALL, (512,)),
    "large": Net("large", IMAGES, 10, hyper.CNN_LARGE, (512,)),
}


def net_named(name: str) -> Net:
    """`small` and `large` are stooke2017's; `mlpN` is the 4 → N → N → 2 of CartPole."""
    if name in NETS:
        return NETS[name]
    found = re.fullmatch(r"mlp([1-9][0-9]{0,4})", name)
    if not found:
        raise Problem(f"unknown network `{name}`", fix="choose from: small, large, mlp64, mlp128, … mlpN")
    width = int(found.group(1))
    return Net(name, (4,), 2, (), (width, width))


@dataclass(frozen=True)
class Benchmark:
    """One run of the micro-benchmark."""

    contestants: tuple[str, ...]
    nets: tuple[Net, ...]
    algorithm: str = CLASSIFIER
    device: str = "cpu"
    cores: int = 1
    dtype: str = "float32"
    act_rows: tuple[int, ...] = (PAPER_ROWS[ACT],)
    update_rows: tuple[int, ...] = (PAPER_ROWS[UPDATE],)
    copies: tuple[str, ...] = (PAGEABLE,)
    rounds: int = 5
    seconds: float = 0.5
    together: int = 1
    """Updates at once, for `updates`; 1: that is not measured."""

    @property
    def calls(self) -> tuple[tuple[str, int, str], ...]:
        """(measure, rows, data) of every figure of a network."""
        measures = [(ACT, self.act_rows), (UPDATE, self.update_rows)]
        if self.together > 1:
            measures.append((UPDATES, self.update_rows))
        return tuple(
            (measure, rows, data) for measure, sizes in measures for rows in sizes for data in self.copies
        )

    def to_json(self) -> Json:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Benchmark:
        """Records of earlier versions may hold fewer fields."""
        names = {field.name for field in fields(Benchmark)} & raw.keys()
        given: Json = {name: tuple(raw[name]) if isinstance(raw[name], list) else raw[name] for name in names}
        nets = tuple(Net.from_json(net) for net in raw["nets"])
        given |= {"contestants": tuple(raw.get("contestants") or ()), "nets": nets}
        return Benchmark(**given)


def spec_of(algorithm: str, net: Net) -> Spec:
    """What is computed. Images are bytes for an agent, float32 for the classifier."""
    learner = LEARNERS[algorithm]
    values = learner.hyper(convolutions=net.convolutions, hidden=net.hidden, activation=net.activation)
    observation_dtype = learner.image_dtype if net.convolutions else "float32"
    return learner.spec(values, net.observation, observation_dtype, net.outputs)


def least_bytes(benchmark: Benchmark, net: Net) -> int:
    """What one worker holds at least: weights, gradients and its largest batches."""
    spec = spec_of(benchmark.algorithm, net)
    weights = sum(math.prod(shape) for shape in parameter_shapes(spec.network).values())
    batches = {ACT: max(benchmark.act_rows), UPDATE: max(benchmark.update_rows)}
    held = sum(batch_bytes(spec, rows, benchmark.dtype, measure) for measure, rows in batches.items())
    return 2 * weights * ITEM_BYTES[benchmark.dtype] + held


def time_job(benchmark: Benchmark, contestant: str, net: Net) -> TimingJob:
    named = Contestant.parse(contestant)
    spec = spec_of(benchmark.algorithm, net)
    return TimingJob(
        backend=toolchain(named.framework).backend,
        mode=named.mode,
        device=benchmark.device,
        dtype=benchmark.dtype,
        algorithm=benchmark.algorithm,
        hyper=asdict(spec.hyper),
        observation=net.observation,
        observation_dtype=spec.network.observation_dtype,
        actions=net.outputs,
        act_rows=benchmark.act_rows,
        update_rows=benchmark.update_rows,
        together=benchmark.together,
    )
