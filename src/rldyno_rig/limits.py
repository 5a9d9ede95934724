"""The `limits` job: what the environments and the accelerator of this machine can do at best.

Reads limits.json and writes limits_found.json. A figure that cannot be taken is null, with a reason.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

from rldyno_rig import envs

JOB_FILE = "limits.json"
FOUND_FILE = "limits_found.json"

SECONDS = 0.3
MATRICES = (2048, 4096, 8192)
COPY_BYTES = 2**28
CALLS = 10
VARIED = 256


def find(directory: Path) -> int:
    job = json.loads((directory / JOB_FILE).read_text(encoding="utf-8"))
    if job["what"] == "environments":
        found: Any = [environment_rate(asked) for asked in job["environments"]]
    else:
        found = {"torch": torch_limits, "jax": jax_limits}[job["framework"]]()
    (directory / FOUND_FILE).write_text(json.dumps(found), encoding="utf-8")
    return 0


def environment_rate(asked: Dict[str, Any]) -> Dict[str, Any]:
    """Environment steps per second of `environments` side by side under random actions, without an agent."""
    environment = envs.make(asked["environment"], asked["environments"], 0, asked["max_episode_steps"])
    rng = np.random.default_rng(0)
    actions = rng.integers(0, environment.actions, (VARIED, asked["environments"]))
    environment.reset()
    best = 0.0
    for _ in range(3):
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS / 3:
            for row in actions:
                environment.step(row)
            steps += actions.size
        best = max(best, steps / (time.perf_counter() - started))
    return dict(asked, steps_per_s=best)


def best_rate(amount: float, call: Callable[[], Any], wait: Callable[[], Any]) -> float:
    """`amount` per call over the shortest of some runs of CALLS calls; the device is waited for."""
    call()
    wait()
    times: List[float] = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        wait()
        times.append(time.perf_counter() - started)
    return amount * CALLS / min(times)


def torch_limits() -> Dict[str, Any]:
    import torch

    device, wait = torch.device("cuda"), torch.cuda.synchronize
    flops = {}
    for dtype, precise, allowed in (
        ("float32", torch.float32, False),
        ("tf32", torch.float32, True),
        ("float64", torch.float64, False),
    ):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        rates = []
        for n in MATRICES:
            a, b = (torch.randn(n, n, device=device, dtype=precise) for _ in range(2))
            out = torch.empty_like(a)
            rates.append(best_rate(2.0 * n**3, lambda a=a, b=b, out=out: torch.matmul(a, b, out=out), wait))
        flops[dtype] = max(rates)
    source, target = (torch.zeros(COPY_BYTES, dtype=torch.uint8, device=device) for _ in range(2))
    host = torch.zeros(COPY_BYTES, dtype=torch.uint8).pin_memory()
    return {
        "name": torch.cuda.get_device_name(0),
        "flops_per_s": flops,
        "copy_bytes_per_s": best_rate(2.0 * COPY_BYTES, lambda: target.copy_(source), wait),
        "transfer_bytes_per_s": best_rate(
            float(COPY_BYTES), lambda: target.copy_(host, non_blocking=True), wait
        ),
        "reasons": {},
    }


def jax_limits() -> Dict[str, Any]:
    import jax
    import jax.numpy as jnp

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
        product = jax.jit(lambda a, b, precision=precision: jnp.matmul(a, b, precision=precision))
        rates = []
        for n in MATRICES:
            a, b = (jax.random.normal(jax.random.PRNGKey(i), (n, n)) for i in range(2))
            rates.append(
                best_rate(2.0 * n**3, keeping(lambda a=a, b=b, product=product: product(a, b)), wait)
            )
        flops[dtype] = max(rates)
    source = jax.device_put(np.zeros(COPY_BYTES // 4, np.float32), device)
    shift = jax.jit(lambda x: x + 1)
    copied = best_rate(2.0 * COPY_BYTES, keeping(lambda: shift(source)), wait)
    reasons = {"flops_per_s.float64": "JAX was asked for single precision only"}
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
