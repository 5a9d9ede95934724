"""Fixed rollouts of the built-in environments, as hashes: the same on every NumPy.

They need nothing but NumPy and the rig, so any toolchain can check itself:

    PYTHONPATH=src /path/to/its/python tests/unit/test_envs_golden.py

States are hashed in double precision: the float32 of an observation would hide a sine that is off by its last
bit. The hashes hold for the GNU C library; another one may round a sine or cosine otherwise.
"""

from __future__ import annotations

import hashlib

import numpy as np

from rldyno_rig import envs
from rldyno_rig.envs.classic import CARTPOLE, MOUNTAIN_CAR, Task
from rldyno_rig.envs.environment import generator

STEPS = 2_000
OBSERVATIONS = {
    ("CartPole-v1", 1): "986093e01fff3ff8",
    ("CartPole-v1", 40): "626f27d97c2e29e2",
    ("MountainCar-v0", 1): "8374136384becc61",
    ("MountainCar-v0", 40): "c8f00c593fef5499",
}
STATES = {CARTPOLE: "5253390f9b5d278e", MOUNTAIN_CAR: "1b9225ac8b3d71af"}


def fixed_actions(actions: int, count: int) -> np.ndarray:
    """`[STEPS, count]`, from the generator's raw bits: the stream NumPy promises never to change."""
    raw = np.random.PCG64(42).random_raw(STEPS * count).reshape(STEPS, count)
    return ((raw >> np.uint64(33)) % np.uint64(actions)).astype(np.int64)


def hash_observations(environment_id: str, count: int) -> str:
    env = envs.make(environment_id, count, seed=42, max_episode_steps=150)
    digest = hashlib.sha256(env.reset().tobytes())
    for actions in fixed_actions(env.actions, count):
        for array in env.step(actions):
            digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def hash_states(task: Task) -> str:
    rng = generator(42)
    state = task.draw(rng)
    digest = hashlib.sha256(np.array(state).tobytes())
    for action in fixed_actions(task.actions, 1)[:, 0].tolist():
        state, terminated = task.advance(state, action)
        digest.update(np.array(state).tobytes())
        if terminated:
            state = task.draw(rng)
    return digest.hexdigest()[:16]


def test_observations_have_their_golden_hashes() -> None:
    assert {key: hash_observations(*key) for key in OBSERVATIONS} == OBSERVATIONS


def test_states_have_their_golden_hashes() -> None:
    assert {task: hash_states(task) for task in STATES} == STATES


if __name__ == "__main__":
    test_observations_have_their_golden_hashes()
    test_states_have_their_golden_hashes()
    print("numpy", np.__version__, "plays the golden rollouts")
