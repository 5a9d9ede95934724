"""The least time one call of a network can take: its arithmetic and its bytes over what the machine can do.

    floor = max(FLOPs / peak, bytes read and written / copy bandwidth, bytes from host / transfer bandwidth)

docs/measuring.md says what is counted. Nothing here measures or launches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rldyno_rig.hyper import Dqn
from rldyno_rig.spec import Network, Spec, convolution_outputs, noise_size, parameter_shapes

Json = dict[str, Any]

ACT, UPDATE = "act", "update"
ARITHMETIC, MEMORY, TRANSFER = "arithmetic", "memory", "transfer"
ITEM_BYTES = {"float32": 4, "tf32": 4, "float64": 8}
OBSERVATION_BYTES = {"uint8": 1, "float32": 4, "float64": 8}
# Numbers per row of a batch, beside observations.
SCALARS = {"classifier": 1, "dqn": 3, "rainbow": 4, "a2c": 3, "ppo": 5}


@dataclass(frozen=True)
class Limits:
    """Of one device with so many CPU cores. None is not measured."""

    device: str
    cores: int
    flops_per_s: Mapping[str, float]
    """dtype → peak of a matrix product; a multiply-add counts two."""
    copy_bytes_per_s: float | None
    """Memory of the device, bytes read plus bytes written."""
    transfer_bytes_per_s: float | None
    """Page-locked host memory to the device; None on a CPU."""

    @staticmethod
    def from_json(raw: Json) -> Limits:
        return Limits(
            device=raw["device"],
            cores=raw["cores"],
            flops_per_s={dtype: rate for dtype, rate in raw["flops_per_s"].items() if rate is not None},
            copy_bytes_per_s=raw["copy_bytes_per_s"],
            transfer_bytes_per_s=raw["transfer_bytes_per_s"],
        )


class Floor(NamedTuple):
    seconds: float
    bound: str
    """What sets it: arithmetic, memory or transfer."""


def floor(
    spec: Spec, rows: int, limits: Limits, dtype: str = "float32", measure: str = UPDATE, copied: bool = True
) -> Floor | None:
    """Of one call on `rows` rows; None where the peak or the bandwidth was not measured.

    `copied`: the call includes bringing its data to the device.
    """
    peak = limits.flops_per_s.get(dtype)
    if peak is None or limits.copy_bytes_per_s is None:
        return None
    bounds = {
        ARITHMETIC: flops(spec, rows, measure) / peak,
        MEMORY: memory_bytes(spec, rows, dtype, measure) / limits.copy_bytes_per_s,
    }
    if copied and limits.device != "cpu":
        if limits.transfer_bytes_per_s is None:
            return None
        bounds[TRANSFER] = batch_bytes(spec, rows, dtype, measure) / limits.transfer_bytes_per_s
    bound = max(bounds, key=bounds.__getitem__)
    return Floor(bounds[bound], bound)


def flops(spec: Spec, rows: int, measure: str) -> int:
    """Multiply-adds of convolutions and dense layers, two FLOPs each.

    A training step computes them three times (output, gradient of weights, gradient of inputs), but the
    first layer's input needs no gradient. Targets add forward passes.
    """
    counts = multiply_adds(spec.network)
    forward = sum(counts.values())
    if measure == ACT:
        return 2 * rows * forward
    first = sum(count for layer, count in counts.items() if reads_input(spec.network, layer))
    return 2 * rows * ((3 + target_passes(spec)) * forward - first)


def multiply_adds(network: Network) -> dict[str, int]:
    """Layer → multiply-adds for one row."""
    planes = [height * width for _, height, width in convolution_outputs(network)]
    counts = {}
    for name, shape in parameter_shapes(network).items():
        layer, _, kind = name.rpartition(".")
        if kind == "w":
            index = layer.rpartition(".conv")[2] if ".conv" in layer else None
            counts[layer] = math.prod(shape) * (1 if index is None else planes[int(index)])
    return counts


def reads_input(network: Network, layer: str) -> bool:
    if network.convolutions:
        return layer.endswith(".conv0")
    return layer.endswith(".dense0") if network.hidden else True


def target_passes(spec: Spec) -> int:
    """Forward passes of an update over the next observations."""
    if spec.algorithm == "rainbow":
        return 2
    if isinstance(spec.hyper, Dqn):
        return 2 if spec.hyper.double else 1
    return 0


def memory_bytes(spec: Spec, rows: int, dtype: str, measure: str) -> int:
    """Weights are read; an update writes them, reads and writes Adam's moments, and reads target weights."""
    weights = sum(math.prod(shape) for shape in parameter_shapes(spec.network).values()) * ITEM_BYTES[dtype]
    moved = weights
    if measure == UPDATE:
        moments = 2 if spec.optimiser == "adam" else 0
        targets = 1 if spec.algorithm in ("dqn", "rainbow") else 0
        moved = weights * (2 + 2 * moments + targets)
    return moved + batch_bytes(spec, rows, dtype, measure)


def batch_bytes(spec: Spec, rows: int, dtype: str, measure: str) -> int:
    """Of what one call is given."""
    network = spec.network
    observations = rows * math.prod(network.observation_shape) * OBSERVATION_BYTES[network.observation_dtype]
    if measure == ACT:
        return observations
    twice = 2 if spec.algorithm in ("dqn", "rainbow") else 1
    noise = 3 * noise_size(network)
    return twice * observations + (rows * SCALARS[spec.algorithm] + noise) * ITEM_BYTES[dtype]
