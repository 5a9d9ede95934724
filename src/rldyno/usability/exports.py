"""Export paths, taken for real: a network is exported, read back, and its outputs held against the backend's.

ONNX files run in a toolchain of their own, onnxruntime's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rldyno.errors import Problem
from rldyno.toolchains.catalogue import Toolchain, toolchain
from rldyno.toolchains.resolve import Interpreter, ensure
from rldyno.usability.beside import beside
from rldyno.usability.frameworks import Export
from rldyno.usability.process import first_mode, rig
from rldyno_rig.hyper import NETWORKS
from rldyno_rig.job_files import UsabilityJob

Json = dict[str, Any]
TOLERANCE = 1e-5
RUNTIME = "onnxruntime"


def measure(name: str, path: Export, interpreter: Interpreter, chain: Toolchain, directory: Path) -> Json:
    """Whether the path works with every network, the largest difference, or what went wrong first."""
    found: Json = {"title": path.title, "packages": list(path.packages), "works": False, "reason": None}
    try:
        extra = [str(beside(interpreter, path.packages))] if path.packages else []
    except Problem as problem:
        why = f"{problem.message}: {(problem.detail or '').strip()}"
        return {**found, "reason": why, "passing": True}
    networks = {}
    for network in NETWORKS:
        home = directory / network
        home.mkdir()
        job = UsabilityJob(chain.backend, "export", first_mode(chain), network, name, tuple(extra))
        networks[network] = _run(interpreter, chain, job, home)
    reason = next(filter(None, map(_failure, networks.values())), None)
    passing = any(answer.get("passing") for answer in networks.values())
    return {**found, "works": reason is None, "reason": reason, "networks": networks, "passing": passing}


def _run(interpreter: Interpreter, chain: Toolchain, job: UsabilityJob, directory: Path) -> Json:
    answer = rig(interpreter, chain, job, directory)
    if answer["error"] or answer["difference"] is not None:
        return answer
    try:
        runtime = ensure([RUNTIME])[RUNTIME]
    except Problem as problem:
        return {**answer, "error": f"exported, but not run: {problem.message}", "passing": True}
    chain = toolchain(RUNTIME)
    return {**answer, **rig(runtime, chain, UsabilityJob(chain.backend, "onnxruntime"), directory)}


def _failure(answer: Json) -> str | None:
    if answer["error"]:
        return str(answer["error"])
    if not answer["difference"] <= TOLERANCE:
        return f"outputs differ by {answer['difference']:.1e}, more than {TOLERANCE:.0e}"
    return None
