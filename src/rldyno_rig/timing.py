"""The `time` job: how long acting and updating take, on demand.

The process builds and warms up its learner, reports that it is ready, and then measures once for every line
that it reads. So contestants that are all ready can be measured one after the other, again and again, and a
change in the machine's speed affects them all. Requests and answers are JSON, one per line.

How a call is fed (`data`):
- pageable: ordinary host arrays, put and used one after the other, as the training loops do it;
- pinned: host arrays in page-locked memory, the next batch put before the current one is used, as a loader
  or a second group of environments does it; GPUs only;
- resident: the batch is on the device already.
What a call is (`measure`): `act`; `update`; `updates`, several updates at once as a loop with minibatches
makes them, in one call where the learner has `update_many`; its time is given per update.
An act blocks until its actions are on the host. Updates follow one another without reading their losses; the
device is drained before the clock is read: after every update on a CPU, after 20 ms of them on a GPU.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from rldyno_rig import identity, synthetic
from rldyno_rig.algorithms import LEARNERS, stacked_batch, synthetic_batch
from rldyno_rig.algorithms.algorithm import many_of
from rldyno_rig.job_files import TIMING_FILE, TimingJob, read_json
from rldyno_rig.loading import load_backend
from rldyno_rig.parts.streams import streams
from rldyno_rig.spec import STORED, draw_params

Arrays = Tuple[Any, ...]
Fetch = Callable[[], Arrays]

VARIED = 8
"""Different batches, so that a processor's cache does not make calls look fast."""
RUN_NS = {"cpu": 0, "cuda": 20_000_000}
"""Updates are clocked in runs of at least this long; the device is drained after each. On a CPU one by one:
on a busy machine others interrupt most runs of some milliseconds, but few updates, so the median is clean."""
WARM_UP_CALLS = 4
"""More than a backend has places for a batch, each of which may need to be captured."""


def serve(directory: Path, started_ns: int) -> int:
    """Reads time.json, a `TimingJob`; serves requests until its input ends."""
    job = TimingJob.from_json(read_json(directory / TIMING_FILE))
    # What frameworks print must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr

    def answer(value: Dict[str, Any]) -> None:
        print(json.dumps(value), file=answers, flush=True)

    bench = Bench(job, started_ns)
    bench.warm_up()
    answer({"ready": True, "facts": bench.facts(), "startup_ns": bench.startup_ns})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer(bench.measure(request["measure"], request["rows"], request["data"], request["seconds"]))
        except Exception as error:
            answer({"error": "{}: {}".format(type(error).__name__, str(error).strip().split("\n")[0])})
    return 0


