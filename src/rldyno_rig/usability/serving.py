"""The part `deployment`: an exported policy that answers one observation at a time, without the backend."""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

import numpy as np

from rldyno_rig import synthetic
from rldyno_rig.job_files import UsabilityJob
from rldyno_rig.loading import load_beside
from rldyno_rig.usability.learner import built, largest, size_of

MADE, GIVEN_FILE = "made", "given.npz"
DIFFERENT = 64
"""Observations; requests go through them again and again."""
WARM_UP, REQUESTS = 100, 1_000


def export_policy(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Export the network for one observation, and keep observations with what the backend says to them."""
    way = load_beside("usability", job.backend)
    _, spec, learner = built(job, job.network)
    obs = synthetic.observations(spec.network, np.random.default_rng(0), DIFFERENT)
    (expected,) = learner.forward(obs, None).values()
    (directory / MADE).mkdir()
    way.EXPORTS[job.export](learner, obs[:1], directory / MADE)
    np.savez(str(directory / GIVEN_FILE), obs=obs, expected=expected)
    return {}


def serve(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Run a program that defines `answer(obs)`, and ask it for actions."""
    with np.load(str(directory / GIVEN_FILE), allow_pickle=False) as file:
        obs, expected = file["obs"], file["expected"]
    os.chdir(str(directory / MADE))
    before = backend_modules()
    import_s, _ = seconds(importlib.import_module, job.runtime)
    names: Dict[str, Any] = {}
    load_s, _ = seconds(exec, compile(job.program, "serve.py", "exec"), names)
    first_s, _ = seconds(names["answer"], obs[:1])
    answers = [np.array(names["answer"](one[None])) for one in obs]
    spent = requests(names["answer"], [one[None] for one in obs])
    return {
        "import_s": import_s,
        "load_s": load_s,
        "first_s": first_s,
        "median_s": float(np.median(spent)),
        "p99_s": float(np.percentile(spent, 99)),
        "requests": REQUESTS,
        "difference": largest([expected], [np.concatenate(answers)]),
        "file_bytes": size_of(directory / MADE),
        "backend_modules": sorted(backend_modules() - before),
    }


def requests(answer: Any, observations: List[np.ndarray]) -> List[float]:
    """Seconds from an observation to its action, once it is warm."""
    spent = []
    for index in range(WARM_UP + REQUESTS):
        one = observations[index % len(observations)]
        spent.append(seconds(lambda given: int(np.argmax(answer(given)[0])), one)[0])
    return spent[WARM_UP:]


def seconds(action: Any, *arguments: Any) -> Tuple[float, Any]:
    began = time.perf_counter()
    found = action(*arguments)
    return time.perf_counter() - began, found


def backend_modules() -> Set[str]:
    """Modules of the rig's backends that this process has imported."""
    return {name for name in sys.modules if name.startswith("rldyno_rig.backends.")}
