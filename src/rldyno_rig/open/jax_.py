"""The open division in JAX: whole loops as one compiled program."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import lax

from rldyno_rig.open.jax_a2c import A2c
from rldyno_rig.open.jax_dqn import Dqn
from rldyno_rig.open.jax_ppo import Ppo
from rldyno_rig.open.problem import Problem, Tally
from rldyno_rig.spec import Params

# float64 needs it; every array and index carries its type.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_cpu_enable_async_dispatch", False)

ALGORITHMS: Dict[str, Any] = {"ppo": Ppo, "dqn": Dqn, "a2c": A2c}
SHARED = {"at", "until_train", "until_sync", "step"}
"""What of a loop's state all agents have in common."""

LEAVES_PARTS_OUT = True
"""The loops here run the parts of a problem alone."""


def make(problem: Problem) -> JaxLoop:
    jax.config.update("jax_platforms", problem.device)
    jax.config.update("jax_default_device", jax.local_devices(backend=problem.device)[0])
    jax.config.update("jax_default_matmul_precision", "highest")
    return JaxLoop(problem)


def options(device: str) -> Dict[str, Any]:
    """As the closed division's programs are compiled; `backends.jax_` says why."""
    if device == "cpu":
        return {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}
    return {"xla_gpu_enable_triton_gemm": False}


class JaxLoop:
    """All agents in one program; more than one as `vmap` over their states."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.form = ALGORITHMS[problem.algorithm](problem)
        self.round_steps = self.form.rows * problem.agents
        weights = problem.first_weights()
        carries = [self.form.start(w, problem.first_states(i)) for i, w in enumerate(weights)]
        keys = [jax.random.key(problem.seed + i, impl="rbg") for i in range(problem.agents)]
        self.carry, self.key = carries[0], keys[0]
        # Counters of steps are the same for all agents. Kept once, they stay a condition: with one for each
        # agent `cond` computes both sides, an update in every step of DQN.
        self.axes = type(self.carry)(**{name: None if name in SHARED else 0 for name in self.carry._fields})
        if problem.agents > 1:
            parts = zip(self.axes, *carries)
            self.carry = type(self.carry)(
                *(
                    jax.tree.map(lambda *each: jnp.stack(each), *of) if axis == 0 else of[0]
                    for axis, *of in parts
                )
            )
            self.key = jnp.stack(keys)
        self._program = jax.jit(self._rounds, donate_argnums=(0, 1), compiler_options=options(problem.device))

    def run(self, rounds: int) -> None:
        # The number of rounds is an argument: another one compiles nothing.
        self.carry, self.key = self._program(self.carry, self.key, np.int32(rounds))
        jax.block_until_ready(self.carry)

    def tally(self) -> Tally:
        return Tally(*map(sum, zip(*self.tallies())))

    def tallies(self) -> List[Tally]:
        """One for each agent."""
        counts = (np.atleast_1d(part).tolist() for part in (self.carry.episodes, self.carry.episode_steps))
        return [Tally(*of) for of in zip(*counts)]

    def _rounds(self, carry: Any, key: Any, rounds: Any) -> Any:
        one = self._one if self.problem.agents == 1 else self._all
        return lax.fori_loop(np.int32(0), rounds, lambda _, given: one(*given), (carry, key))

    def _one(self, carry: Any, key: Any) -> Any:
        key, draws = self.form.draw(key)
        return self.form.round(carry, draws)[0], key

    def _all(self, carry: Any, keys: Any) -> Any:
        # Not `vmap`: it takes the random numbers of all agents from the first key.
        keys, draws = lax.map(self.form.draw, keys)
        one = jax.vmap(lambda *given: self.form.round(*given)[0], (self.axes, 0), self.axes)
        return one(carry, draws), keys


def versions() -> Dict[str, str]:
    return {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "numpy": np.__version__}


def device_name(device: str) -> str:
    return "cpu" if device == "cpu" else str(jax.local_devices(backend=device)[0].device_kind)


# For proofs: the parts of a loop, on given numbers.


def advance(problem: Problem, states: np.ndarray, actions: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """One step of `states` [components, environments]."""
    dtype = np.dtype(problem.dtype)
    step = jax.jit(lambda state, action: problem.task.advance(jnp, tuple(state), action))
    moved, terminated = step(states.astype(dtype), actions.astype(dtype))
    return np.stack([np.asarray(part) for part in moved]), np.asarray(terminated)


def updated(problem: Problem, weights: Params, batches: Sequence[Any], rate: float) -> Params:
    """Weights after updates on these batches."""
    loop = make(problem)
    descent = loop.form.net.start(weights)
    target = descent.flat
    update = jax.jit(loop.form.update_on)
    for batch in batches:
        descent = update(descent, tuple(map(jnp.asarray, batch)), rate, target)
    return loop.form.net.unpack(np.asarray(descent.flat))


def replay(
    problem: Problem, weights: Params, first: np.ndarray, draws: Sequence[Dict[str, np.ndarray]]
) -> np.ndarray:
    """Actions [step, environments] of the loop when its random numbers are these."""
    form = make(problem).form
    carry, one = form.start(weights, first), jax.jit(form.round)
    actions = []
    for drawn in draws:
        carry, taken = one(carry, form.given(drawn))
        actions.append(np.asarray(taken))
    return np.concatenate(actions).astype(np.int64)
