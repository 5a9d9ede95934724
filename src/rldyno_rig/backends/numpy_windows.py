"""Windows of images as rows of one matrix, and back. Images are contiguous, channels last."""

from __future__ import annotations

from typing import Tuple

import numpy as np


def window_shape(image: Tuple[int, ...], kernel: int, stride: int) -> Tuple[int, ...]:
    """[batch, rows, columns, kernel, kernel · channels] of images [batch, height, width, channels]."""
    size, height, width, channels = image
    rows, columns = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    return size, rows, columns, kernel, kernel * channels


def copy_windows(x: np.ndarray, stride: int, out: np.ndarray) -> None:
    """Of the images x into `out`, of `window_shape`. A row of a window is one run in memory."""
    per_image, per_row, per_column, per_channel = x.strides
    strides = (per_image, stride * per_row, stride * per_column, per_row, per_channel)
    np.copyto(out, np.ndarray(out.shape, x.dtype, x, 0, strides))


def add_windows(handed: np.ndarray, stride: int, out: np.ndarray) -> None:
    """out := for each pixel the sum over the windows that saw it; `handed` is of `window_shape`."""
    out.fill(0)
    kernel, channels = handed.shape[3], out.shape[3]
    handed = handed.reshape(*handed.shape[:4], kernel, channels)
    per_image, per_row, per_column, per_channel = out.strides
    strides = (per_image, stride * per_row, stride * per_column, per_row, per_column, per_channel)
    # Pieces of windows no larger than the stride do not overlap, so that they are added all at once.
    for i in range(0, kernel, stride):
        for j in range(0, kernel, stride):
            piece = handed[:, :, :, i : i + stride, j : j + stride]
            place = np.ndarray(piece.shape, out.dtype, out, i * per_row + j * per_column, strides)
            place += piece
