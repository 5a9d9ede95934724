"""Export paths, taken for real: a network is exported, read back, and its outputs held against the backend's.

What exporting needs beside the framework never enters a measured toolchain. It is installed into a directory
of its own, which a process that exports puts at the end of its path; ONNX files run in a toolchain of their
own, onnxruntime's.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from rldyno.config import cache_dir, load_config
from rldyno.errors import Problem
from rldyno.toolchains.catalogue import Toolchain, toolchain
from rldyno.toolchains.resolve import Interpreter, ensure
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


def beside(interpreter: Interpreter, pins: tuple[str, ...]) -> Path:
    """The directory that holds these packages for this interpreter, made now unless it exists."""
    content = json.dumps([list(pins), interpreter.python, interpreter.versions], sort_keys=True)
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    home = cache_dir() / "usability" / "packages"
    finished = home / f"{interpreter.framework}-{key}"
    if finished.is_dir():
        return finished
    home.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=home, prefix=f".{finished.name}-"))
    try:
        isolation = ["-I"] if interpreter.isolated else []
        command = [str(interpreter.path), *isolation, "-m", "pip", "install", "--disable-pip-version-check"]
        command += ["--no-input", "--no-deps", "--target", str(partial), *load_config().pip_args, *pins]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PIP_USER": "0"},
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise Problem(
                f"pip could not install {' '.join(pins)}",
                detail=lines[-1] if lines else None,
                fix="check the network; the config file's `pip_args` are used",
                code=1,
            )
        if not finished.is_dir():
            partial.replace(finished)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return finished
