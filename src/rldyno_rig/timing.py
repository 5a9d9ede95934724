"""The `time` job: how long one act and one update take, on demand.

The process builds and warms up its learner, says `ready`, and then measures once for every line it reads, so
that contestants that are all ready can be measured in turn: drift of the machine meets them all alike.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

from rldyno_rig import batches, hyper
from rldyno_rig.parts.streams import streams
from rldyno_rig.spec import complete, draw_params

JOB_FILE = "time.json"
VARIED = 8


def serve(directory: Path) -> int:
    """Reads time.json: framework, mode, device, dtype, algorithm, hyper, observation, actions, rows."""
    job = json.loads((directory / JOB_FILE).read_text(encoding="utf-8"))
    # What frameworks print must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    measures = prepare(job)
    for measure in measures.values():
        measure(3)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        seconds = float(line)
        times = {name: measured(measure, seconds / len(measures)) for name, measure in measures.items()}
        print(json.dumps(times), file=answers, flush=True)
    return 0


def prepare(job: Dict[str, Any]) -> Dict[str, Callable[[int], List[int]]]:
    """Functions that act or update so many times and return the nanoseconds of each call.

    An update is timed from host arrays to the loss on the host; an act from observations to actions.
    """
    backend = importlib.import_module("rldyno_rig.backends." + job["framework"] + "_")
    values = hyper.from_json(job["algorithm"], job["hyper"])
    spec = complete(
        job["algorithm"], values, tuple(job["observation"]), job["observation_dtype"], job["actions"]
    )
    random = streams(0)
    learner = backend.make(spec, draw_params(spec, random.weights), job["mode"], job["device"], job["dtype"])
    rng = np.random.default_rng(0)
    acting = [batches.acting(spec, rng, job["dtype"], job["act_rows"]) for _ in range(VARIED)]
    updating = [
        batches.synthetic(spec, rng, job["dtype"], backend.INDEX_DTYPE, job["update_rows"])
        for _ in range(VARIED)
    ]

    def act(times: int) -> List[int]:
        return clocked(times, lambda i: learner.act(*learner.put(*acting[i % VARIED])), learner.drain)

    def update(times: int) -> List[int]:
        def once(i: int) -> None:
            learner.read(learner.update(learner.put(*updating[i % VARIED]), values.learning_rate))

        return clocked(times, once, learner.drain)

    return {"act_us": act, "update_us": update}


def clocked(times: int, once: Callable[[int], Any], drain: Callable[[], None]) -> List[int]:
    spent = []
    drain()
    for i in range(times):
        started = time.perf_counter_ns()
        once(i)
        spent.append(time.perf_counter_ns() - started)
    drain()
    return spent


def measured(measure: Callable[[int], List[int]], seconds: float) -> float:
    """Median microseconds of as many calls as fit."""
    pilot = statistics.median(measure(5))
    return statistics.median(measure(max(5, int(seconds * 1e9 / pilot)))) / 1e3
