"""The `usability` job: one part in a fresh process, because what is tried here may crash it."""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np

from rldyno_rig import schema, synthetic
from rldyno_rig.hyper import NETWORKS
from rldyno_rig.job_files import USABILITY_FILE, UsabilityJob, read_json
from rldyno_rig.loading import load_beside
from rldyno_rig.spec import Params
from rldyno_rig.team.names import home
from rldyno_rig.team.team import own_rank
from rldyno_rig.training import write_json
from rldyno_rig.usability.boards import watch
from rldyno_rig.usability.learner import built, largest, size_of, timed, updating
from rldyno_rig.usability.pipelines import load_data
from rldyno_rig.usability.reducing import first_reduction
from rldyno_rig.usability.serving import GIVEN_FILE, MADE, export_policy, serve

ANSWER_FILE = "answer.json"
ONNX_FILE = "model.onnx"
ROWS = 8
UPDATES = 20
"""Of one repeat."""


def answer(directory: Path, started_ns: int) -> int:
    """Reads usability.json, a `UsabilityJob`; writes answer.json, each worker of a team in its home."""
    job = UsabilityJob.from_json(read_json(directory / USABILITY_FILE))
    # Packages that only this part needs come after the toolchain's own, so that they replace none of them.
    sys.path.extend(job.paths)
    parts: Dict[str, Callable[[UsabilityJob, Path], Dict[str, Any]]] = {
        "first_update": first_update,
        "update": warm_update,
        "save": save_and_load,
        "export": export,
        "onnxruntime": run_onnx,
        "data": load_data,
        "watch": watch,
        "export_policy": export_policy,
        "serve": serve,
        "first_reduction": first_reduction,
    }
    os.environ.setdefault(schema.SPAWN_VARIABLE, str(started_ns))
    place = home(directory, own_rank() if job.workers > 1 else 0)
    try:
        found = parts[job.part](job, directory)
    except Exception as problem:
        traceback.print_exc()
        text = str(problem).strip()
        found = {"error": "{}: {}".format(type(problem).__name__, text) if text else type(problem).__name__}
    write_json(place / ANSWER_FILE, {"error": None, **found})
    return 0


def first_update(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Nanoseconds from the spawn of this process until the loss of a first DQN update is on the host."""
    spawned_ns = int(os.environ[schema.SPAWN_VARIABLE])
    learner, update = updating(job, "mlp")
    learner.read(update())
    return {"nanoseconds": time.perf_counter_ns() - spawned_ns}


def warm_update(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Seconds of one DQN update that is not the first."""
    learner, update = updating(job, "mlp")

    def some() -> None:
        for _ in range(UPDATES):
            update()
        learner.drain()

    return {"update_s": timed(some) / UPDATES}


def save_and_load(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Each network's weights, saved the framework's way and loaded into a learner that had others."""
    way = load_beside("usability", job.backend)
    return {
        "by": way.SAVED_BY,
        "networks": {name: round_trip(job, directory, way, name) for name in NETWORKS},
    }


def round_trip(job: UsabilityJob, directory: Path, way: Any, network: str) -> Dict[str, Any]:
    home = directory / network
    home.mkdir()
    _, _, learner = built(job, network)
    state = learner.state()
    weights = state["params"]
    arrays = dict(zip(weights, learner.put(*weights.values())))
    save_s = timed(lambda: way.save(arrays, home / "weights"))
    loaded: Params = way.load(home / "weights", weights)
    load_s = timed(lambda: way.load(home / "weights", weights))
    _, _, other = built(job, network, seed=1)
    other.load({**state, "params": loaded})
    found = other.state()["params"]
    return {
        "weights_bytes": sum(array.nbytes for array in weights.values()),
        "file_bytes": size_of(home),
        "save_s": save_s,
        "load_s": load_s,
        "exact": all(found[name].tobytes() == array.tobytes() for name, array in weights.items()),
    }


def export(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """Take one export path with one network; the largest difference from the backend's own outputs."""
    way = load_beside("usability", job.backend)
    _, spec, learner = built(job, job.network)
    obs = synthetic.observations(spec.network, np.random.default_rng(0), ROWS)
    expected = list(learner.forward(obs, None).values())
    made = directory / MADE
    made.mkdir()
    outputs = way.EXPORTS[job.export](learner, obs, made)
    if outputs is not None:
        return {"file_bytes": size_of(made), "difference": largest(expected, outputs)}
    heads = {"head{}".format(index): array for index, array in enumerate(expected)}
    np.savez(str(directory / GIVEN_FILE), obs=obs, **heads)
    return {"file_bytes": (made / ONNX_FILE).stat().st_size, "difference": None}


def run_onnx(job: UsabilityJob, directory: Path) -> Dict[str, Any]:
    """In the toolchain of onnxruntime: run what another process exported."""
    import onnxruntime

    with np.load(str(directory / GIVEN_FILE), allow_pickle=False) as file:
        given = dict(file)
    obs = given.pop("obs")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(directory / MADE / ONNX_FILE), options, providers=["CPUExecutionProvider"]
    )
    (wanted,) = session.get_inputs()
    kind = wanted.type[len("tensor(") : -1]
    kind = {"float": "float32", "double": "float64"}.get(kind, kind)
    outputs = session.run(None, {wanted.name: obs.astype(kind)})
    return {
        "difference": largest(list(given.values()), outputs),
        "versions": {"onnxruntime": onnxruntime.__version__},
    }
