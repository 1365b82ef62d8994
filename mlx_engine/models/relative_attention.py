"""Attention with biases by distance, and blocks with short convolutions around it (Inkling)."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.stock import AttentionOptions, row_tiles
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.cache.window import WindowCache
from mlx_engine.models import layer_specs, model_spec
from mlx_engine.models.attention import KeyValueCache, Masks
from mlx_engine.models.experts import read_feed_forward
from mlx_engine.models.layers import Norm, Projections, ResidualLinear
from mlx_engine.models.recurrent_specs import ResidualConvolutionSpec
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class ResidualConvolution:
    """Short causal convolution in float32 that is added to what it reads: x + conv(x)."""

    def __init__(self, spec: ResidualConvolutionSpec, part: Part, dtype: mx.Dtype) -> None:
        self._spec, self._stock, self._dtype = spec, part.kernels.stock, dtype
        weights = [part.vector(f"{name}.weight", mx.float32) for name, _ in spec.parts]
        scale = part.vector("scale", mx.float32) if spec.scaled else 1.0
        self._taps = []
        for tap in range(spec.taps):
            row = mx.concatenate([weight[None, None, :, tap, 0] for weight in weights], axis=-1)
            self._taps.append((row + (tap == spec.taps - 1)) * scale)
        part.table.add_taken_arrays(self._taps)
        self._convolve = self._stock.compile_elementwise(_weighted_sum)
        self._convolve_and_add = self._stock.compile_elementwise(_add_weighted_sum)

    def make_cache(self) -> LayerCache:
        """Create a cache for the convolution: its last input rows, filled with zeros."""
        window = mx.zeros((1, self._spec.taps - 1, self._spec.width), self._dtype)
        return RecurrentCache(window, mx.zeros((1, 0)), stock=self._stock)

    def __call__(self, rows: mx.array, cache: LayerCache | JointCache) -> mx.array:
        """Convolve rows [1, T, C] behind the cached ones of their conversations -> [1, T, C]."""
        return run_each_conversation(cache, self._run_sequence, rows)

    def add_to_residual(
        self, residual: mx.array, rows: mx.array, cache: LayerCache | JointCache
    ) -> mx.array:
        """Return the residual plus the convolution of rows, [1, T, C] each."""
        return run_each_conversation(cache, self._run_sequence, rows, residual)

    def _run_sequence(
        self, cache: LayerCache, rows: mx.array, residual: mx.array | None = None
    ) -> mx.array:
        assert isinstance(cache, RecurrentCache)
        read, count = cache.write_behind_window(rows), rows.shape[1]
        shifted = (read[:, start : start + count] for start in range(self._spec.taps))
        if residual is None:
            return self._convolve(*shifted, *self._taps)
        return self._convolve_and_add(residual, *shifted, *self._taps)


def _weighted_sum(*rows_and_weights: mx.array) -> mx.array:
    """Sum in float32 of arrays, each multiplied by a weight; the weights follow all arrays."""
    count = len(rows_and_weights) // 2
    pairs = zip(rows_and_weights[:count], rows_and_weights[count:], strict=True)
    first, *others = (rows.astype(mx.float32) * weight for rows, weight in pairs)
    for product in others:
        first = first + product
    return first.astype(rows_and_weights[0].dtype)


def _add_weighted_sum(residual: mx.array, *rows_and_weights: mx.array) -> mx.array:
    return residual + _weighted_sum(*rows_and_weights)


class _Distances(NamedTuple):
    """Of rows from keys, int [T, L], `extent` at most, and whether a row sees a key, [T, L]."""

    limited: mx.array
    is_seen: mx.array

    @staticmethod
    def between(
        rows: mx.array, keys: mx.array, spec: layer_specs.RelativeAttentionSpec
    ) -> "_Distances":
        """Distances of rows at positions int [T] from keys at positions int [L]."""
        exact = rows[:, None] - keys
        is_seen = exact >= 0
        if spec.window is not None:
            is_seen = is_seen & (exact < spec.window)
        return _Distances(mx.clip(exact, 0, spec.extent), is_seen)


class RelativeAttention:
    """Attention without RoPE, whose scores have a bias by distance that each row makes."""

    def __init__(self, spec: layer_specs.RelativeAttentionSpec, part: Part, eps: float) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        keys_values = 2 * spec.kv_heads * spec.size
        sizes = (spec.heads * spec.size, keys_values, spec.heads * spec.bias_size)
        self._inputs = Projections.read(part, ("q_proj", "k_proj", "v_proj", "r_proj"), sizes)
        self.dtype = self._inputs.dtype
        self.out_proj = ResidualLinear.read(part, "o_proj")
        self._query_norm, self._key_norm = (Norm.read(part, n, eps) for n in ("q_norm", "k_norm"))
        profiles = part.vector("rel_logits_proj.proj", self.dtype)
        self._profiles = mx.pad(profiles, [(0, 0), (0, 1)])[None]  # beyond the extent is no bias
        part.table.add_taken_arrays([self._profiles])

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create an empty KV cache for this attention layer; bits: of keys and values."""
        window = self._spec.window
        return AttentionCache(bits) if window is None else WindowCache(window, self._stock, bits)

    def project(self, x: mx.array) -> list[mx.array]:
        """Project normed hidden states [1, T, H] to queries, keys beside values, and biases."""
        return self._inputs(x)

    def attend(
        self,
        queries: mx.array,
        keys_values: mx.array,
        biases: mx.array,
        cache: LayerCache | JointCache,
        masks: Masks,
    ) -> mx.array:
        """Attend, each part as `project` made it, [1, T, N] -> [1, T, N] for `out_proj`."""
        spec, rows = self._spec, queries.shape[1]
        keys, values = mx.split(keys_values.reshape(1, rows, -1, spec.size), 2, axis=2)
        attended = run_each_conversation(
            cache,
            partial(self._run_sequence, masks),
            self._query_norm(queries.reshape(1, rows, spec.heads, spec.size)),
            self._key_norm(keys),
            values,
            biases.reshape(1, rows, spec.heads, spec.bias_size),
        )
        return attended.reshape(1, rows, -1)

    def _run_sequence(
        self,
        masks: Masks,
        cache: LayerCache,
        queries: mx.array,
        keys: mx.array,
        values: mx.array,
        biases: mx.array,
    ) -> mx.array:
        """Attend within one sequence, each part [1, T, heads, N] -> [1, T, heads, size]."""
        assert isinstance(cache, AttentionCache | WindowCache)
        spec, rows = self._spec, values.shape[1]
        alike = rows, cache.visible_positions(rows), cache.length, cache.pending_rows
        positions, keys_at = masks.remember(("positions", *alike), partial(_positions, cache, rows))
        queries, biases = (part.transpose(0, 2, 1, 3) for part in (queries, biases))
        growth = None
        if spec.growth is not None:
            growth = masks.remember(("growth", *alike), partial(_growth, positions, spec.growth))
            queries = (queries * growth).astype(queries.dtype)
        cached = cache.write(keys.transpose(0, 2, 1, 3), values.transpose(0, 2, 1, 3))
        length = cached.keys.shape[2]
        made, tiles = [], row_tiles(rows, 2 * spec.heads * length * queries.dtype.size)
        for part in tiles:
            end = length - rows + part.stop
            keys, values = (side[:, :, :end] for side in cached)
            by_distance = biases[:, :, part].reshape(1, -1, spec.bias_size) @ self._profiles
            by_distance = by_distance.reshape(1, spec.heads, -1, spec.extent + 1)
            if growth is not None:
                by_distance = (by_distance * growth[part]).astype(queries.dtype)
            make = partial(_Distances.between, positions[part], keys_at[:end], spec)
            kind = ("distances", spec.window, spec.extent, *alike)
            limited, is_seen = masks.remember(kind, make) if len(tiles) == 1 else make()
            places = mx.broadcast_to(limited, (1, spec.heads, *limited.shape))
            bias = mx.where(is_seen, mx.take_along_axis(by_distance, places, axis=-1), -mx.inf)
            options = AttentionOptions(1 / spec.size, bias, None, 0.0)
            made.append(self._stock.attention(queries[:, :, part], keys, values, options))
        return mx.concatenate(made, axis=2).transpose(0, 2, 1, 3)


