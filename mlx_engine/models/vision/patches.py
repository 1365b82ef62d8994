"""Parts that vision towers share: configs, pictures cut to patches, transformer blocks."""

from collections.abc import Mapping, Sequence
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
from mlx_engine.models.feed_forward_specs import Activation
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.layers import Linear, Norm, Rotation, activation
from mlx_engine.models.vision.contract import TokenGrid
from mlx_engine.models.weights import Part
from mlx_engine.values.picture import Picture

BILINEAR, BICUBIC = 2, 3
"""Pillow's numbers of filters that resize."""


class VisionConfig(NamedTuple):
    """Fields of config.json, of its `vision_config`, and of preprocessor_config.json."""

    whole: ConfigFields
    tower: ConfigFields
    process: ConfigFields

    @staticmethod
    def of(
        config: Mapping[str, object], processing: Mapping[str, object], origin: str
    ) -> "VisionConfig":
        """Wrap both configs. Raises BadModelFile where `vision_config` is no object."""
        whole = ConfigFields(config, origin)
        tower = whole.section("vision_config") or ConfigFields({}, origin)
        return VisionConfig(whole, tower, ConfigFields(processing, origin))


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


class BlockNames(NamedTuple):
    """Names of the parts of a `VisionBlock` in a tower's files.

    inputs: of projections to queries, keys and values, or of one to all of them side by side.
    """

    norms: tuple[str, str]
    inputs: tuple[str, ...]
    output: str
    up: str
    down: str

    def shapes(self, prefix: str, hidden: int, inner: int) -> dict[str, Shape]:
        """Shapes of the weights of a block whose names begin with `prefix` and a dot."""
        sizes = {name: (hidden, 3 * hidden // len(self.inputs)) for name in self.inputs}
        sizes |= {self.output: (hidden, hidden), self.up: (hidden, inner)}
        sizes |= {self.down: (inner, hidden)}
        made: dict[str, Shape] = {}
        for norm in self.norms:
            made |= layer_norm_shapes(f"{prefix}.{norm}", hidden)
        for name, (inputs, outputs) in sizes.items():
            made |= linear_shapes(f"{prefix}.{name}", inputs, outputs)
        return made


class VisionBlock:
    """Block of a vision transformer: attention among all patches, a feed-forward, norms before."""

    def __init__(
        self, part: Part, names: BlockNames, heads: int, eps: float, function: Activation
    ) -> None:
        self._heads, self._stock = heads, part.kernels.stock
        self._norms = [Norm.read(part, name, eps, is_layer_norm=True) for name in names.norms]
        self._inputs = [Linear.read(part, name) for name in names.inputs]
        self._output, self._up, self._down = (
            Linear.read(part, name) for name in (names.output, names.up, names.down)
        )
        self._activate = activation(function)

    def __call__(self, x: mx.array, rotation: Rotation | None = None) -> mx.array:
        """Run the block on states [1, N, H] of N patches; rotation: of queries and keys."""
        before, before_feed = self._norms
        x = x + self._output(self._attend(before(x), rotation))
        return x + self._down(self._activate(self._up(before_feed(x))))

    def _attend(self, x: mx.array, rotation: Rotation | None) -> mx.array:
        split, sides = (1, x.shape[1], 3 // len(self._inputs), self._heads, -1), []
        for (
            linear
        ) in self._inputs:  # indices and no split, after which all tiles' scores would live
            joined = linear(x).reshape(split).transpose(2, 0, 3, 1, 4)
            sides += [joined[number] for number in range(len(joined))]
        queries, keys, values = sides
        if rotation is not None:
            queries, keys = rotation(queries), rotation(keys)
        return attend_to_all(queries, keys, values, queries.shape[-1] ** -0.5, self._stock)
