"""The contract between the rig and a backend: what the loops, proofs and timings may call.

A backend is a module, `backends/x_.py`. Its classes need not inherit anything: `make` returns a `Learner`,
and the type checker compares the two. Nothing here is used while a learner computes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Protocol, Sequence, Tuple

import numpy as np

from rldyno_rig.spec import Params, Spec
from rldyno_rig.team.team import Team

Host = Tuple[np.ndarray, ...]
"""Arrays in the memory of the host."""
Placed = Sequence[Any]
"""The same arrays as the framework holds them, on its device."""
State = Dict[str, Any]
"""{"params", "target", "m", "v": {name: array}, "t": int}: NumPy arrays in the canonical layout."""
Reading = Tuple[float, Optional[np.ndarray]]
"""(loss, priorities where the algorithm has them)."""


class Agent(Protocol):
    """What a train loop calls: a learner, or an ensemble of them.

    A call that *blocks* returns when the device has done the work. The clock counts each call as one phase.
    """

    def put(self, *arrays: np.ndarray) -> Placed:
        """Host arrays → the framework's arrays, in the same order. Does not block. Phase `transfer`."""

    def act(self, obs: Any, noise: Any = None) -> Host:
        """Placed observations, and noise where the algorithm has it → what to do. Blocks. Phase `act`.

        (greedy action,) for a head of action values; (action, log-probability, value) for an actor-critic.
        """

    def update(self, batch: Any, lr: float) -> Any:
        """One step of the optimiser on a placed batch → a handle for `read`. Must not block. Phase `update`.

        `lr` is the learning rate of this step, as a Python float.
        """

    def read(self, handle: Any) -> Reading:
        """The loss and the priorities of an update, on the host. Blocks. Phase `read`."""

    def sync_target(self) -> None:
        """Target weights := online weights."""

    def drain(self) -> None:
        """Blocks until the device has no work left. Only the clock and the timings call it."""

    def state(self) -> State:
        """All that an update changes. The arrays are the caller's own."""

    def load(self, state: State) -> None:
        """Inverse of `state`, in place: what was compiled stays compiled."""


class Learner(Agent, Protocol):
    """Network, target network and optimiser of one spec."""

    def forward(self, obs: np.ndarray, noise: Optional[np.ndarray]) -> Params:
        """Host arrays → the raw output of each head by its name. For proofs."""

    def grads(self, batch: Host) -> Tuple[float, Params, Params]:
        """A batch of host arrays → (loss, gradients, clipped gradients), and no step. For proofs."""


class VotingLearner(Learner, Protocol):
    """Optional, for learners that can be members of an ensemble: heads of action values only."""

    def values(self, obs: Any) -> Host:
        """Placed observations → (value of each action `[rows, actions]`,). Blocks. Phase `act`.

        A network with noise has none. Compiled where the mode compiles, when it is first called: an agent
        alone never does.
        """


class ManyLearner(Learner, Protocol):
    """Optional, for learners that like longer calls. Those that do not gain from it have none."""

    def update_many(self, batches: Any, lr: float) -> Any:
        """`update` on batches[0], batches[1] … in this order → the handle of the last one. Must not block.

        `batches` are placed like one batch, with an axis more in front: `put(*stacked)` returned them. Phase
        `update`.
        """


class TeamLearner(Learner, Protocol):
    """Optional, for learners that can train with others. Those that do have no use for `update_many`."""

    average: Optional[Callable[[Any], Any]]
    """The reduction that `team.timed` returned; None until the learner has joined a team."""

    def join(self, team: Team) -> None:
        """From now on `update` averages its gradient with those of the team, before it is clipped.

        Called once, before the first update; in a proof several learners of one process join the same team,
        one after the other, so that what can be set up only once is kept. `team.timed` takes the reduction,
        of one flat vector, and counts its time as phase `communicate`; `team.link` tells the others where a
        collective meets. Raises TeamError when it cannot.
        """


class HostedLearner(Learner, Protocol):
    """Optional, on a GPU."""

    def host(self, *arrays: np.ndarray) -> Host:
        """Copies in page-locked memory, from which `put` copies fastest."""


class Backend(Protocol):
    """What `backends/x_.py` has at its top level. `device_memory` (below) is optional."""

    __file__: str
    MODES: Tuple[str, ...]
    """Ways to run the framework, such as ("eager", "compile")."""
    INDEX_DTYPE: str
    """The integer type in which the loop keeps actions: "int32" or "int64"."""

    def facts(self) -> Dict[str, Any]:
        """Versions, device, thread counts and precision flags. JSON-able."""

    def make(self, spec: Spec, params: Params, mode: str, device: str, dtype: str) -> Learner:
        """A learner that starts from `params`. `device` is "cpu" or "cuda".

        `dtype` is "float64", "float32" or, on a GPU, "tf32": float32 arrays, TensorFloat-32 products.
        """


class MeteredBackend(Backend, Protocol):
    """Optional, on a GPU."""

    def device_memory(self) -> Optional[Dict[str, int]]:
        """`used_bytes`, `used_peak_bytes`, `reserved_bytes` on the GPU, where known; None on a CPU."""
