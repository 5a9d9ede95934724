"""Limits of a GPU through PyTorch."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict

import torch

from rldyno_rig.limits.rate import COPY_BYTES, MATRICES, best_rate


def find() -> Dict[str, Any]:
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
            rates.append(best_rate(2.0 * n**3, partial(torch.matmul, a, b, out=out), wait))
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
