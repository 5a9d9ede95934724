"""The `prove` job: climb the ladder for a list of specs inside a toolchain, leave the rungs as JSON."""

from __future__ import annotations

import dataclasses
import json
import platform
import traceback
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np

from rldyno_rig import hyper, identity
from rldyno_rig.loading import load_backend
from rldyno_rig.proof.ladder import GATE, climb, summary
from rldyno_rig.spec import Params, Spec, complete
from rldyno_rig.training import write_json

JOB_FILE = "job.json"
PROOFS_FILE = "proofs.json"
# Small enough to prove in seconds, and no two axes of the same length, so that a swapped one shows.
MLP_OBSERVATION, MLP_HIDDEN = (5,), (24, 16)
CNN_OBSERVATION, CNN_HIDDEN, CNN_CONVOLUTIONS = (3, 20, 18), (16,), ((6, 4, 2), (8, 3, 1))
# Adam's first step is lr · sign(g) for all but the tiniest gradients, so where rounding decides the sign the
# weights differ by as much as the learning rate: take the one that convolutional agents are trained with.
CNN_LEARNING_RATE = 2.5e-4
ACTIONS = 3
ROWS = 32


def prove(directory: Path) -> int:
    """Reads job.json: framework, mode, device, dtypes, subjects (algorithm, network); writes proofs.json."""
    job = json.loads((directory / JOB_FILE).read_text(encoding="utf-8"))
    backend = load_backend(job)
    report: Dict[str, Any] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        **identity.hashes(backend.__file__),
        "proofs": [],
    }
    for algorithm, network in job["subjects"]:
        report["proofs"].append(_prove(backend, job, algorithm, network))
        # Only now: a framework names the libraries of a GPU once it has used it.
        described = backend.facts()
        report.update(versions=described.pop("versions"), backend=described)
        write_json(directory / PROOFS_FILE, report)
    return 0


def _prove(backend: Any, job: Dict[str, Any], algorithm: str, network: str) -> Dict[str, Any]:
    proof: Dict[str, Any] = {"algorithm": algorithm, "network": network, "error": None, "not_judged": {}}
    rungs: List[Any] = []
    for dtype in job["dtypes"]:
        problem = _climb(backend, job, variants(algorithm, network), dtype, rungs)
        if problem and GATE[dtype] is None:
            proof["not_judged"][dtype] = problem
        elif problem:
            proof["error"] = problem
            break
    proof.update(summary(rungs))
    proof["passed"] = proof["passed"] and proof["error"] is None and bool(rungs)
    return proof


def _climb(
    backend: Any, job: Dict[str, Any], specs: List[Any], dtype: str, rungs: List[Any]
) -> Optional[str]:
    """Adds the rungs of one precision; what stopped the climb, if something did."""

    def make(spec: Spec, params: Params, dtype: str) -> Any:
        return backend.make(spec, params, job["mode"], job["device"], dtype)

    try:
        for variant, spec in specs:
            for rung in climb(spec, make, dtype, backend.INDEX_DTYPE, ROWS):
                # Infinity is not JSON; any error beyond the largest double is as wrong.
                error = min(rung.error, float(np.finfo(np.float64).max))
                rungs.append(rung._replace(rung=variant + rung.rung, error=error))
    except Exception as problem:
        traceback.print_exc()
        return "{}: {}".format(type(problem).__name__, str(problem).strip().split("\n")[0])
    return None


def variants(algorithm: str, network: str) -> List[Any]:
    """(label, spec) of each form of the algorithm that a study may ask for, with clipping that bites.

    Forms other than the plain one are climbed too, so that every branch of a backend's loss is proven.
    """
    base = hyper.LEARNERS[algorithm](hidden=CNN_HIDDEN if network == "cnn" else MLP_HIDDEN, max_grad_norm=0.1)
    changes: List[Any] = [("", {})]
    if algorithm == "dqn":
        changes.append(
            (
                "double dueling 3-step tanh: ",
                {"double": True, "dueling": True, "n_step": 3, "activation": "tanh"},
            )
        )
    if algorithm == "rainbow":
        base = dataclasses.replace(base, atoms=11, v_min=-3.0, v_max=4.0)
        changes.append(("unclipped tanh: ", {"max_grad_norm": 0.0, "activation": "tanh"}))
    if algorithm in ("a2c", "ppo"):
        base = dataclasses.replace(base, entropy_coefficient=0.02)
        changes.append(("shared tanh: ", {"shared": True, "activation": "tanh"}))
    if algorithm == "ppo":
        changes.append(("value clip: ", {"value_clip": True, "max_grad_norm": 0.0}))
    if network == "cnn":
        base = dataclasses.replace(base, convolutions=CNN_CONVOLUTIONS, learning_rate=CNN_LEARNING_RATE)
        changes = changes[:1]
    observation, kind = (CNN_OBSERVATION, "uint8") if network == "cnn" else (MLP_OBSERVATION, "float32")
    if algorithm == "classifier":
        kind = "float32"
        changes.append(("unclipped: ", {"max_grad_norm": 0.0}))
    return [
        (label, complete(algorithm, dataclasses.replace(base, **change), observation, kind, ACTIONS))
        for label, change in changes
    ]
