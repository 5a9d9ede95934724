"""TensorFlow: `tf.train.Checkpoint`, SavedModel, TensorFlow Lite and ONNX, `tf.data`, `tf.summary`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import tensorflow as tf

from rldyno_rig.backends.tensorflow_maths import forward
from rldyno_rig.usability.boards import Board

SAVED_BY = "tf.train.Checkpoint of variables"


def save(arrays: Dict[str, Any], path: Path) -> None:
    tf.train.Checkpoint(weights={name: tf.Variable(array) for name, array in arrays.items()}).write(str(path))


def load(path: Path, like: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    variables = {name: tf.Variable(tf.zeros_like(array)) for name, array in like.items()}
    tf.train.Checkpoint(weights=variables).read(str(path)).assert_consumed()
    return {name: variable.numpy() for name, variable in variables.items()}


class Network(tf.Module):
    """The backend's forward pass with the learner's weights in it, for observations of one shape."""

    def __init__(self, learner: Any, obs: np.ndarray) -> None:
        super().__init__()
        self.kept = {name: tf.Variable(array) for name, array in learner._named(learner.weights).items()}
        model = learner.model

        @tf.function(input_signature=[tf.TensorSpec(obs.shape, obs.dtype, "obs")], autograph=False)
        def serve(obs: Any) -> Dict[str, Any]:
            outputs = forward(model, self.kept, obs)
            return {"head{}".format(index): output for index, output in enumerate(outputs.values())}

        self.serve = serve


def saved_model(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    network = Network(learner, obs)
    path = str(directory / "network")
    tf.saved_model.save(network, path, signatures=network.serve)
    outputs = tf.saved_model.load(path).signatures["serving_default"](obs=tf.constant(obs))
    return tuple(outputs[name].numpy() for name in sorted(outputs))


def lite(learner: Any, obs: np.ndarray, directory: Path) -> Tuple[Any, ...]:
    network = Network(learner, obs)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [network.serve.get_concrete_function()], network
    )
    path = directory / "network.tflite"
    path.write_bytes(converter.convert())
    run = tf.lite.Interpreter(str(path)).get_signature_runner()
    outputs = run(obs=obs)
    return tuple(outputs[name] for name in sorted(outputs))


def onnx(learner: Any, obs: np.ndarray, directory: Path) -> None:
    import tf2onnx

    network = Network(learner, obs)
    signature = [tf.TensorSpec(obs.shape, obs.dtype, "obs")]
    path = str(directory / "model.onnx")
    tf2onnx.convert.from_function(network.serve, input_signature=signature, output_path=path)


def dataset(arrays: List[np.ndarray], rows: int, epochs: int) -> Iterator[Tuple[Any, ...]]:
    data = tf.data.Dataset.from_tensor_slices(tuple(arrays))
    data = data.shuffle(len(arrays[0])).batch(rows).prefetch(tf.data.AUTOTUNE)
    for _ in range(epochs):
        yield from data


def board(directory: Path) -> Board:
    writer = tf.summary.create_file_writer(str(directory))

    def write(tag: str, value: float, step: int) -> None:
        with writer.as_default():
            tf.summary.scalar(tag, value, step=step)

    return Board(write, writer.flush, writer.close)


BATCHES: Dict[str, Callable[..., Any]] = {"dataset": dataset}
EXPORTS: Dict[str, Callable[..., Any]] = {"savedmodel": saved_model, "tflite": lite, "onnx": onnx}
