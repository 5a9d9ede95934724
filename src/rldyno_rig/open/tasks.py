"""CartPole and MountainCar on arrays of any framework: states are `[components]` of arrays `[environments]`.

The equations, their order and their constants are those of `envs.classic`. `xp` is the framework's module:
NumPy, `jax.numpy` or `torch`. Actions are numbers in the precision of the states.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Tuple

from rldyno_rig.envs import classic

State = Tuple[Any, ...]


class OpenTask(NamedTuple):
    actions: int
    reward: float
    """Reward of every step."""
    low: Tuple[float, ...]
    high: Tuple[float, ...]
    """Each component of a first state is uniform between the two."""
    advance: Callable[[Any, State, Any], Tuple[State, Any]]
    """(xp, state, action) → (next state, terminated)."""
    limit: int
    """Steps after which an episode is cut off."""

    @property
    def components(self) -> int:
        return len(self.low)


def cartpole(xp: Any, state: State, action: Any) -> Tuple[State, Any]:
    x, x_dot, theta, theta_dot = state
    force = (2 * action - 1) * classic.FORCES[1]
    linear, angular = classic._accelerations(force, theta_dot, xp.sin(theta), xp.cos(theta))
    x = x + classic.SECONDS_PER_STEP * x_dot
    theta = theta + classic.SECONDS_PER_STEP * theta_dot
    x_dot = x_dot + classic.SECONDS_PER_STEP * linear
    theta_dot = theta_dot + classic.SECONDS_PER_STEP * angular
    fallen = (abs(x) > classic.POSITION_LIMIT) | (abs(theta) > classic.ANGLE_LIMIT)
    return (x, x_dot, theta, theta_dot), fallen


def mountain_car(xp: Any, state: State, action: Any) -> Tuple[State, Any]:
    position, velocity = state
    velocity = velocity + ((action - 1) * classic.PUSHES[2] + xp.cos(3 * position) * classic.SLOPE)
    velocity = xp.clip(velocity, -classic.TOP_SPEED, classic.TOP_SPEED)
    position = xp.clip(position + velocity, classic.LEFT_WALL, classic.RIGHT_END)
    stopped = (position == classic.LEFT_WALL) & (velocity < 0)
    velocity = xp.where(stopped, 0 * velocity, velocity)
    return (position, velocity), (position >= classic.GOAL) & (velocity >= 0)


_CARTPOLE = (2, 1.0, (-0.05,) * 4, (0.05,) * 4, cartpole)
TASKS: Dict[str, OpenTask] = {
    "CartPole-v0": OpenTask(*_CARTPOLE, limit=200),
    "CartPole-v1": OpenTask(*_CARTPOLE, limit=500),
    "MountainCar-v0": OpenTask(3, -1.0, (-0.6, 0.0), (-0.4, 0.0), mountain_car, limit=200),
}
