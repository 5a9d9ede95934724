"""PyTorch: `torch.save`, TorchScript, `torch.export` and ONNX, `DataLoader`, `SummaryWriter`."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from rldyno_rig.backends.torch_maths import forward
from rldyno_rig.usability.boards import Board

SAVED_BY = "torch.save and torch.load(weights_only=True)"


def save(arrays: Dict[str, Any], path: Path) -> None:
    torch.save(arrays, path.with_suffix(".pt"))


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    tensors = torch.load(path.with_suffix(".pt"), weights_only=True)
    return {name: tensor.numpy() for name, tensor in tensors.items()}


class Network(torch.nn.Module):
    """The backend's forward pass with the learner's weights in it."""

    def __init__(self, learner: Any) -> None:
        super().__init__()
        self.model = copy.copy(learner.model)
        # What serves a policy knows PyTorch's own operations alone.
        self.model.product = torch.addmm
        self.names = list(learner.weights)
        self.tensors = torch.nn.ParameterList([w.detach().clone() for w in learner.weights.values()])

    def forward(self, obs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        return tuple(forward(self.model, dict(zip(self.names, self.tensors)), obs).values())


def torchscript(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    given = torch.from_numpy(obs)
    path = str(directory / "network.pt")
    torch.jit.trace(Network(learner), (given,)).save(path)
    return host(torch.jit.load(path)(given))


def exported_program(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    given = torch.from_numpy(obs)
    path = str(directory / "network.pt2")
    torch.export.save(torch.export.export(Network(learner), (given,)), path)
    return host(torch.export.load(path).module()(given))


def onnx(learner: Any, obs: np.ndarray, directory: Path) -> None:
    path = str(directory / "model.onnx")
    torch.onnx.export(Network(learner), (torch.from_numpy(obs),), path, dynamo=True, external_data=False)


def host(outputs: Tuple[torch.Tensor, ...]) -> Tuple[np.ndarray, ...]:
    return tuple(output.detach().numpy() for output in outputs)


def data_loader(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[List[torch.Tensor]]:
    data = TensorDataset(*map(torch.from_numpy, arrays))
    loader = DataLoader(data, batch_size=rows, shuffle=True)
    for _ in range(epochs):
        yield from loader


def batch_sampler(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[List[torch.Tensor]]:
    data = TensorDataset(*map(torch.from_numpy, arrays))
    sampler = BatchSampler(RandomSampler(data), rows, drop_last=False)
    loader = DataLoader(data, sampler=sampler, batch_size=None)
    for _ in range(epochs):
        yield from loader


def board(directory: Path) -> Board:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(directory))
    return Board(writer.add_scalar, writer.flush, writer.close)


BATCHES: Dict[str, Callable[..., Any]] = {"dataloader": data_loader, "batchsampler": batch_sampler}
EXPORTS: Dict[str, Callable[..., Any]] = {
    "torchscript": torchscript,
    "torch.export": exported_program,
    "onnx": onnx,
}
