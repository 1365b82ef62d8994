"""Embeddings of n-grams, whose tables stay on disk: rows are read there by hashes of token ids.

In Qwen3.8-Flash-Next a layer adds them to its residual streams, gated and convolved; in
LongCat-Flash-Lite they are a part of the embedding of tokens; DeepSeek-V4.1 adds them to its
streams by keys, and hashes classes of tokens. A pass waits until the host knows the
tokens.
"""

from collections.abc import Sequence
from functools import partial
from operator import mul

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.models.latent_attention import PerHeadMatrices
from mlx_engine.models.layers import Linear, Norm, silu
from mlx_engine.models.ngram_spec import AnyNgramSpec, EngramSpec, NgramSpec, TokenNgramSpec
from mlx_engine.models.weights import Part


class NgramRows:
    """Reads the table rows of the n-grams that end at each token; the last tokens are cached."""

    def __init__(self, spec: AnyNgramSpec, part: Part) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        self._table = part.table.row_table(f"{part.prefix}{spec.table}", *spec.table_shape)
        self._classes = None
        if isinstance(spec, EngramSpec):
            self._classes = part.table.token_classes(spec.classes)

    def make_cache(self) -> LayerCache:
        """Create an empty cache of the last tokens, as distances to the end token."""
        tokens = mx.zeros((1, self._spec.context_tokens, 1), mx.int32)
        return RecurrentCache(tokens, mx.zeros((1, 0)), stock=self._stock)

    def __call__(self, tokens: mx.array, cache: LayerCache | JointCache) -> mx.array:
        """Int tokens [1, T] -> the rows of all hash functions side by side, [1, T, width]."""
        shifted = tokens.astype(mx.int32)[..., None] - self._spec.end
        return run_each_conversation(cache, self._read_sequence, shifted)

    def _read_sequence(self, cache: LayerCache, tokens: mx.array) -> mx.array:
        """Rows [1, T, width] of one sequence's tokens [1, T, 1], less the end token's id."""
        assert isinstance(cache, RecurrentCache)
        spec, rows = self._spec, tokens.shape[1]
        known = mx.concatenate([cache.window.slice_window(spec.context_tokens), tokens], axis=1)
        cache.write_convolution(known)
        read = partial(_row_numbers, spec, self._classes, known)
        found = self._table.gather_rows(read, rows * spec.context_tokens * spec.heads)
        return found.reshape(1, rows, spec.width)


def _row_numbers(
    spec: AnyNgramSpec, classes: NDArray[np.int64] | None, tokens: mx.array
) -> NDArray[np.int64]:
    """Table rows of the n-grams of tokens [1, context + T, 1]; waits for the tokens.

    classes: of each token, which is hashed in place of it, if any.
    """
    known = np.array(tokens)[0, :, 0].astype(np.int64) + spec.end
    if classes is not None:  # tokens beyond have no text
        known = classes[np.where(known < len(classes), known, spec.end)]
    return spec.row_numbers(known).ravel()


class TokenNgrams:
    """Adds a mean's share of n-gram embeddings, each by its own projection, to embeddings."""

    def __init__(self, spec: TokenNgramSpec, part: Part) -> None:
        self._spec, self._is_exact = spec, part.kernels.exact
        self._rows = NgramRows(spec, part)
        self._project = PerHeadMatrices(part.matrix("post_projs"), stock=part.kernels.stock)

    def make_cache(self) -> LayerCache:
        """Create an empty cache of the last tokens."""
        return self._rows.make_cache()

    def add_to_residual(
        self, x: mx.array, cache: LayerCache | JointCache, tokens: mx.array
    ) -> mx.array:
        """Add n-gram embeddings to the embeddings [1, T, H] of int tokens [1, T]."""
        spec, rows = self._spec, x.shape[1]
        read = self._rows(tokens, cache).astype(x.dtype).reshape(1, rows, spec.tables, -1)
        if self._is_exact:  # MLX's kernels for one row and for several rows round differently
            made = self._project(read.swapaxes(0, 1).swapaxes(1, 2)).swapaxes(0, 2)
        else:
            made = self._project(read.swapaxes(1, 2))
        return x + made.sum(axis=1) * spec.share


