"""CartPole and MountainCar as Gymnasium 1.4 defines them, bit for bit.

Sines and cosines come from `math` alone: NumPy's are the C library's in some releases and those of a
vectorised library, off by the last bit, in others (1.23 with AVX-512). With one source, every toolchain of a
machine plays the same episodes, and they are those that Gymnasium plays on a current NumPy. For the same
reason the order of the floating-point operations is Gymnasium's and must stay as it is.

Each task is advanced in two forms: one environment in Python floats, or many in arrays `[component, count]`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Sequence, Tuple

import numpy as np

State = Sequence[float]


@dataclass(frozen=True)
class Task:
    components: int
    """Numbers in a state; a state is observed whole."""
    actions: int
    reward: float
    """Reward of every step."""
    draw: Callable[[np.random.Generator], State]
    """First state of an episode."""
    advance: Callable[[State, int], Tuple[State, bool]]
    """(state, action) → (next state, terminated)."""
    advance_all: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Advances states `[components, count]` in place by actions `[count]`; returns terminated `[count]`."""


def _elementwise(function: Callable[[float], float], values: np.ndarray) -> np.ndarray:
    return np.array(list(map(function, values.tolist())))


# CartPole (Barto, Sutton & Anderson 1983), explicit Euler.

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 0.1 + 1.0
HALF_LENGTH = 0.5
POLE_MASS_LENGTH = POLE_MASS * HALF_LENGTH
SECONDS_PER_STEP = 0.02
FORCES = (-10.0, 10.0)
FORCES_ARRAY = np.array(FORCES)
POSITION_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360


def _accelerations(force: Any, theta_dot: Any, sin: Any, cos: Any) -> Tuple[Any, Any]:
    """Of the cart and of the pole's angle; of floats or of arrays, with the same roundings."""
    push = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin) / TOTAL_MASS
    angular = (GRAVITY * sin - cos * push) / (
        HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS)
    )
    return push - POLE_MASS_LENGTH * angular * cos / TOTAL_MASS, angular


def _cartpole_draw(rng: np.random.Generator) -> State:
    state: State = rng.uniform(-0.05, 0.05, 4).tolist()
    return state


def _cartpole_advance(state: State, action: int) -> Tuple[State, bool]:
    x, x_dot, theta, theta_dot = state
    linear, angular = _accelerations(FORCES[action], theta_dot, math.sin(theta), math.cos(theta))
    x += SECONDS_PER_STEP * x_dot
    theta += SECONDS_PER_STEP * theta_dot
    x_dot += SECONDS_PER_STEP * linear
    theta_dot += SECONDS_PER_STEP * angular
    fallen = abs(x) > POSITION_LIMIT or abs(theta) > ANGLE_LIMIT
    return (x, x_dot, theta, theta_dot), fallen


def _cartpole_advance_all(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    x, x_dot, theta, theta_dot = states
    sin, cos = _elementwise(math.sin, theta), _elementwise(math.cos, theta)
    linear, angular = _accelerations(FORCES_ARRAY[actions], theta_dot, sin, cos)
    x += SECONDS_PER_STEP * x_dot
    theta += SECONDS_PER_STEP * theta_dot
    x_dot += SECONDS_PER_STEP * linear
    theta_dot += SECONDS_PER_STEP * angular
    fallen: np.ndarray = (np.abs(x) > POSITION_LIMIT) | (np.abs(theta) > ANGLE_LIMIT)
    return fallen


CARTPOLE = Task(4, 2, 1.0, _cartpole_draw, _cartpole_advance, _cartpole_advance_all)


# MountainCar (Moore 1990).

LEFT_WALL, RIGHT_END = -1.2, 0.6
TOP_SPEED = 0.07
GOAL = 0.5
SLOPE = -0.0025
PUSHES = (-0.001, 0.0, 0.001)
PUSHES_ARRAY = np.array(PUSHES)


def _mountain_car_draw(rng: np.random.Generator) -> State:
    return rng.uniform(-0.6, -0.4), 0.0


def _mountain_car_advance(state: State, action: int) -> Tuple[State, bool]:
    position, velocity = state
    velocity += PUSHES[action] + math.cos(3 * position) * SLOPE
    if velocity > TOP_SPEED:
        velocity = TOP_SPEED
    elif velocity < -TOP_SPEED:
        velocity = -TOP_SPEED
    position += velocity
    if position > RIGHT_END:
        position = RIGHT_END
    elif position <= LEFT_WALL:
        position = LEFT_WALL
        if velocity < 0:
            velocity = 0.0
    return (position, velocity), position >= GOAL and velocity >= 0.0


def _mountain_car_advance_all(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    position, velocity = states
    velocity += PUSHES_ARRAY[actions] + _elementwise(math.cos, 3 * position) * SLOPE
    np.minimum(np.maximum(velocity, -TOP_SPEED, out=velocity), TOP_SPEED, out=velocity)
    position += velocity
    np.minimum(np.maximum(position, LEFT_WALL, out=position), RIGHT_END, out=position)
    velocity[(position == LEFT_WALL) & (velocity < 0)] = 0.0
    arrived: np.ndarray = (position >= GOAL) & (velocity >= 0.0)
    return arrived


MOUNTAIN_CAR = Task(2, 3, -1.0, _mountain_car_draw, _mountain_car_advance, _mountain_car_advance_all)
