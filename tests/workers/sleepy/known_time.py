"""A clock that only waits of known length move, and the list of these waits.

So every nanosecond that is booked has a known cause, however busy the machine is.
"""

import time

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

_now_ns = time.perf_counter_ns()


def now():
    return _now_ns


def wait(part):
    global _now_ns
    took_ns = round(SECONDS[part] * 1e9)
    WAITS.append((part, _now_ns, took_ns))
    time.sleep(SECONDS[part])  # so that this clock is never ahead of the real one
    _now_ns += took_ns
