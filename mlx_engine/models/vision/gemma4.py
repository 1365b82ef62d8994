"""The vision tower of Gemma 4 (transformers' Gemma4VisionModel and Gemma4MultimodalEmbedder).

A picture keeps its proportions: it is resized to the largest grid of whole tokens within a budget
(280 by default). Patches have a learned position by row and one by column, and rotary ones; tokens
are averages of 3 x 3 patches. Some checkpoints clip the inputs and outputs of linear layers, or
standardise the tokens. Gemma 4 12B has another tower (gemma4_unified.py).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layer_specs import Shape
from mlx_engine.models.layers import Linear, Norm, Rotation, activation
from mlx_engine.models.vision.contract import TokenGrid, VisionTower
from mlx_engine.models.vision.patches import (
    BICUBIC,
    PatchCut,
    VisionConfig,
    attend_to_all,
)
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.picture import Picture

_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
PROMPT_TEXTS: Mapping[str, str] = MappingProxyType({"<|image|>": "<|image><|image|><image|>"})
"""Text of the chat template for a picture -> text in the prompt."""

_LIMITS = ("input_min", "input_max", "output_min", "output_max")


@dataclass(frozen=True, slots=True)
class Gemma4VisionSpec:
    """Sizes of a tower, from `vision_config`, and its picture processing.

    positions: rows of each table of learned positions. most_tokens: of a picture. clips: whether
    linear layers of the blocks have limits. standardises: whether tokens are shifted and scaled.
    """

    placeholder_token: int
    depth: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    cut: PatchCut
    positions: int
    most_tokens: int
    rope_base: float
    eps: float
    clips: bool
    standardises: bool
    out_hidden: int

    @staticmethod
    def read(config: VisionConfig, out_hidden: int) -> "Gemma4VisionSpec":
        """Read the spec from config.json and preprocessor_config.json.

        Raises BadModelFile for wrong fields, UnsupportedModel for what is not run.
        """
        whole, fields, process = config
        fields.require({"hidden_activation": "gelu_pytorch_tanh", "attention_bias": False})
        heads, head_dim = fields.count("num_attention_heads"), fields.count("head_dim", 64)
        if head_dim % 4:
            raise fields.bad_field("head_dim", head_dim, "a multiple of 4")
        pool, most = fields.count("pooling_kernel_size", 3), process.count("max_soft_tokens", 280)
        positions = fields.count("position_embedding_size", 10240)
        if positions < most * pool:
            raise fields.bad_field("position_embedding_size", positions, f"at least {most * pool}")
        rope = fields.section("rope_parameters") or ConfigFields({}, fields.origin)
        cut = PatchCut.read(fields.count("patch_size", 16), pool, process, BICUBIC)
        return Gemma4VisionSpec(
            placeholder_token=whole.count("image_token_id", 258880),
            depth=fields.layers(),
            hidden=fields.count("hidden_size"),
            intermediate=fields.count("intermediate_size"),
            heads=heads,
            kv_heads=fields.kv_heads(heads),
            head_dim=head_dim,
            cut=cut._replace(mean=(0.5,) * 3, deviation=(0.5,) * 3),
            positions=positions,
            most_tokens=most,
            rope_base=rope.number("rope_theta", 100.0),
            eps=fields.number("rms_norm_eps", 1e-6),
            clips=fields.flag("use_clipped_linears", default=False),
            standardises=fields.flag("standardize", default=False),
            out_hidden=out_hidden,
        )

    @property
    def tensors(self) -> dict[str, Shape]:
        """Shapes of all weights."""
        hidden = self.hidden
        shapes: dict[str, Shape] = {
            "patch_embedder.input_proj.weight": (hidden, 3 * self.cut.side**2),
            "patch_embedder.position_embedding_table": (2, self.positions, hidden),
            "embed_vision.embedding_projection.weight": (self.out_hidden, hidden),
        }
        if self.standardises:
            shapes |= {"std_bias": (hidden,), "std_scale": (hidden,)}
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        linears = {
            "self_attn.q_proj": (queries, hidden),
            "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden),
            "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (self.intermediate, hidden),
            "mlp.up_proj": (self.intermediate, hidden),
            "mlp.down_proj": (hidden, self.intermediate),
        }
        for number in range(self.depth):
            block = f"encoder.layers.{number}"
            for name, shape in linears.items():
                shapes[f"{block}.{name}.weight"] = shape
                if self.clips:
                    shapes |= {f"{block}.{name}.{limit}": () for limit in _LIMITS}
            shapes |= {f"{block}.{name}.weight": (hidden,) for name in _NORMS}
            names = ("q_norm", "k_norm")
            shapes |= {f"{block}.self_attn.{name}.weight": (self.head_dim,) for name in names}
        return shapes


def largest_grid(picture: Picture, token_side: int, most_tokens: int) -> TokenGrid:
    """Compute the largest grid of tokens that has a picture's proportions.

    token_side: pixels along each side of a token.
    """
    height, width = picture.height, picture.width
    factor = math.sqrt(most_tokens * token_side**2 / (height * width))
    rows, columns = (math.floor(factor * side / token_side) for side in (height, width))
    if not rows:
        return TokenGrid(1, min(width // height, most_tokens))
    if not columns:
        return TokenGrid(min(height // width, most_tokens), 1)
    return TokenGrid(rows, columns)


class Gemma4Tower(VisionTower):
    """Vision tower of Gemma 4, built from its spec and weights."""

    prompt_texts = PROMPT_TEXTS

    def __init__(self, spec: Gemma4VisionSpec, table: WeightTable, identity: str = "") -> None:
        """Build the tower. Raises BadModelFile for weights missing, misshapen or left over."""
        super().__init__(spec.placeholder_token, spec.depth, identity)
        self._spec, part = spec, Part(table, "", spec.tensors)
        self._patches = Linear.read(part, "patch_embedder.input_proj")
        self._learned = part.vector("patch_embedder.position_embedding_table")
        blocks = (part.subpart(f"encoder.layers.{number}") for number in range(spec.depth))
        self._blocks = [_Block(spec, block) for block in blocks]
        self._shift, self._scale = mx.zeros(()), mx.ones(())
        if spec.standardises:
            names = ("std_bias", "std_scale")
            self._shift, self._scale = (part.vector(name, mx.float32) for name in names)
        self._norm = plain_norm(spec.hidden, spec.eps, part)
        self._out = Linear.read(part, "embed_vision.embedding_projection")
        table.check_all_used()

    @override
    def token_grid(self, picture: Picture) -> TokenGrid:
        cut = self._spec.cut
        return largest_grid(picture, cut.side * cut.merge, self._spec.most_tokens)

    @override
    def encode(self, picture: Picture) -> Iterator[mx.array]:
        spec, grid = self._spec, self.token_grid(picture)
        row, column = spec.cut.positions(grid)
        patches = mx.array(spec.cut.patches(picture, grid))[None]
        x = self._patches(patches.astype(self._learned.dtype))
        by_column, by_row = self._learned
        x = x + (by_column[mx.array(column)] + by_row[mx.array(row)])
        rotations = [_rotation(places, spec) for places in (column, row)]
        for block in self._blocks:
            x = block(x, rotations)
            mx.eval(x)
            yield x
        groups = x.reshape(1, grid.tokens, -1, spec.hidden).astype(mx.float32)
        tokens = groups.mean(axis=2).astype(x.dtype).astype(mx.float32) * math.sqrt(spec.hidden)
        standardised = ((tokens - self._shift) * self._scale).astype(x.dtype)
        made = self._out(self._norm(standardised))
        mx.eval(made)
        yield made


class _Block:
    """A block of the tower: attention among all patches, then a gated feed-forward."""

    def __init__(self, spec: Gemma4VisionSpec, part: Part) -> None:
        self._size, self._stock = spec.head_dim, part.kernels.stock
        attention, feed = part.subpart("self_attn"), part.subpart("mlp")
        *self._inputs, self._output = (
            _ClippedLinear(attention, f"{name}_proj") for name in ("q", "k", "v", "o")
        )
        self._gate, self._up, self._down = (
            _ClippedLinear(feed, f"{name}_proj") for name in ("gate", "up", "down")
        )
        read_norm = partial(Norm.read, eps=spec.eps)
        self._norms = [read_norm(part, name) for name in _NORMS]
        self._head_norms = [
            read_norm(attention, "q_norm"),
            read_norm(attention, "k_norm"),
            plain_norm(spec.head_dim, spec.eps, part),
        ]
        self._activate = activation("gelu_tanh")

    def __call__(self, x: mx.array, rotations: list[Rotation]) -> mx.array:
        before, after, before_feed, after_feed = self._norms
        x = x + after(self._output(self._attend(before(x), rotations)))
        inner = before_feed(x)
        return x + after_feed(self._down(self._activate(self._gate(inner)) * self._up(inner)))

    def _attend(self, x: mx.array, rotations: list[Rotation]) -> mx.array:
        split = (1, x.shape[1], -1, self._size)
        parts = [
            norm(linear(x).reshape(split)).transpose(0, 2, 1, 3)
            for linear, norm in zip(self._inputs, self._head_norms, strict=True)
        ]
        queries, keys = (_rotate(side, rotations) for side in parts[:2])
        return attend_to_all(queries, keys, parts[2], 1.0, self._stock)


class _ClippedLinear:
    """Linear layer whose inputs and outputs are clipped where its weights come with limits."""

    def __init__(self, part: Part, name: str) -> None:
        self._linear = Linear.read(part, name)
        names = [f"{name}.{limit}" for limit in _LIMITS if f"{name}.{limit}" in part]
        self._limits = [part.vector(limit) for limit in names]

    def __call__(self, x: mx.array) -> mx.array:
        if not self._limits:
            return self._linear(x)
        low, high, least, most = (limit.astype(x.dtype) for limit in self._limits)
        return mx.clip(self._linear(mx.clip(x, low, high)), least, most)


def plain_norm(size: int, eps: float, part: Part) -> Norm:
    """RMS norm without a weight."""
    return Norm.from_weight(mx.ones(size, part.table.computed), part, eps)


def _rotation(places: NDArray[np.int64], spec: Gemma4VisionSpec) -> Rotation:
    """Rotation of half a head by the rows or columns of all patches."""
    half = spec.head_dim // 2
    return Rotation.from_angles(np.outer(places, spec.rope_base ** (-np.arange(0, half, 2) / half)))


def _rotate(x: mx.array, rotations: list[Rotation]) -> mx.array:
    """Rotate the first half of heads [1, heads, N, size] by column, the second by row."""
    sides = zip(mx.split(x, 2, axis=-1), rotations, strict=True)
    return mx.concatenate([rotation(side) for side, rotation in sides], axis=-1)
