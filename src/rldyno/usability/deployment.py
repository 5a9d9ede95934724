"""Deployment: an exported policy answers requests for actions in a fresh process, without the backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import Toolchain, toolchain
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno.usability.beside import beside
from rldyno.usability.data import snippet_lines
from rldyno.usability.exports import RUNTIME, TOLERANCE
from rldyno.usability.frameworks import Export
from rldyno.usability.process import first_mode, rig
from rldyno_rig.hyper import NETWORKS
from rldyno_rig.job_files import UsabilityJob

Json = dict[str, Any]
ONNX_PROGRAM = """
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
(wanted,) = session.get_inputs()
kind = {"tensor(float)": np.float32, "tensor(double)": np.float64}.get(wanted.type)


def answer(obs):
    return session.run(None, {wanted.name: obs if kind is None else obs.astype(kind)})[0]
"""


def measure(name: str, path: Export, interpreter: Interpreter, chain: Toolchain, directory: Path) -> Json:
    """Size, times and latency for every network, or what went wrong first."""
    found: Json = {
        "title": path.title,
        "runtime": chain.import_name if path.serve else RUNTIME,
        "lines": snippet_lines(path.serve or ONNX_PROGRAM),
        "works": False,
        "reason": None,
    }
    try:
        extra = (str(beside(interpreter, path.packages)),) if path.packages else ()
        served_in = (interpreter, chain) if path.serve else (ensure([RUNTIME])[RUNTIME], toolchain(RUNTIME))
    except Problem as problem:
        why = f"{problem.message}: {(problem.detail or '').strip()}"
        return {**found, "reason": why, "passing": True}
    networks = {}
    for network in NETWORKS:
        home = directory / network
        home.mkdir()
        networks[network] = _serve(name, path, (interpreter, chain), served_in, network, extra, home)
    reason = next(filter(None, map(failure, networks.values())), None)
    return {**found, "works": reason is None, "reason": reason, "networks": networks}


def _serve(
    name: str,
    path: Export,
    made_in: tuple[Interpreter, Toolchain],
    served_in: tuple[Interpreter, Toolchain],
    network: str,
    extra: tuple[str, ...],
    directory: Path,
) -> Json:
    interpreter, chain = made_in
    mode = first_mode(chain)
    job = UsabilityJob(chain.backend, "export_policy", mode, network, name, extra)
    made = rig(interpreter, chain, job, directory)
    if made["error"]:
        return {"error": f"not exported: {made['error']}"}
    runtime = served_in[1].import_name
    program = path.serve or ONNX_PROGRAM
    paths = extra if path.serve else ()
    job = UsabilityJob(chain.backend, "serve", mode, network, name, paths, runtime=runtime, program=program)
    return rig(*served_in, job, directory)


def failure(answer: Json) -> str | None:
    if answer["error"]:
        return str(answer["error"])
    if answer["backend_modules"]:
        return f"it needs code of the backend: {', '.join(answer['backend_modules'])}"
    if not answer["difference"] <= TOLERANCE:
        return f"answers differ by {answer['difference']:.1e}, more than {TOLERANCE:.0e}"
    return None