class Bench:
    def __init__(self, job: TimingJob, started_ns: int) -> None:
        self.job = job
        self.startup_ns: Dict[str, int] = {}
        self._last = started_ns
        self.backend = load_backend(job.backend)
        self._mark("import")
        algorithm = LEARNERS[job.algorithm]
        self.values = algorithm.hyper_from_json(job.hyper)
        self.spec = algorithm.spec(self.values, job.observation, job.observation_dtype, job.actions)
        params = draw_params(self.spec, streams(0).weights)
        self.learner: Any = self.backend.make(self.spec, params, job.mode, job.device, job.dtype)
        self._mark("build")
        self.rng = np.random.default_rng(0)
        self.fed: Dict[Tuple[str, int, str], List[Arrays]] = {}

    def warm_up(self) -> None:
        """First calls of everything that may be measured, on throw-away data."""
        measures = [("act", self.job.act_rows), ("update", self.job.update_rows)]
        if self.job.together > 1:
            measures.append(("updates", self.job.update_rows))
        for measure, sizes in measures:
            for rows in sizes:
                self._clock(measure, rows, "pageable", WARM_UP_CALLS)
        self._mark("first_call")

    def measure(self, measure: str, rows: int, data: str, seconds: float) -> Dict[str, Any]:
        # The first calls after a pause are slow. An estimate from them may end too soon: then more are made.
        per_call = np.median(self._clock(measure, rows, data, VARIED))
        spent: List[int] = []
        while sum(spent) < seconds * 1e9:
            calls = math.ceil((seconds * 1e9 - sum(spent)) / max(per_call, 1))
            spent += self._clock(measure, rows, data, max(VARIED, calls))
            per_call = np.median(spent)
        p10, median, p90 = (int(value) for value in np.percentile(spent, (10, 50, 90)))
        return {
            "calls": len(spent),
            "wall_ns": sum(spent),
            "median_ns": median,
            "p10_ns": p10,
            "p90_ns": p90,
        }

    def facts(self) -> Dict[str, Any]:
        described = self.backend.facts()
        return {
            "versions": described.pop("versions"),
            "backend": described,
            **identity.hashes(self.backend.__file__),
        }

    def _clock(self, measure: str, rows: int, data: str, calls: int) -> List[int]:
        """Nanoseconds of each call; of updates the mean of their run: they return before they are done."""
        fetch = self._feed(measure, rows, data)
        if measure == "act":
            return clocked_each(calls, fetch, lambda batch: self.learner.act(*batch), self.learner.drain)
        count, update = self._updating(measure)
        rate = self.values.learning_rate
        run_ns = RUN_NS[self.job.device]
        spent = clocked_runs(
            -(-calls // count), run_ns, fetch, lambda batch: update(batch, rate), self.learner.drain
        )
        return [each // count for each in spent for _ in range(count)]

    def _updating(self, measure: str) -> Tuple[int, Callable[[Any, float], Any]]:
        """How many updates one call makes, and the call."""
        many = many_of(self.learner, self.job.together) if measure == "updates" else None
        return (1, self.learner.update) if many is None else (self.job.together, many)

    def _feed(self, measure: str, rows: int, data: str) -> Fetch:
        """Hands out the next batch, placed."""
        learner, given = self.learner, self._batches(measure, rows, data)
        if data == "pageable":
            return one_by_one(learner.put, given)
        if data == "pinned":
            return ahead(learner.put, given)
        # One place on the device, whatever the memory behind it: stages reuse their places.
        placed = learner.put(*given[0])
        return lambda: placed

    def _batches(self, measure: str, rows: int, data: str) -> List[Arrays]:
        key = measure, rows, data
        if key not in self.fed:
            if data == "pinned" and not hasattr(self.learner, "host"):
                raise ValueError("this contestant has no page-locked memory to be fed from")
            if data != "pageable" and self.job.device == "cpu":
                raise ValueError("no device memory: on a CPU nothing is copied to a device")
            made = [self._synthetic(measure, rows) for _ in range(VARIED)]
            self.fed[key] = [self.learner.host(*batch) for batch in made] if data == "pinned" else made
        return self.fed[key]

    def _synthetic(self, measure: str, rows: int) -> Arrays:
        dtype = STORED[self.job.dtype]
        if measure == "act":
            return synthetic.acting(self.spec, self.rng, dtype, rows)
        given = self.spec, self.rng, dtype, self.backend.INDEX_DTYPE, rows
        count, _ = self._updating(measure)
        batch: Arrays = synthetic_batch(*given) if count == 1 else stacked_batch(*given, count)
        return batch

    def _mark(self, name: str) -> None:
        now = time.perf_counter_ns()
        self.startup_ns[name] = now - self._last
        self._last = now


def one_by_one(put: Callable[..., Arrays], given: List[Arrays]) -> Fetch:
    at = 0

    def fetch() -> Arrays:
        nonlocal at
        at = (at + 1) % len(given)
        return put(*given[at])

    return fetch


def ahead(put: Callable[..., Arrays], given: List[Arrays]) -> Fetch:
    """One batch is always on its way."""
    put_next = one_by_one(put, given)
    coming = put_next()

    def fetch() -> Arrays:
        nonlocal coming
        here, coming = coming, put_next()
        return here

    return fetch


def clocked_each(
    calls: int, fetch: Fetch, use: Callable[[Arrays], Any], drain: Callable[[], None]
) -> List[int]:
    tick, spent = time.perf_counter_ns, []
    drain()
    last = tick()
    for _ in range(calls):
        use(fetch())
        now = tick()
        spent.append(now - last)
        last = now
    return spent


def clocked_runs(
    calls: int, run_ns: int, fetch: Fetch, use: Callable[[Arrays], Any], drain: Callable[[], None]
) -> List[int]:
    """One call in the first run, twice as many in the next, until a run takes `run_ns`."""
    drain()
    spent: List[int] = []
    size = 1
    while len(spent) < calls:
        size = min(size, calls - len(spent))
        started = time.perf_counter_ns()
        for _ in range(size):
            use(fetch())
        drain()
        elapsed = time.perf_counter_ns() - started
        spent.extend([elapsed // size] * size)
        if elapsed < run_ns:
            size *= 2
    return spent
