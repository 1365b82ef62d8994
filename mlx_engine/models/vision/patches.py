"""What vision towers share: pictures cut to patches, weight shapes, attention among all patches."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from metal_kernels.stock import (
    AttentionOptions,
    StockOperations,
    computes_on_gpu,
    has_fused_attention,
    row_tiles,
)
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.vision.contract import TokenGrid
from mlx_engine.values.picture import Picture

BILINEAR, BICUBIC = 2, 3
"""Pillow's numbers of filters that resize."""


class PatchCut(NamedTuple):
    """How a resized picture is cut: `side` pixels of a patch, `merge` patches of a token a side.

    resample: Pillow's number of the filter that resizes. mean, deviation: of each colour, by which
    pixels from 0 to 1 are normalised.
    """

    side: int
    merge: int
    resample: int
    mean: Sequence[float] = (0.5,) * 3
    deviation: Sequence[float] = (0.5,) * 3

    @staticmethod
    def read(side: int, merge: int, process: ConfigFields, resample: int) -> "PatchCut":
        """Read filter and normalisation from preprocessor_config.json; resample: its default."""
        mean, deviation = process.numbers("image_mean"), process.numbers("image_std")
        chosen = process.count("resample", resample, minimum=0, maximum=5)
        return PatchCut(side, merge, chosen, mean or (0.5,) * 3, deviation or (0.5,) * 3)

    def patches(self, picture: Picture, grid: TokenGrid) -> NDArray[np.float32]:
        """Resize, normalise and cut a picture -> patches [N, 3 * side^2], token by token.

        A patch has its pixels by rows, the colours of a pixel side by side.
        """
        from PIL import Image

        side, merge, (rows, columns) = self.side, self.merge, grid
        size = columns * merge * side, rows * merge * side
        image = picture.decode().resize(size, Image.Resampling(self.resample))
        pixels = np.array(image, dtype=np.float32)
        pixels *= np.float32(1 / 255)
        pixels -= np.array(self.mean, np.float32)
        pixels /= np.array(self.deviation, np.float32)
        cut = pixels.reshape(rows, merge, side, columns, merge, side, 3)
        patches: NDArray[np.float32] = cut.transpose(0, 3, 1, 4, 2, 5, 6)
        return patches.reshape(-1, 3 * side**2)

    def positions(self, grid: TokenGrid) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column of each patch, token by token."""
        axes = np.indices((grid.rows, grid.columns, self.merge, self.merge)).reshape(4, -1)
        return axes[0] * self.merge + axes[2], axes[1] * self.merge + axes[3]


def positions_of_text(grid: TokenGrid) -> NDArray[np.int64]:
    """RoPE positions of a picture's tokens, int [3, tokens], that count on like those of text."""
    return np.tile(np.arange(grid.tokens), (3, 1))


def attend_to_all(
    queries: mx.array, keys: mx.array, values: mx.array, scale: float, stock: StockOperations
) -> mx.array:
    """Attention [1, heads, N, size] without a mask -> [1, N, heads * size].

    It runs in slices of rows where all scores at once would be large.
    """
    _, heads, rows, size = queries.shape
    shapes = queries.shape, keys.shape, values.shape[-1]
    is_fused = computes_on_gpu() and has_fused_attention(*shapes)
    slices = [slice(0, rows)]
    if not is_fused:
        slices = row_tiles(rows, heads * rows * queries.dtype.size)
    options = AttentionOptions(scale, None)
    made = [stock.attention(queries[:, :, s], keys, values, options) for s in slices]
    return mx.concatenate(made, axis=2).transpose(0, 2, 1, 3).reshape(1, rows, heads * size)


def linear_shapes(name: str, inputs: int, outputs: int) -> dict[str, Shape]:
    """Shapes of the weight and the bias of a linear layer."""
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def layer_norm_shapes(name: str, size: int) -> dict[str, Shape]:
    """Shapes of the weight and the bias of a layer norm."""
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}
