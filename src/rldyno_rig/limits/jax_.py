"""Limits of a GPU through JAX."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Dict, List

import jax
import jax.numpy as jnp
import numpy as np

from rldyno_rig.limits.rate import COPY_BYTES, MATRICES, best_rate


def find() -> Dict[str, Any]:
    device = jax.devices("gpu")[0]
    last: List[Any] = [None]

    def keeping(call: Callable[[], Any]) -> Callable[[], None]:
        def kept() -> None:
            last[0] = call()

        return kept

    def wait() -> None:
        last[0].block_until_ready()

    flops = {}
    for dtype, precision in (("float32", "highest"), ("tf32", "tensorfloat32")):
        product = jax.jit(partial(jnp.matmul, precision=precision))
        rates = []
        for n in MATRICES:
            a, b = (jax.random.normal(jax.random.PRNGKey(i), (n, n)) for i in range(2))
            rates.append(best_rate(2.0 * n**3, keeping(partial(product, a, b)), wait))
        flops[dtype] = max(rates)
    source = jax.device_put(np.zeros(COPY_BYTES // 4, np.float32), device)
    shift = jax.jit(lambda x: x + 1)
    copied = best_rate(2.0 * COPY_BYTES, keeping(lambda: shift(source)), wait)
    reasons = {"flops_per_s.float64": "JAX was started in single precision"}
    transferred = None
    try:
        from jax.sharding import SingleDeviceSharding

        home, there = (SingleDeviceSharding(device, memory_kind=kind) for kind in ("pinned_host", "device"))
        pinned = jax.device_put(source, home).block_until_ready()
        transferred = best_rate(float(COPY_BYTES), keeping(lambda: jax.device_put(pinned, there)), wait)
    except Exception as error:
        reasons["transfer_bytes_per_s"] = "no page-locked memory through JAX: {}".format(error)
    return {
        "name": device.device_kind,
        "flops_per_s": flops,
        "copy_bytes_per_s": copied,
        "transfer_bytes_per_s": transferred,
        "reasons": reasons,
    }
