"""The least time one call of a network can take: its arithmetic and its bytes over what the machine can do.

    floor = max(FLOPs / peak, bytes read and written / copy bandwidth, bytes from host / transfer bandwidth)

docs/measuring.md says what is counted. Nothing here measures or launches.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rldyno.records.machine_limits import DeviceLimits
from rldyno_rig.algorithms import LEARNERS, synthetic_batch
from rldyno_rig.spec import ADAM, Network, Spec, convolution_outputs, parameter_shapes

ACT, UPDATE = "act", "update"
ARITHMETIC, MEMORY, TRANSFER = "arithmetic", "memory", "transfer"
ITEM_BYTES = {"float32": 4, "tf32": 4, "float64": 8}
OBSERVATION_BYTES = {"uint8": 1, "float32": 4, "float64": 8}


class Floor(NamedTuple):
    seconds: float
    bound: str
    """What sets it: arithmetic, memory or transfer."""


def floor(
    spec: Spec,
    rows: int,
    limits: DeviceLimits,
    dtype: str = "float32",
    measure: str = UPDATE,
    copied: bool = True,
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
    return LEARNERS[spec.algorithm].target_passes(spec.hyper)


def memory_bytes(spec: Spec, rows: int, dtype: str, measure: str) -> int:
    """Weights are read; an update writes them, reads and writes Adam's moments, and reads target weights."""
    weights = sum(math.prod(shape) for shape in parameter_shapes(spec.network).values()) * ITEM_BYTES[dtype]
    moved = weights
    if measure == UPDATE:
        moments = 2 if spec.optimiser == ADAM else 0
        targets = 1 if target_passes(spec) else 0
        moved = weights * (2 + 2 * moments + targets)
    return moved + batch_bytes(spec, rows, dtype, measure)


def batch_bytes(spec: Spec, rows: int, dtype: str, measure: str) -> int:
    """Of what one call is given; actions are counted as large as the other numbers.

    A batch grows by the same bytes with every row. What does not grow is noise.
    """
    network = spec.network
    if measure == ACT:
        return rows * math.prod(network.observation_shape) * OBSERVATION_BYTES[network.observation_dtype]
    one, two = (_synthetic_bytes(spec, count, ITEM_BYTES[dtype]) for count in (1, 2))
    return one + (rows - 1) * (two - one)


def _synthetic_bytes(spec: Spec, rows: int, item_bytes: int) -> int:
    batch = synthetic_batch(
        spec, np.random.default_rng(0), f"float{8 * item_bytes}", f"int{8 * item_bytes}", rows
    )
    return sum(array.nbytes for array in batch)
