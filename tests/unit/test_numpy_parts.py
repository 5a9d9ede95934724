"""The short cuts of the NumPy backend against their definitions in the reference."""

from __future__ import annotations

import numpy as np
import pytest

from rldyno_rig.algorithms import ALGORITHMS
from rldyno_rig.backends import in_place
from rldyno_rig.backends.numpy_windows import add_windows, copy_windows, window_shape
from rldyno_rig.reference import losses

SHAPES = [(8, 4), (4, 2), (3, 1), (3, 2), (2, 3), (5, 3)]
"""Kernels and strides: with and without overlap, and some that do not divide each other."""


@pytest.mark.parametrize(("kernel", "stride"), SHAPES)
def test_windows_are_those_of_the_images(kernel: int, stride: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 13, 11, 3))
    copied = np.empty(window_shape(x.shape, kernel, stride))
    copy_windows(x, stride, copied)
    for row in range(copied.shape[1]):
        for column in range(copied.shape[2]):
            top, left = row * stride, column * stride
            seen = x[:, top : top + kernel, left : left + kernel]
            assert np.array_equal(copied[:, row, column], seen.reshape(2, kernel, -1))


@pytest.mark.parametrize(("kernel", "stride"), SHAPES)
def test_what_windows_hand_back_is_the_transpose_of_copying_them(kernel: int, stride: int) -> None:
    """⟨copy(x), h⟩ = ⟨x, add(h)⟩ for any x and h."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 13, 11, 3))
    copied, back = np.empty(window_shape(x.shape, kernel, stride)), np.full_like(x, np.nan)
    handed = rng.standard_normal(copied.shape)
    copy_windows(x, stride, copied)
    add_windows(handed, stride, back)
    assert np.vdot(copied, handed) == pytest.approx(np.vdot(x, back), rel=1e-12)


def test_the_projection_is_the_references_at_the_edges_of_the_support_too() -> None:
    rainbow = ALGORITHMS["rainbow"]
    hyper = rainbow.hyper()
    spec = rainbow.spec(hyper, (4,), "float32", 2)
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(hyper.atoms), 7)
    spacing = (hyper.v_max - hyper.v_min) / (hyper.atoms - 1)
    reward = np.array([0, 0.3, 1e4, -1e4, spacing, hyper.v_max, hyper.v_min])
    discount = np.array([0.99, 0.97, 0.99, 0.99, 1.0, 0.0, 0.0])
    right = losses.project(spec, reward, discount, p)
    assert np.allclose(in_place.project(spec, reward, discount, p), right, rtol=0, atol=1e-14)
    single = [array.astype(np.float32) for array in (reward, discount, p)]
    projected = in_place.project(spec, *single)
    assert projected.dtype == np.float32
    assert np.allclose(projected, right, rtol=0, atol=1e-6)
