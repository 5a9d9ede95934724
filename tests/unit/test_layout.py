"""Weights keep their values on the way into a framework's layout and back."""

from __future__ import annotations

import numpy as np
import pytest

from rldyno_rig import layout
from rldyno_rig.layout import Layout, Native
from rldyno_rig.proof.forms import variants
from rldyno_rig.spec import Network, draw_params

NATIVES = [layout.canonical, layout.filters_first, layout.outputs_first, layout.channels_last]


def network_of(algorithm: str, kind: str) -> Network:
    return variants(algorithm, kind)[0][1].network


@pytest.mark.parametrize("native", NATIVES, ids=lambda native: native.__name__)
@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("algorithm", ["rainbow", "ppo"])
def test_unpack_is_the_inverse_of_pack(algorithm: str, kind: str, native: Native) -> None:
    spec = variants(algorithm, kind)[0][1]
    params = draw_params(spec, np.random.default_rng(0))
    placed = Layout(spec.network, native)
    flat = placed.pack(params)
    assert flat.shape == (placed.size,)
    again = placed.unpack(flat)
    assert list(again) == list(params)
    for name, array in params.items():
        np.testing.assert_array_equal(again[name], array)
    for name, view in placed.views(flat).items():
        assert np.shares_memory(view, flat)
        np.testing.assert_array_equal(view, native(spec.network, name, params[name]))


def test_rows_on_an_image_move_from_channels_first_to_channels_last() -> None:
    network = network_of("dqn", "cnn")
    channels, height, width = layout.convolution_outputs(network)[-1]
    rows = channels * height * width
    array = np.arange(rows * 2).reshape(rows, 2)
    moved = layout.channels_last(network, "torso.dense0.w", array)
    c, h, w = 3, 1, 2
    canonical_row, native_row = (c * height + h) * width + w, (h * width + w) * channels + c
    np.testing.assert_array_equal(moved[native_row], array[canonical_row])


def test_only_weights_on_an_image_move() -> None:
    network = network_of("dqn", "cnn")
    for name in ("torso.dense0.b", "q.w", "torso.conv0.w"):
        assert not layout.takes_image(network, name)
    assert layout.takes_image(network, "torso.dense0.w")
    assert not layout.takes_image(network_of("dqn", "mlp"), "torso.dense0.w")


def test_filters_come_first_where_the_framework_wants_them() -> None:
    network = network_of("dqn", "cnn")
    kernel = np.arange(4 * 4 * 3 * 6).reshape(4, 4, 3, 6)
    dense = np.arange(6).reshape(2, 3)
    for native in (layout.filters_first, layout.outputs_first):
        assert native(network, "torso.conv0.w", kernel)[5, 2, 1, 3] == kernel[1, 3, 2, 5]
    assert layout.filters_first(network, "q.w", dense).shape == (2, 3)
    assert layout.outputs_first(network, "q.w", dense).shape == (3, 2)
