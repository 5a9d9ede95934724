"""The batch type of each algorithm, for backends that do not take it from `spec.batch` yet."""

from __future__ import annotations

from typing import Any, Type

from rldyno_rig.algorithms import LEARNERS
from rldyno_rig.algorithms.a2c import A2cBatch
from rldyno_rig.algorithms.classifier import ClassifierBatch
from rldyno_rig.algorithms.dqn import DqnBatch
from rldyno_rig.algorithms.ppo import PpoBatch
from rldyno_rig.algorithms.rainbow import RainbowBatch

__all__ = ["BATCHES", "A2cBatch", "ClassifierBatch", "DqnBatch", "PpoBatch", "RainbowBatch"]


class _Batches:
    def __getitem__(self, algorithm: str) -> Type[Any]:
        return LEARNERS[algorithm].batch


BATCHES = _Batches()
