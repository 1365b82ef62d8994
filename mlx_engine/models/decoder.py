"""A decoder built from a ModelSpec: embedding, blocks, norm, output head, MTP heads."""

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from mlx_engine.cache.attention import RowsCache, positions
from mlx_engine.cache.by_length import CacheByLength
from mlx_engine.cache.contract import LayerCache, LayerCaches
from mlx_engine.cache.joint import JointCache, JointCaches, each
from mlx_engine.models import specs
from mlx_engine.models.attention import Masks
from mlx_engine.models.blocks import DecoderBlock
from mlx_engine.models.contract import JointForward
from mlx_engine.models.few_rows import FewRows
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.mtp_head import DecoderHead
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import CacheBits


def build_decoder(
    spec: specs.ModelSpec, trunk: WeightTable, heads: WeightTable | None
) -> "Decoder":
    """Build a model; BadModelFile when a tensor is missing, misshapen or left over."""
    model = Decoder(spec, trunk, heads)
    trunk.check_all_used()
    if heads is not None:
        heads.check_all_used()
    return model


class Decoder:
    """models/contract.py's Model for every family that is described by a ModelSpec."""

    plain_only: Reason | None = None

    def __init__(
        self, spec: specs.ModelSpec, trunk: WeightTable, heads: WeightTable | None
    ) -> None:
        part = Part(trunk, "", spec.tensors(trunk.names))
        matrix = part.matrix("embed_tokens")
        self._spec, self.packed_cache = spec, spec.packed_cache
        self.vocabulary, self.hidden_size = spec.vocabulary, spec.hidden
        self._norm = Norm.read(part, "norm", spec.eps, centred=spec.norm == "layer")
        self._blocks, self._kinds = _read_blocks(spec, part)
        dtype = min((block.dtype for block in self._blocks), key=lambda one: one.size)
        stock = self._stock = trunk.kernels.stock
        self._rows = Embedding(matrix, dtype, stock=stock)
        self._embedding = Embedding(matrix, dtype, spec.embed_scale, stock)
        self._positions = None
        if spec.positions:
            self._positions = Embedding(part.matrix("embed_positions"), dtype, stock=stock)
        output = part.matrix("lm_head") if "lm_head.weight" in part else matrix
        bias = part.vector("lm_head.bias", output.dtype) if spec.logit_bias else None
        self._output = Linear.of(output, trunk.kernels, bias)
        is_plain = bias is None and spec.logit_scale == 1.0 and not spec.logit_cap
        self._residual_out = spec.heads is not None and spec.heads.trunk_state == "residual"
        picks = is_plain and not self._residual_out  # else states are not what the output takes
        self.output_rows = FewRows.of(output, trunk.kernels, "pick") if picks else None
        every = None if heads is None else Part(heads, "", spec.head_tensors(heads.names))
        self.heads = [
            DecoderHead(spec, number, part, self._embedding, self._norm, self._output)
            for number, part in enumerate(() if every is None else _head_parts(every))
        ]

    @property
    def layers(self) -> int:
        """How many blocks the trunk has."""
        return len(self._blocks)

    def one_of_each_kind(self) -> "Decoder":
        """A copy with one block of every kind and stored form, for quick comparisons of rows."""
        few = copy(self)
        few._blocks = self._kinds
        return few

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Empty caches for the trunk."""
        border, make = self._spec.long_beyond, partial(self._caches_of_blocks, bits)
        return make() if border is None else LayerCaches([CacheByLength(make, border)])

    def _caches_of_blocks(self, bits: CacheBits) -> LayerCaches:
        return LayerCaches([cache for block in self._blocks for cache in block.make_caches(bits)])

    def embed(self, tokens: mx.array) -> mx.array:
        """Int tokens [..., T] -> [..., T, H], unscaled."""
        return self._rows(tokens)

    def forward(self, tokens: mx.array, caches: LayerCaches | JointCaches) -> mx.array:
        """Int tokens [1, T] -> the hidden states [1, T, H] that output head and heads read."""
        return self.forward_with(tokens, caches, ())

    @property
    def joint(self) -> JointForward | None:
        """One pass over several conversations; None for models with a second RoPE table."""
        return self.forward if self._spec.long_beyond is None else None

    def forward_with(
        self,
        tokens: mx.array,
        caches: LayerCaches | JointCaches,
        after: Sequence[int],
    ) -> mx.array:
        """The same and, behind them, the residuals after these layers (-1: the embedding)."""
        first = caches.layers[0]
        if isinstance(first, CacheByLength):
            return first.read(tokens, partial(self._read, after=after))
        return self._read(tokens, caches, after=after)

    def _read(
        self,
        tokens: mx.array,
        caches: LayerCaches | JointCaches,
        *,
        after: Sequence[int],
        is_long: bool = False,
    ) -> mx.array:
        x, masks = self._embedding(tokens), Masks(is_long=is_long)
        layers: Sequence[LayerCache | JointCache] = caches.layers
        if self._spec.embed_norm:
            x = self._norm(x)
        if self._positions is not None:
            x = each(layers[0], self._placed, x)
        heard = {-1: x} if after else {}
        left = iter(layers)
        for number, block in enumerate(self._blocks):
            x = block(x, left, masks)
            self._stock.begin(x)
            if number in after:
                heard[number] = x
        hidden = x if self._residual_out else self._norm(x)
        if not after:
            return hidden
        return mx.concatenate([hidden, *(heard[number] for number in after)], axis=-1)

    def _placed(self, cache: LayerCache, x: mx.array) -> mx.array:
        """Add position embeddings to the embeddings [1, T, H] of one conversation."""
        assert isinstance(cache, RowsCache)
        assert self._positions is not None
        return x + self._positions(positions(cache.start(), range(x.shape[1])))

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V]."""
        normed = self._norm(hidden) if self._residual_out else hidden
        logits = self._output(normed).astype(mx.float32)
        scale, cap = self._spec.logit_scale, self._spec.logit_cap
        scaled = logits if scale == 1.0 else logits * scale
        return cap * mx.tanh(scaled / cap) if cap else scaled


class _Blocks(NamedTuple):
    """All blocks, and the first block of every kind."""

    every: list[DecoderBlock]
    kinds: list[DecoderBlock]


def _read_blocks(spec: specs.ModelSpec, part: Part) -> _Blocks:
    blocks: list[DecoderBlock] = []
    kinds: list[DecoderBlock] = []
    seen: list[tuple[specs.Block, list[tuple[mx.Dtype, tuple[int, ...]]]]] = []
    for number, block in enumerate(spec.blocks):
        before = len(part.table.handed_out)
        made = DecoderBlock(block, part.below(f"layers.{number}"), spec)
        forms = [(array.dtype, array.shape) for array in part.table.handed_out[before:]]
        blocks.append(made)
        if (block, forms) not in seen:
            seen.append((block, forms))
            kinds.append(made)
    return _Blocks(blocks, kinds)


def _head_parts(every: Part) -> list[Part]:
    """Parts of a weight table, one for each MTP head."""
    parts = [every.below("layers.0")]
    while "join.weight" in (further := every.below(f"layers.{len(parts)}")):
        parts.append(further)
    return parts
