"""What is asked: which figure of which framework, and how sure the answer must be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rldyno.nets.work import ACT, UPDATE, UPDATES, Benchmark, net_named
from rldyno_rig.contestant import RELEASE_SIGN, Contestant

Json = dict[str, Any]

STARTUP = "startup"
METRICS = {
    UPDATE: "one update",
    UPDATES: "one of several updates in a call",
    ACT: "one act",
    STARTUP: "start-up",
}
ROWS = {UPDATE: 64, UPDATES: 64, ACT: 1, STARTUP: 64}
TOGETHER = 8
"""Updates at once, for `updates`."""


@dataclass(frozen=True)
class Question:
    framework: str
    mode: str
    metric: str = UPDATE
    algorithm: str = "dqn"
    net: str = "mlp64"
    rows: int = 64
    device: str = "cpu"
    cores: int = 1
    dtype: str = "float32"
    threshold: float = 0.05
    """Smaller changes do not count."""
    error: float = 0.05
    """Chance, over all comparisons together, that a change is reported where there is none."""
    most_rounds: int = 40
    """Of one comparison."""
    seconds: float = 0.2
    """Length of one measurement."""

    def contestant(self, release: str) -> str:
        return str(Contestant(f"{self.framework}{RELEASE_SIGN}{release}", self.mode))

    def benchmark(self) -> Benchmark:
        """Of one worker: what it is warmed up for."""
        act_rows = self.rows if self.metric == ACT else 1
        update_rows = self.rows if self.metric != ACT else ROWS[UPDATE]
        return Benchmark(
            contestants=(),
            nets=(net_named(self.net),),
            algorithm=self.algorithm,
            device=self.device,
            cores=self.cores,
            dtype=self.dtype,
            act_rows=(act_rows,),
            update_rows=(update_rows,),
            seconds=self.seconds,
            together=TOGETHER if self.metric == UPDATES else 1,
        )

    def error_of_each(self, releases: int) -> float:
        """So that all comparisons of so many releases together have the error that was asked for."""
        return self.error / (2 + math.ceil(math.log2(max(2, releases))))

    def to_json(self) -> Json:
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Question:
        return Question(**{field.name: raw[field.name] for field in fields(Question) if field.name in raw})
