"""Does `update` start its work, or leave it to the next call that needs the result?

A lazy framework that only notes what to compute makes `update` look free and charges `act` or `read` for it.
Busy machines must not decide this, so only the CPU time of this process counts, all its threads included,
and of every measurement the least of several.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import Any, Callable, List, Tuple

from rldyno_rig.backends.contract import Learner

LIMIT = 0.5
"""Share of one update that may come later. Backends that start their work have about 0, 0.3 on a busy
machine; those that leave only the last update to the next call have 1."""
UPDATES = 8
REPEATS = 5
# Work that was started in another thread or on a device ends while this process sleeps. Where it seems that
# nothing was started, it gets more time: the thread may have had no CPU.
WAITS_S = (0.01, 0.1, 0.5)


def deferred_share(learner: Learner, batch: Any, acting: Any, lr: float) -> float:
    """Of the CPU time of one update: the share that is spent only when `drain`, `read` and `act` follow."""
    share = 1.0
    for wait_s in WAITS_S:
        share = min(share, _share(learner, batch, acting, lr, wait_s))
        if share <= LIMIT:
            break
    return share


def _share(learner: Learner, batch: Any, acting: Any, lr: float, wait_s: float) -> float:
    """With updates left to themselves for a while, and with all of them surely done, because their results
    were fetched: what the same calls cost more in the first case is work that was waiting for them.
    """
    started: List[float] = []
    after: List[float] = []
    done: List[float] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(REPEATS):
            for times, fetched in ((after, False), (done, True)):
                handle, spent = _cpu(partial(_updates, learner, batch, lr, wait_s))
                started.append(spent)
                if fetched:
                    learner.drain()
                    learner.state()
                    time.sleep(wait_s)  # so that both cases begin with cold processor caches
                times.append(_cpu(partial(_results, learner, handle, acting))[1])
    finally:
        if collecting:
            gc.enable()
    late = max(0.0, min(after) - min(done))
    one_update = (min(started) + late) / UPDATES
    return min(1.0, late / one_update)


def _updates(learner: Learner, batch: Any, lr: float, wait_s: float) -> Any:
    for _ in range(UPDATES):
        handle = learner.update(learner.put(*batch), lr)
    time.sleep(wait_s)
    return handle


def _results(learner: Learner, handle: Any, acting: Any) -> None:
    learner.drain()
    learner.read(handle)
    learner.act(*learner.put(*acting))


def _cpu(call: Callable[[], Any]) -> Tuple[Any, float]:
    before = time.process_time()
    result = call()
    return result, time.process_time() - before