class NgramEmbedding:
    """Adds embeddings of n-grams, read from a table by token ids, to residual streams."""

    def __init__(self, spec: NgramSpec, part: Part, eps: float) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        self._rows = NgramRows(spec, part)
        self._keys = Linear.read(part, "key_proj")
        self._values = Linear.read(part, "value_proj")
        self.dtype = self._keys.matrix.dtype
        self._key_norm, self._query_norm, self._conv_norm = (
            Norm.from_weight(part.vector(f"{of}_norm.weight").reshape(spec.streams, -1), part, eps)
            for of in ("key", "query", "conv")
        )
        taps = part.vector("conv1d.weight").astype(self.dtype)
        between = mx.zeros((spec.channels, spec.taps, spec.longest - 1), self.dtype)
        spread = mx.concatenate([between, taps], axis=-1).reshape(spec.channels, -1)
        self._convolve = self._stock.make_convolution(
            self._stock.make_contiguous(spread[:, spec.longest - 1 :])
        )

    def make_caches(self) -> list[LayerCache]:
        """Create empty caches: the last tokens' distances to the end token, and rows convolved."""
        spec = self._spec
        rows = mx.zeros((1, spec.convolution_context_rows, spec.channels), self.dtype)
        return [
            self._rows.make_cache(),
            RecurrentCache(rows, mx.zeros((1, 0)), stock=self._stock),
        ]

    def add_to_residual(
        self, streams: mx.array, caches: Sequence[LayerCache | JointCache], tokens: mx.array
    ) -> mx.array:
        """Add n-gram embeddings to residual streams [1, T, S * H] of int tokens [1, T]."""
        spec, of_tokens, of_rows = self._spec, *caches
        embedded = self._rows(tokens, of_tokens).astype(streams.dtype)
        keys, queries = self._key_norm(self._keys(embedded)), self._query_norm(streams)
        scores = mx.sum(keys * queries, axis=-1, keepdims=True) * spec.hidden**-0.5
        values = self._values(embedded)[..., None, :]
        gated = self._stock.compile_elementwise(_gate_by_root)(values, scores)
        normed = self._conv_norm(gated).reshape(streams.shape)
        convolved = run_each_conversation(of_rows, self._run_convolution, normed)
        gated = gated.reshape(streams.shape)
        return self._stock.compile_elementwise(_add_gated_and_silu)(streams, gated, convolved)

    def _run_convolution(self, cache: LayerCache, rows: mx.array) -> mx.array:
        """Convolve rows [1, T, S * H] of one sequence behind its cached rows."""
        assert isinstance(cache, RecurrentCache)
        before = cache.window.slice_window(self._spec.convolution_context_rows).astype(rows.dtype)
        both = mx.concatenate([before, rows], axis=1)
        cache.write_convolution(both)
        return self._convolve(both).astype(rows.dtype)


class Engram:
    """Adds embeddings of n-grams to residual streams, as far as their keys are like the streams."""

    def __init__(self, spec: EngramSpec, part: Part, eps: float) -> None:
        self._spec, self._stock, self._eps = spec, part.kernels.stock, eps
        self._rows = NgramRows(spec, part)
        self._keys_value = Linear.read(part, "wkv")
        weights = (part.vector(f"{of}_weight", mx.float32) for of in "qk")
        self._query_norm = Norm.from_weight(mul(*weights), part, eps)

    def make_caches(self) -> list[LayerCache]:
        """Create the empty cache of the last tokens."""
        return [self._rows.make_cache()]

    def add_to_residual(
        self, streams: mx.array, caches: Sequence[LayerCache | JointCache], tokens: mx.array
    ) -> mx.array:
        """Add n-gram embeddings to residual streams [1, T, S * H] of int tokens [1, T]."""
        (cache,), hidden = caches, self._spec.hidden
        made = self._keys_value(self._rows(tokens, cache).astype(streams.dtype))
        keys, value = mx.split(made, [streams.shape[-1]], axis=-1)
        split = keys.reshape(*keys.shape[:-1], -1, hidden).astype(mx.float32)
        queries = self._query_norm(streams)
        scores = mx.sum(self._stock.rms_norm(split, None, self._eps) * queries, -1, keepdims=True)
        add = self._stock.compile_elementwise(_add_gated)
        of_streams = streams.reshape(split.shape)
        added = add(of_streams, value[..., None, :], scores * hidden**-0.5)
        return added.reshape(streams.shape)


def _add_gated(streams: mx.array, values: mx.array, scores: mx.array) -> mx.array:
    return (streams + _gate_by_root(values, scores)).astype(streams.dtype)


def _gate_by_root(values: mx.array, scores: mx.array) -> mx.array:
    """Values times the sigmoid of the scores' signed square roots."""
    roots = mx.sqrt(mx.maximum(mx.abs(scores), 1e-6)) * mx.sign(scores)
    return mx.sigmoid(roots) * values


def _add_gated_and_silu(
    streams: mx.array, gated: mx.array, convolution_output: mx.array
) -> mx.array:
    return streams + gated + silu(convolution_output)
