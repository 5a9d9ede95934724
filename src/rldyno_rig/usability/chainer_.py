"""Chainer: `chainer.serializers`, ONNX and `SerialIterator`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import chainer
import chainer.functions as F  # noqa: N812 (its community writes it so)
import numpy as np

from rldyno_rig.usability.boards import tensorboardx

SAVED_BY = "chainer.serializers.save_npz and load_npz"


def save(arrays: Dict[str, Any], path: Path) -> None:
    chainer.serializers.save_npz(str(path.with_suffix(".npz")), link_of(arrays))


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    link = link_of({name: np.zeros_like(array) for name, array in like.items()})
    chainer.serializers.load_npz(str(path.with_suffix(".npz")), link)
    return {name: getattr(link, name).array for name in like}


def link_of(arrays: Dict[str, Any]) -> chainer.Link:
    link = chainer.Link()
    with link.init_scope():
        for name, array in arrays.items():
            setattr(link, name, chainer.Parameter(array))
    return link


class Network(chainer.Chain):
    """The backend's network, from observations as they come to the outputs of its heads."""

    def __init__(self, learner: Any) -> None:
        super().__init__()
        self.dtype = learner.model.dtype
        with self.init_scope():
            self.weights = learner.weights

    def forward(self, obs: Any) -> Tuple[Any, ...]:
        x = F.cast(obs, self.dtype)
        return self.weights.forward(x / 255 if obs.dtype == np.uint8 else x)


def onnx(learner: Any, obs: np.ndarray, directory: Path) -> None:
    import onnx_chainer

    chainer.global_config.train = False
    onnx_chainer.export(Network(learner), obs, filename=str(directory / "model.onnx"))


def serial_iterator(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[Tuple[np.ndarray, ...]]:
    data = chainer.datasets.TupleDataset(*arrays)
    loader = chainer.iterators.SerialIterator(data, rows, repeat=False, shuffle=True)
    for _ in range(epochs):
        for batch in loader:
            yield chainer.dataset.concat_examples(batch)
        loader.reset()


board = tensorboardx
BATCHES: Dict[str, Callable[..., Any]] = {"serialiterator": serial_iterator}
EXPORTS: Dict[str, Callable[..., Any]] = {"onnx": onnx}
