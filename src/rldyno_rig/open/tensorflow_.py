"""The open division in TensorFlow: whole loops as one program that XLA compiles."""

from __future__ import annotations

from typing import Any, Dict, Sequence, Tuple

import numpy as np
import tensorflow as tf

from rldyno_rig.open.problem import Problem, Tally, Unsupported
from rldyno_rig.open.tensorflow_a2c import A2c
from rldyno_rig.open.tensorflow_dqn import Dqn
from rldyno_rig.open.tensorflow_loops import XP
from rldyno_rig.open.tensorflow_ppo import Ppo
from rldyno_rig.spec import Params

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.config.experimental.enable_tensor_float_32_execution(False)

ALGORITHMS: Dict[str, Any] = {"ppo": Ppo, "dqn": Dqn, "a2c": A2c}

LEAVES_PARTS_OUT = True
"""The loops here run the parts of a problem alone."""


def make(problem: Problem) -> TensorflowLoop:
    if problem.agents > 1:
        raise Unsupported("the open form of TensorFlow trains one agent at a time")
    return TensorflowLoop(problem)


def compiled(function: Any) -> Any:
    return tf.function(function, jit_compile=True, autograph=False)


def place(device: str) -> Any:
    """A context in which tensors and programs lie on the device."""
    if device == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return tf.device("/CPU:0")
    return tf.device("/GPU:0")


class TensorflowLoop:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.form = ALGORITHMS[problem.algorithm](problem)
        self.round_steps = self.form.rows
        self.place = place(problem.device)
        with self.place:
            self.carry = self.form.start(problem.first_weights()[0], problem.first_states(0))
        self.rounds = 0
        self._program = compiled(self._rounds)

    def run(self, rounds: int) -> None:
        # Both numbers are tensors: others than these compile nothing.
        first, self.rounds = self.rounds, self.rounds + rounds
        with self.place:
            self.carry = self._program(self.carry, tf.constant(first), tf.constant(self.rounds))
        self.tally()

    def tally(self) -> Tally:
        return Tally(int(self.carry.episodes), int(self.carry.episode_steps))

    def _rounds(self, carry: Any, first: Any, end: Any) -> Any:
        def one(at: Any, carry: Any) -> Any:
            return at + 1, self.form.round(carry, self.form.draw(at))[0]

        return tf.while_loop(lambda at, _: at < end, one, (first, carry))[1]


def versions() -> Dict[str, str]:
    return {"tensorflow": tf.__version__, "numpy": np.__version__}


def device_name(device: str) -> str:
    if device == "cpu":
        return "cpu"
    gpu = tf.config.list_physical_devices("GPU")[0]
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", device))


# For proofs: the parts of a loop, on given numbers.


def advance(problem: Problem, states: np.ndarray, actions: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """One step of `states` [components, environments]."""
    dtype = np.dtype(problem.dtype)
    step = compiled(lambda state, action: problem.task.advance(XP, tuple(tf.unstack(state)), action))
    with place(problem.device):
        moved, terminated = step(tf.constant(states.astype(dtype)), tf.constant(actions.astype(dtype)))
    return np.stack([part.numpy() for part in moved]), terminated.numpy()


def updated(problem: Problem, weights: Params, batches: Sequence[Any], rate: float) -> Params:
    """Weights after updates on these batches."""
    form = make(problem).form
    update = compiled(form.update_on)
    with place(problem.device):
        descent = form.net.start(weights)
        target, speed = descent.flat, tf.constant(rate, form.dtype)
        for batch in batches:
            descent = update(descent, tuple(map(tf.constant, batch)), speed, target)
    return form.net.unpack(descent.flat.numpy())


def replay(
    problem: Problem, weights: Params, first: np.ndarray, draws: Sequence[Dict[str, np.ndarray]]
) -> np.ndarray:
    """Actions [step, environments] of the loop when its random numbers are these."""
    form = make(problem).form
    one, actions = compiled(form.round), []
    with place(problem.device):
        carry = form.start(weights, first)
        for drawn in draws:
            carry, taken = one(carry, form.given(drawn))
            actions.append(taken.numpy())
    return np.concatenate(actions).astype(np.int64)
