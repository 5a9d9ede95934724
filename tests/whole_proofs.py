"""Whole proofs without climbing: every rung that a certificate must hold, with an error within its limit."""

from __future__ import annotations

from typing import Any

from rldyno_rig.job_files import ProofSubject
from rldyno_rig.proof.rung import Rung
from rldyno_rig.proof.standard import required
from rldyno_rig.shape import Shape

USUAL = {"float64": 4.1e-15, "float32": 2.1e-7, "tf32": 1e-3}


def whole_rungs(
    algorithm: str = "dqn",
    network: str = "mlp",
    device: str = "cpu",
    shape: Shape | None = None,
    many: bool = False,
    collective: str | None = None,
) -> tuple[Rung, ...]:
    return tuple(
        Rung(name, precision, 0.0 if limit == 0 else USUAL[precision], limit)
        for (precision, name), limit in required(
            ProofSubject(algorithm, network, shape, collective), device, many
        ).items()
    )


def whole_proof(
    algorithm: str = "dqn", network: str = "mlp", device: str = "cpu", shape: Shape | None = None
) -> dict[str, Any]:
    """As a rig process writes it."""
    rungs = [rung.to_json() for rung in whole_rungs(algorithm, network, device, shape)]
    return {"algorithm": algorithm, "network": network, "passed": True, "error": None, "rungs": rungs}
