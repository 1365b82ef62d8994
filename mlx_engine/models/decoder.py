"""Decoder built from a ModelSpec: embedding, blocks, final norm, output head and MTP heads."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.mtp_input import MtpInputNorms
from mlx_engine.cache.attention import RowsCache, row_positions
from mlx_engine.cache.by_length import CacheByLength
from mlx_engine.cache.contract import LayerCache, LayerCaches
from mlx_engine.cache.joint import ConversationCaches, JointCache, run_each_conversation
from mlx_engine.models import model_spec
from mlx_engine.models.attention import Masks
from mlx_engine.models.blocks import DecoderBlock, PerLayerEmbedding, ShortcutBlock
from mlx_engine.models.contract import WAITS_FOR_TOKENS, JointForward
from mlx_engine.models.hyper_connections import (
    LastConnection,
    StreamBlock,
    StreamsMtpInput,
    last_connection_of,
)
from mlx_engine.models.kernel_matrices import FewRowMatrix
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.relative_attention import ConvolvedBlock
from mlx_engine.models.vision.contract import PictureRows
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import Reason
from mlx_engine.values.options import CacheBits


def build_decoder(
    spec: model_spec.ModelSpec, trunk: WeightTable, heads: WeightTable | None
) -> "Decoder":
    """Build a decoder; raises BadModelFile for weights that are missing, misshapen or left over."""
    model = Decoder(spec, trunk, heads)
    trunk.check_all_used()
    if heads is not None:
        heads.check_all_used()
    return model


_STARTED_TOGETHER = 4
"""Layers that a GPU begins with together, where no pass is queued behind the present one."""


class Decoder:
    """A decoder-only transformer or hybrid described by a ModelSpec; implements contract.Model."""

    why_no_drafts: Reason | None = None

    def __init__(
        self, spec: model_spec.ModelSpec, trunk: WeightTable, heads: WeightTable | None
    ) -> None:
        part = Part(trunk, "", spec.tensors(trunk.untaken_names))
        matrix = part.matrix("embed_tokens")
        self.spec, self.packed_cache = spec, spec.packed_cache
        reads = any(block.ngrams is not None for block in spec.blocks)
        self.why_no_lookahead = WAITS_FOR_TOKENS if reads else None
        self._residual_out = spec.heads is not None and spec.heads.trunk_state == "residual"
        self.vocabulary = spec.vocabulary
        self.hidden_size = spec.width if self._residual_out else spec.hidden
        self._norm = _read_last_norm(spec, part, spec.streams_spec)
        self._layers, self._kinds = _read_layers(spec, part)
        dtypes = (dtype for layer in self._layers for dtype in layer.block.dtypes)
        dtype = min(dtypes, key=lambda dtype: dtype.size)
        self._stock = trunk.kernels.stock
        kernels = trunk.kernels
        self._rows = Embedding.from_matrix(matrix, dtype, kernels)
        self._embedding = Embedding.from_matrix(matrix, dtype, kernels, spec.embed_scale)
        if spec.embed_norm == "own":
            norm = Norm.read(part, "embed_norm", spec.eps)
            self._embedding = replace(self._embedding, norm=norm)
        self._positions = None
        if spec.positions:
            self._positions = Embedding.from_matrix(part.matrix("embed_positions"), dtype, kernels)
        self._per_layer = None
        if spec.per_layer is not None:
            self._per_layer = PerLayerEmbedding(spec, spec.per_layer, part, dtype)
        output = part.matrix("lm_head") if "lm_head.weight" in part else matrix
        bias = part.vector("lm_head.bias", output.dtype) if spec.logit_bias else None
        self._output = Linear.from_matrix(output, trunk.kernels, bias)
        is_plain = bias is None and spec.logit_scale == 1.0 and not spec.logit_cap
        picks = is_plain and not self._residual_out  # else states are not what the output takes
        self.output_matrix = (
            FewRowMatrix.from_matrix(output, trunk.kernels, "pick") if picks else None
        )
        every = None if heads is None else Part(heads, "", spec.head_tensors(heads.untaken_names))
        self.heads = [
            DecoderHead(spec, number, part, self._embedding, self._norm, self._output)
            for number, part in enumerate(() if every is None else _head_parts(every))
        ]

    @property
    def layers(self) -> int:
        """Number of decoder blocks in the trunk."""
        return len(self._layers)

    def with_distinct_layers(self) -> "Decoder":
        """Copy a model with one block of every kind and weight format, for numeric comparisons."""
        few = copy(self)
        few._layers = self._kinds
        return few

    def make_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create an empty cache for each of the decoder's mixers; bits: of keys and values."""
        border, make = self.spec.long_rope_after, partial(self._make_block_caches, bits)
        return make() if border is None else LayerCaches([CacheByLength(make, border)])

    def _make_block_caches(self, bits: CacheBits) -> LayerCaches:
        blocks = (layer.block for layer in self._layers if layer.has_caches)
        return LayerCaches([cache for block in blocks for cache in block.make_caches(bits)])

    def embed(self, tokens: mx.array) -> mx.array:
        """Look up int tokens [..., T] -> embeddings [..., T, H], without the model's scale."""
        return self._rows(tokens)

    def scaled_embed(self, tokens: mx.array) -> mx.array:
        """Look up int tokens [..., T] -> embeddings [..., T, H], scaled for the first layer."""
        return self._embedding(tokens)

    def forward(
        self,
        tokens: mx.array,
        caches: LayerCaches | ConversationCaches,
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Run the decoder on int tokens [1, T] -> hidden states [1, T, H] for output and heads.

        pictures: what stands in rows of pictures; only of one sequence.
        """
        return self.forward_with_residuals(tokens, caches, (), pictures)

    @property
    def joint_forward(self) -> JointForward | None:
        """The decoder's forward pass over several sequences; None with a second RoPE table."""
        return self.forward if self.spec.long_rope_after is None else None

    def forward_with_residuals(
        self,
        tokens: mx.array,
        caches: LayerCaches | ConversationCaches,
        residual_layers: Sequence[int],
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Run the decoder -> hidden states and residuals after some layers, along the last axis.

        residual_layers: layer numbers, -1 for the embeddings. pictures: as in `forward`.
        """
        first = caches.layers[0]
        if isinstance(first, CacheByLength):
            return first.read_tokens(
                tokens, partial(self._forward, residual_layers=residual_layers)
            )
        return self._forward(tokens, caches, residual_layers=residual_layers, pictures=pictures)

    def _forward(
        self,
        tokens: mx.array,
        caches: LayerCaches | ConversationCaches,
        *,
        residual_layers: Sequence[int],
        is_long: bool = False,
        pictures: PictureRows | None = None,
    ) -> mx.array:
        x, masks = self._embedding(tokens), Masks(is_long=is_long)
        deep: list[mx.array] = []
        if pictures is not None:
            seen = pictures.embeddings.astype(x.dtype)
            first, *deep = mx.split(seen, seen.shape[-1] // self.spec.hidden, axis=-1)
            x = mx.where(pictures.is_picture[:, None], first, x)
            masks = Masks(pictures=pictures)
        per_layer = None if self.why_no_lookahead is None else tokens
        if self.spec.streams_spec is not None:
            x, per_layer = mx.tile(x, (1, 1, self.spec.streams_spec.vectors)), tokens
        layers: Sequence[LayerCache | JointCache] = caches.layers
        if self.spec.embed_norm == "final":
            x = self._norm(x)
        if self._positions is not None:
            x = run_each_conversation(layers[0], self._add_positions, x)
        vectors = None if self._per_layer is None else self._per_layer(tokens, x)
        residuals = {-1: self._mean_residual(x)} if residual_layers else {}
        for number, block, places, _ in self._layers:
            per_layer = per_layer if vectors is None else vectors[:, :, number]
            x = block(x, layers[places], masks, per_layer)
            x = x + deep[number] if number < len(deep) else x
            is_due = self.why_no_lookahead is not None and (number + 1) % _STARTED_TOGETHER == 0
            self._stock.start_evaluation(x, has_idle_gpu=is_due)
            if number in residual_layers:
                residuals[number] = self._mean_residual(x)
        hidden = x if self._residual_out else self._norm(x)
        if not residual_layers:
            return hidden
        return mx.concatenate([hidden, *(residuals[number] for number in residual_layers)], axis=-1)

    def forward_with_keys(
        self,
        tokens: mx.array,
        caches: LayerCaches | ConversationCaches,
        layer_numbers: Sequence[int],
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Run the decoder -> hidden states, keys and values of some layers, along the last axis.

        layer_numbers: layers with keys and values of their own. pictures: as in `forward`. Result
        [1, T, H + sum of widths]; a layer's width holds its keys head by head, then its values.
        """
        hidden = self.forward(tokens, caches, pictures=pictures)
        first = {layer.number: layer.caches.start for layer in self._layers}
        written = (
            run_each_conversation(caches.layers[first[n]], _written_keys_values, hidden)
            for n in layer_numbers
        )
        return mx.concatenate([hidden, *written], axis=-1)

    def _mean_residual(self, x: mx.array) -> mx.array:
        """Residual [1, T, H] that draft models read: the mean of residual streams [1, T, S * H]."""
        streams = self.spec.streams_spec
        if streams is None:
            return x
        split = x.reshape(*x.shape[:-1], streams.vectors, -1)[..., : streams.count, :]
        return split.astype(mx.float32).mean(axis=-2).astype(x.dtype)

    def _add_positions(self, cache: LayerCache, x: mx.array) -> mx.array:
        assert isinstance(cache, RowsCache)
        assert self._positions is not None
        return x + self._positions(row_positions(cache.next_row_index(), range(x.shape[1])))

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden states [1, T, H] -> float32 logits [1, T, V]."""
        return self.project_to_logits(self._norm(hidden) if self._residual_out else hidden)

    def project_to_logits(self, normed: mx.array) -> mx.array:
        """States behind the final norm [1, T, H] -> float32 logits [1, T, V]."""
        logits = self._output(normed).astype(mx.float32)
        scale, cap = self.spec.logit_scale, self.spec.logit_cap
        scaled = logits if scale == 1.0 else logits * scale
        return cap * mx.tanh(scaled / cap) if cap else scaled

    def switch_to_bfloat16(self) -> bool:
        """Compute in bfloat16 from the next pass on, if in float16; return whether it changes.

        Rows get their type from the embeddings, which all later operations keep.
        """
        if self._embedding.dtype != mx.float16:
            return False
        self._rows, self._embedding = self._rows.in_bfloat16(), self._embedding.in_bfloat16()
        for head in self.heads:
            head.switch_to_bfloat16()
        return True


def _written_keys_values(cache: LayerCache, hidden: mx.array) -> mx.array:
    """Keys and values of the rows last written to a KV cache, flattened to [1, T, width]."""
    assert isinstance(cache, RowsCache)
    rows = (side.transpose(0, 2, 1, 3) for side in cache.block_keys_and_values())
    return mx.concatenate([side.reshape(1, hidden.shape[1], -1) for side in rows], axis=-1)


Block = DecoderBlock | ShortcutBlock | StreamBlock | ConvolvedBlock


def _read_block(block: model_spec.BlockSpec, part: Part, model: model_spec.ModelSpec) -> Block:
    if block.convolutions:
        return ConvolvedBlock(block, part, model)
    plain = ShortcutBlock if block.halves else DecoderBlock
    return (plain if block.streams is None else StreamBlock)(block, part, model)


def _read_last_norm(
    spec: model_spec.ModelSpec, part: Part, streams: model_spec.AnyStreams | None
) -> Norm | LastConnection:
    """Read what makes a hidden state of the residual: a norm, or a mix of all streams."""
    if streams is None:
        return Norm.read(part, "norm", spec.eps, is_layer_norm=spec.norm == "layer")
    return last_connection_of(streams, part.subpart("hyper_connection_mixer"), spec.eps)


class _Layer(NamedTuple):
    """A decoder block and its slice of the cache list; has_caches: it uses no earlier layer's."""

    number: int
    block: Block
    caches: slice
    has_caches: bool


class _ModelLayers(NamedTuple):
    """All layers of a decoder, and one of each kind for comparisons.

    every: all layers. kinds: the first layer of each kind, and layers whose keys they read.
    """

    every: list[_Layer]
    kinds: list[_Layer]


def _read_layers(spec: model_spec.ModelSpec, part: Part) -> _ModelLayers:
    blocks: list[Block] = []
    kinds: set[int] = set()
    seen: list[tuple[model_spec.BlockSpec, list[tuple[mx.Dtype, tuple[int, ...]]]]] = []
    for number, block in enumerate(spec.blocks):
        before = len(part.table.taken_arrays)
        blocks.append(_read_block(block, part.subpart(f"layers.{number}"), spec))
        forms = [(array.dtype, array.shape) for array in part.table.taken_arrays[before:]]
        if (block, forms) not in seen:
            seen.append((block, forms))
            kinds |= {number} if block.kv_layer is None else {number, block.kv_layer}
    every = range(len(blocks))
    return _ModelLayers(
        _assign_caches(spec, blocks, every), _assign_caches(spec, blocks, sorted(kinds))
    )


def _assign_caches(
    spec: model_spec.ModelSpec, blocks: Sequence[Block], layer_numbers: Sequence[int]
) -> list[_Layer]:
    """Pick layers by number, with slices of a cache list that has caches for these layers alone."""
    layers: list[_Layer] = []
    places: dict[int, slice] = {}
    count = 0
    for number in layer_numbers:
        block = spec.blocks[number]
        if block.kv_layer is None:
            places[number] = slice(count, count + block.cache_count)
            count += block.cache_count
        source = number if block.kv_layer is None else block.kv_layer
        layers.append(_Layer(number, blocks[number], places[source], source == number))
    return layers


def _head_parts(all_heads: Part) -> list[Part]:
    """Split the weights of all MTP heads into one part for each head."""
    parts = [all_heads.subpart("layers.0")]
    while "join.weight" in (further := all_heads.subpart(f"layers.{len(parts)}")):
        parts.append(further)
    return parts


class _MtpInput:
    """Input of an MTP head: norms of embedding and hidden state, concatenated and projected."""

    def __init__(self, part: Part, eps: float, *, embedding_first: bool) -> None:
        self._embedding_first = embedding_first
        order = ("enorm", "hnorm") if embedding_first else ("hnorm", "enorm")
        self._both_norms = Norm.read_rows(part, dict.fromkeys(order, 1), eps)
        self._join = Linear.read(part, "join")
        first, second = self._both_norms.weight.astype(mx.float32)
        self._norms = MtpInputNorms(first, second, eps)
        matrix, kernels = self._join.matrix, part.kernels
        self._few_rows = (
            FewRowMatrix.from_matrix(matrix, kernels, "mtp-input") if embedding_first else None
        )

    def __call__(self, embedded: mx.array, hidden: mx.array) -> mx.array:
        """Join embeddings and hidden states [1, T, H] -> [1, T, H]."""
        if self._few_rows is not None and self._few_rows.supports_rows(embedded):
            return self._few_rows.project_mtp_input(embedded, hidden, self._norms)
        ordered = [embedded, hidden] if self._embedding_first else [hidden, embedded]
        both = mx.concatenate(ordered, axis=-1)
        return self._join(self._both_norms(both).reshape(both.shape))


class DecoderHead:
    """MTP head number `head_number` of a decoder, built from its own and the trunk's weights.

    norm(embedding) and norm(hidden) are concatenated and projected; a decoder block, a norm and an
    output head follow (DeepSeek-V3, arXiv 2412.19437, section 2.2). Families differ in which hidden
    state a head reads and passes on (model_spec.MtpHeadsSpec). embedding, norm, output: the
    trunk's, used where the head has none of its own.
    """

    def __init__(
        self,
        spec: model_spec.ModelSpec,
        head_number: int,
        part: Part,
        embedding: Embedding,
        norm: Norm | LastConnection,
        output: Linear,
    ) -> None:
        assert spec.heads is not None
        eps = spec.eps
        self.vocabulary = spec.vocabulary
        self._heads, self._stock = spec.heads, part.kernels.stock
        block = spec.heads.blocks[head_number]
        self._join: _MtpInput | StreamsMtpInput
        if block.streams is None:
            self._join = _MtpInput(part, eps, embedding_first=spec.heads.embedding_first)
        else:
            self._join = StreamsMtpInput(block.streams, part, eps)
        self._block = _read_block(block, part, spec)
        self._norm = None if spec.heads.norm == "none" else norm
        if spec.heads.norm == "own":
            self._norm = _read_last_norm(spec, part, block.streams)
        self._logit_scale = spec.logit_scale
        self._embed = embedding
        if "embed_tokens.weight" in part:
            matrix = part.matrix("embed_tokens")
            self._embed = Embedding.from_matrix(matrix, matrix.dtype, part.kernels)
        self.mtp_output = Linear.read(part, "output") if "output.weight" in part else output

    def make_head_caches(self, bits: CacheBits = 16) -> LayerCaches:
        """Create an empty cache for the decoder block of an MTP head."""
        return LayerCaches(self._block.make_caches(bits))

    def mtp_forward(
        self,
        tokens: mx.array,
        hidden: mx.array,
        caches: LayerCaches | ConversationCaches,
        pictures: PictureRows | None = None,
    ) -> mx.array:
        """Run an MTP head: tokens [1, T], previous hidden states [1, T, H] -> its own [1, T, H].

        pictures: what stands in rows of pictures; only of one sequence.
        """
        embedded = self._embed_tokens(tokens, caches.layers[0])
        if pictures is not None:
            seen = pictures.embeddings[..., : embedded.shape[-1]].astype(embedded.dtype)
            embedded = mx.where(pictures.is_picture[:, None], seen, embedded)
        masks = Masks(pictures=pictures)
        state = self._block(self._join(embedded, hidden), caches.layers, masks)
        made = self._end(state) if self._heads.chain_state == "normed" else state
        self._stock.start_evaluation(made)
        return made

    def _embed_tokens(self, tokens: mx.array, cache: LayerCache | JointCache) -> mx.array:
        """Embed tokens [1, T] -> [1, T, H], the first of a conversation as zeros if asked for."""
        embedded = self._embed(tokens)
        layers = [span.cache for span in cache] if isinstance(cache, tuple) else [cache]
        if not self._heads.zero_first or all(layer.length for layer in layers):
            return embedded
        return run_each_conversation(cache, _with_zeros_first, embedded)

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """Head's states [1, T, H] -> logits [1, T, V], by `output` or its own output matrix."""
        normed = hidden if self._heads.chain_state == "normed" else self._end(hidden)
        logits = (output or self.mtp_output)(normed)
        return logits if self._logit_scale == 1.0 else logits * self._logit_scale

    def _end(self, state: mx.array) -> mx.array:
        """Hidden states for the output head, of the residual behind the head's block [1, T, H]."""
        return state if self._norm is None else self._norm(state)

    def switch_to_bfloat16(self) -> None:
        """Embed tokens in bfloat16 from the next pass on, as the trunk does."""
        self._embed = self._embed.in_bfloat16()


def _with_zeros_first(cache: LayerCache, embedded: mx.array) -> mx.array:
    """Replace the row at position 0 of a conversation's embeddings [1, T, H] by zeros."""
    assert isinstance(cache, RowsCache)
    positions = row_positions(cache.next_row_index(), range(embedded.shape[1]))
    return mx.where((positions == 0)[:, None], 0, embedded)
