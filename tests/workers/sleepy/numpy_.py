"""A backend that learns nothing and takes known times, in place of the NumPy one.

It notes every wait: on a busy machine one may last longer than asked, and must be booked as long as it was.
"""

import sys
import time

import numpy as np

MODES = ("eager",)
INDEX_DTYPE = "int64"
SECONDS = {
    "import": 0.20,
    "build": 0.10,
    "environment": 0.003,
    "transfer": 0.0005,
    "act": 0.002,
    "update": 0.005,
    "read": 0.001,
}
WAITS = []
"""(what for, when it began, how long it took) of every wait, in nanoseconds."""


def wait(part):
    begin = time.perf_counter_ns()
    time.sleep(SECONDS[part])
    WAITS.append((part, begin, time.perf_counter_ns() - begin))


wait("import")


def facts():
    return {"versions": {"python": sys.version}}


def make(spec, params, mode, device, dtype):
    wait("build")
    return Learner(params, spec.hyper.batch_size)


class Learner:
    def __init__(self, params, batch_size):
        self.params = params
        self.errors = np.ones(batch_size, np.float32)

    def put(self, *arrays):
        wait("transfer")
        return arrays

    def act(self, obs, noise=None):
        wait("act")
        return (np.zeros(len(obs), np.int64),)

    def update(self, batch, lr):
        wait("update")

    def read(self, handle):
        wait("read")
        return 0.5, self.errors

    def state(self):
        return {"params": self.params}

    def load(self, state):
        pass

    def sync_target(self):
        pass

    def drain(self):
        pass
