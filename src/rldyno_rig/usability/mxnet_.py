"""MXNet: `mx.nd.save`, symbol files and ONNX, Gluon's `DataLoader` and `NDArrayIter`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import mxnet as mx
import numpy as np

from rldyno_rig.backends.mxnet_maths import Model, run_forward
from rldyno_rig.usability.boards import tensorboardx

SAVED_BY = "mx.nd.save and mx.nd.load"


def save(arrays: Dict[str, Any], path: Path) -> None:
    mx.nd.save(str(path), arrays)


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    return {name: array.asnumpy() for name, array in mx.nd.load(str(path)).items()}


def written(learner: Any, directory: Path) -> str:
    """The network as `network-symbol.json` and `network-0000.params`; the beginning of their names."""
    weights = learner.weights
    model = Model(mx.sym, learner.spec, learner.model.dtype)
    graph = mx.sym.Group(run_forward(model, mx.sym.var("obs"), *[mx.sym.var(name) for name in weights]))
    prefix = str(directory / "network")
    mx.model.save_checkpoint(prefix, 0, graph, dict(weights), {})
    return prefix


def symbol(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    graph, weights, _ = mx.model.load_checkpoint(written(learner, directory), 0)
    executor = graph.bind(mx.cpu(), {"obs": mx.nd.array(obs, dtype=obs.dtype), **weights})
    return tuple(output.asnumpy() for output in executor.forward(is_train=False))


def onnx(learner: Any, obs: np.ndarray, directory: Path) -> None:
    prefix = written(learner, directory)
    mx.onnx.export_model(
        prefix + "-symbol.json",
        prefix + "-0000.params",
        in_shapes=[obs.shape],
        in_types=[obs.dtype.type],
        onnx_file_path=str(directory / "model.onnx"),
    )


def data_loader(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[List[Any]]:
    data = mx.gluon.data.ArrayDataset(*arrays)
    loader = mx.gluon.data.DataLoader(data, batch_size=rows, shuffle=True)
    for _ in range(epochs):
        yield from loader


def array_iter(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[List[Any]]:
    loader = mx.io.NDArrayIter(arrays, batch_size=rows, shuffle=True)
    for _ in range(epochs):
        for batch in loader:
            yield batch.data
        loader.reset()


board = tensorboardx
BATCHES: Dict[str, Callable[..., Any]] = {"dataloader": data_loader, "ndarrayiter": array_iter}
EXPORTS: Dict[str, Callable[..., Any]] = {"symbol": symbol, "onnx": onnx}
