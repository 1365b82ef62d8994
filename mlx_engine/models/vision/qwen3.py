"""The vision tower of Qwen3-VL, Qwen3.5, 3.6 and 3.8 (transformers' Qwen3VLVisionModel).

A picture is resized so that both sides are whole multiples of a token's, and cut into patches, each
with a learned position (interpolated from a square table) and a rotary one by row and column. A
still picture counts as two equal frames, so the kernels of both are added up. The merger joins
2 x 2 patches to one token. Text tokens have three equal RoPE positions; a picture's share their
time and differ in row and column, and the text behind goes on after the longer side (M-RoPE, arXiv
2409.12191). Qwen3-VL's tower has further mergers, for outputs of inner layers, which are added
behind the first layers of the language model (deepstack, arXiv 2406.04334).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mlx_engine.models.feed_forward_specs import Activation
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.layers import Embedding, Linear, Norm, Rotation, activation
from mlx_engine.models.vision.contract import TokenGrid, VisionTower
from mlx_engine.models.vision.patches import (
    BICUBIC,
    BlockNames,
    PatchCut,
    VisionBlock,
    VisionConfig,
    layer_norm_shapes,
    linear_shapes,
)
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile, BadPicture
from mlx_engine.values.picture import Picture

_EPS = 1e-6
_MOST_PROPORTION = 200
_ROPE_BASE = 10000.0
_BLOCK = BlockNames(
    norms=("norm1", "norm2"),
    inputs=("attn.qkv",),
    output="attn.proj",
    up="mlp.linear_fc1",
    down="mlp.linear_fc2",
)


@dataclass(frozen=True, slots=True)
class Qwen3VisionSpec:
    """Sizes of a tower, from `vision_config`, and its picture processing.

    cut: how a resized picture is cut to patches. side: of the square table of learned positions.
    deep_layers: numbers of the layers whose outputs go into the language model, too. least_pixels,
    most_pixels: of a resized picture.
    """

    placeholder_token: int
    depth: int
    hidden: int
    intermediate: int
    heads: int
    cut: PatchCut
    side: int
    deep_layers: tuple[int, ...]
    out_hidden: int
    activation: str
    least_pixels: int
    most_pixels: int

    @staticmethod
    def read(config: VisionConfig, out_hidden: int) -> "Qwen3VisionSpec":
        """Read the spec from config.json and preprocessor_config.json.

        out_hidden: size of the language model's hidden states. Raises BadModelFile for wrong
        fields and for a tower of another model, UnsupportedModel for what is not run.
        """
        whole, fields, process = config
        fields.require({"in_channels": 3, "temporal_patch_size": 2})
        fields.require_multiple("hidden_size", "num_heads")
        hidden, heads = fields.count("hidden_size"), fields.count("num_heads")
        if hidden // heads % 4:
            raise fields.bad_field("num_heads", heads, "heads of 4, 8, 12, ... elements")
        if (outputs := fields.count("out_hidden_size")) != out_hidden:
            raise BadModelFile(
                "{origin}: the picture part makes {made} numbers of a token, the text part reads "
                "{wanted}. They belong to different models.",
                origin=fields.origin,
                made=outputs,
                wanted=out_hidden,
            )
        size = process.section("size") or process
        return Qwen3VisionSpec(
            placeholder_token=whole.count("image_token_id"),
            depth=fields.count("depth", maximum=1000),
            hidden=hidden,
            intermediate=fields.count("intermediate_size"),
            heads=heads,
            cut=PatchCut.read(
                fields.count("patch_size"), fields.count("spatial_merge_size", 2), process, BICUBIC
            ),
            side=math.isqrt(fields.count("num_position_embeddings")),
            deep_layers=fields.counts("deepstack_visual_indexes"),
            out_hidden=out_hidden,
            activation=fields.string("hidden_act", "gelu_pytorch_tanh"),
            least_pixels=size.count("shortest_edge", process.count("min_pixels", 65536)),
            most_pixels=size.count("longest_edge", process.count("max_pixels", 16777216)),
        )

    @property
    def tensors(self) -> dict[str, Shape]:
        """Shapes of all weights; the patch kernel as a matrix, its two frames added up."""
        hidden, joined = self.hidden, self.hidden * self.cut.merge**2
        shapes: dict[str, Shape] = {
            **linear_shapes("patch_embed.proj", 3 * self.cut.side**2, hidden),
            "pos_embed.weight": (self.side**2, hidden),
        }
        mergers = {f"deepstack_merger_list.{n}": joined for n in range(len(self.deep_layers))}
        for merger, normed in ({"merger": hidden} | mergers).items():
            shapes |= layer_norm_shapes(f"{merger}.norm", normed)
            shapes |= linear_shapes(f"{merger}.linear_fc1", joined, joined)
            shapes |= linear_shapes(f"{merger}.linear_fc2", joined, self.out_hidden)
        for number in range(self.depth):
            shapes |= _BLOCK.shapes(f"blocks.{number}", hidden, self.intermediate)
        return shapes

    def token_grid(self, picture: Picture) -> TokenGrid:
        """Compute the grid of a picture's tokens, as Qwen's `smart_resize`. Raises BadPicture."""
        height, width, token = picture.height, picture.width, self.cut.side * self.cut.merge
        if max(height, width) > _MOST_PROPORTION * min(height, width):
            raise BadPicture(
                "A picture of {width} x {height} pixels is too long for this model: cut it so "
                "that no side is more than {most} times the other.",
                width=width,
                height=height,
                most=_MOST_PROPORTION,
            )
        rows, columns = round(height / token), round(width / token)
        if rows * columns * token**2 > self.most_pixels:
            shrink = math.sqrt(height * width / self.most_pixels)
            rows = max(1, math.floor(height / shrink / token))
            columns = max(1, math.floor(width / shrink / token))
        elif rows * columns * token**2 < self.least_pixels:
            grow = math.sqrt(self.least_pixels / (height * width))
            rows, columns = (math.ceil(side * grow / token) for side in (height, width))
        return TokenGrid(rows, columns)


class Qwen3Tower(VisionTower):
    """Vision tower of Qwen3-VL to Qwen3.8, built from its spec and weights."""

    reads_whole_pictures = False

    def __init__(self, spec: Qwen3VisionSpec, table: WeightTable, identity: str = "") -> None:
        """Build the tower. Raises BadModelFile for weights missing, misshapen or left over."""
        super().__init__(spec.placeholder_token, spec.depth, identity)
        self._spec, part = spec, Part(table, "", spec.tensors)
        self._patches = Linear.read(part, "patch_embed.proj")
        learned = part.matrix("pos_embed")
        self._learned = Embedding.from_matrix(learned, learned.dtype, part.kernels)
        function: Activation = "gelu_tanh" if spec.activation == "gelu_pytorch_tanh" else "gelu"
        blocks = (part.subpart(f"blocks.{number}") for number in range(spec.depth))
        self._blocks = [VisionBlock(block, _BLOCK, spec.heads, _EPS, function) for block in blocks]
        self._merger = _Merger(part.subpart("merger"))
        self._deep_mergers = {
            layer: _Merger(part.subpart(f"deepstack_merger_list.{number}"))
            for number, layer in enumerate(spec.deep_layers)
        }
        table.check_all_used()

    @override
    def token_grid(self, picture: Picture) -> TokenGrid:
        return self._spec.token_grid(picture)

    @override
    def rope_positions(self, grid: TokenGrid) -> NDArray[np.int64]:
        row, column = np.divmod(np.arange(grid.tokens), grid.columns)
        return np.stack([np.zeros_like(row), row, column])

    @override
    def encode(self, picture: Picture) -> Iterator[mx.array]:
        spec, grid = self._spec, self.token_grid(picture)
        dtype = self._patches.matrix.dtype
        x = self._patches(mx.array(spec.cut.patches(picture, grid))[None].astype(dtype))
        row, column = spec.cut.positions(grid)
        x = x + self._learned_positions(row, column, grid).astype(dtype)
        rotation = _rotation(row, column, spec.hidden // spec.heads)
        deep = []
        for number, block in enumerate(self._blocks):
            x = block(x, rotation)
            if number in self._deep_mergers:
                deep.append(self._deep_mergers[number](x, grid))
            mx.eval(x, deep)
            yield x
        made = mx.concatenate([self._merger(x, grid), *deep], axis=-1)
        mx.eval(made)
        yield made

    def _learned_positions(
        self, row: NDArray[np.int64], column: NDArray[np.int64], grid: TokenGrid
    ) -> mx.array:
        """Interpolate the table of learned positions at all patches -> float32 [1, N, H]."""
        spec = self._spec
        down, low, high = _bilinear_neighbours(row, grid.rows * spec.cut.merge, spec.side)
        right, left, far = _bilinear_neighbours(column, grid.columns * spec.cut.merge, spec.side)
        corners = (
            (low, left, (1 - down) * (1 - right)),
            (low, far, (1 - down) * right),
            (high, left, down * (1 - right)),
            (high, far, down * right),
        )
        return sum(
            (
                self._learned(mx.array(y * spec.side + x)).astype(mx.float32)
                * mx.array(weight.astype(np.float32))[:, None]
                for y, x, weight in corners
            ),
            start=mx.zeros((1, 1, 1)),
        )


class _Merger:
    """Joins the patches of each token to its embedding, after a norm of each patch or token."""

    def __init__(self, part: Part) -> None:
        self._norm = Norm.read(part, "norm", _EPS, is_layer_norm=True)
        self._join, self._out = (Linear.read(part, f"linear_fc{n}") for n in (1, 2))

    def __call__(self, x: mx.array, grid: TokenGrid) -> mx.array:
        normed = self._norm(x.reshape(1, -1, self._norm.weight.size))
        return self._out(activation("gelu")(self._join(normed.reshape(1, grid.tokens, -1))))


def _bilinear_neighbours(
    coordinates: NDArray[np.int64], picture_side: int, grid_side: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Map 0 to picture_side - 1 onto a table of `grid_side`: weight of the next, this, next."""
    exact = coordinates * ((grid_side - 1) / max(1, picture_side - 1))
    before = np.floor(exact).astype(np.int64)
    return exact - before, before, np.minimum(before + 1, grid_side - 1)


def _rotation(row: NDArray[np.int64], column: NDArray[np.int64], size: int) -> Rotation:
    """Rotation of heads of `size` elements: a quarter of them by row, a quarter by column."""
    rates = _ROPE_BASE ** (-np.arange(0, size // 2, 2) / (size // 2))
    return Rotation.from_angles(
        np.concatenate([np.outer(row, rates), np.outer(column, rates)], axis=1)
    )