class _Positions(NamedTuple):
    """Positions of new rows, int [T], and of the keys that they are given, int [L]."""

    rows: mx.array
    keys: mx.array


def _positions(cache: KeyValueCache, rows: int) -> _Positions:
    start, keys = cache.next_row_index(), cache.visible_positions(rows)
    behind = mx.array(np.arange(rows) + (start if isinstance(start, int) else 0), mx.int32)
    every = mx.array(np.arange(keys.start, keys.stop), mx.int32)
    return _Positions(behind if isinstance(start, int) else behind + start, every)


def _growth(positions: mx.array, spec: layer_specs.QueryLogScale) -> mx.array:
    """Factors of the scores of rows at these positions, float32 [T, 1]."""
    tokens = (positions + 1).astype(mx.float32)
    return (1 + spec.weight * mx.log(mx.maximum(tokens / spec.floor, 1.0)))[:, None]


class ConvolvedBlock:
    """A decoder block with short convolutions of keys and values, and of what it adds to x."""

    def __init__(
        self, block: model_spec.BlockSpec, part: Part, model: model_spec.ModelSpec
    ) -> None:
        assert isinstance(block.mixer, layer_specs.RelativeAttentionSpec)
        self._norm, self._second_norm = (Norm.read(part, n, model.eps) for n in block.norm_names)
        self._attention = RelativeAttention(block.mixer, part.subpart("self_attn"), model.eps)
        self.dtypes = [dtype := self._attention.dtype]
        self._of_keys_values, self._of_attention, self._of_feed = (
            ResidualConvolution(spec, part.subpart(spec.prefix), dtype)
            for spec in block.convolutions
        )
        assert block.feed is not None
        self._feed = read_feed_forward(part, block.feed, model.eps)

    def make_caches(self, bits: CacheBits = 16) -> list[LayerCache]:
        """Create an empty KV cache, and the convolutions' caches of their last input rows."""
        convolutions = (self._of_keys_values, self._of_attention, self._of_feed)
        return [self._attention.make_cache(bits), *(one.make_cache() for one in convolutions)]

    def __call__(
        self,
        x: mx.array,
        caches: Sequence[LayerCache | JointCache],
        masks: Masks,
        tokens: mx.array | None = None,
    ) -> mx.array:
        """Run a decoder block: hidden states [1, T, H] -> hidden states [1, T, H]."""
        del tokens
        cache, of_keys_values, of_attention, of_feed = caches
        queries, keys_values, biases = self._attention.project(self._norm(x))
        keys_values = self._of_keys_values(keys_values, of_keys_values)
        attended = self._attention.attend(queries, keys_values, biases, cache, masks)
        mixed = self._attention.out_proj.linear(attended)
        x = self._of_attention.add_to_residual(x, mixed, of_attention)
        return self._of_feed.add_to_residual(x, self._feed(self._second_norm(x)), of_feed)
