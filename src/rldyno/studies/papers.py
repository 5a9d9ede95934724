"""The four sources, and the shipped studies that repeat their work."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    name: str
    about: str
    studies: tuple[str, ...]


PAPERS = (
    Paper(
        "liu2022",
        "PyTorch and TensorFlow: PPO and Rainbow on CartPole-v0",
        ("liu2022", "liu2022-workers", "liu2022-gpu"),
    ),
    Paper(
        "seong2024",
        "TensorFlow, MXNet and JAX, eager and lazy: DQN on CartPole-v1",
        ("seong2024", "seong2024-workers", "seong2024-gpu"),
    ),
    Paper("stooke2017", "Theano, TensorFlow, Chainer and PyTorch: networks alone", ("stooke2017",)),
    Paper("lizarralde2019", "PyTorch: A2C, PPO and DQN on Atari games", ("lizarralde2019",)),
)
