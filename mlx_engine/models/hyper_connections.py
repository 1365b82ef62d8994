"""Hyper-connections (arXiv 2409.19606): several residual streams, from which a block reads a mix.

Hidden states of such a model are all streams side by side, [1, T, S * H]. A connection collapses
them to what a mixer or feed-forward reads, and adds what that makes to each stream by a gain. In
Qwen3.8-Flash-Next's, streams are normed each, and the mix has a weight for every element of a
stream, by a low-rank product. In Hy4's ("iHC"), streams are normed together, the mix has a weight
for each stream, and a norm follows. Those of GLM-5.3-Flash and DeepSeek-V4 ("mHC", arXiv
2512.24880) mix the streams with one another, too, by a matrix whose rows and columns sum to 1.

A block of Qwen3.8-Flash-Next may add embeddings of n-grams to its streams first, one of
DeepSeek-V4.1 behind.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import KernelWork
from metal_kernels.stock import ElementwiseFunction
from metal_kernels.stream_exchange import stream_exchange
from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache
from mlx_engine.models import model_spec
from mlx_engine.models.attention import Masks
from mlx_engine.models.blocks import build_mixer
from mlx_engine.models.compressed_attention import CompressedAttention
from mlx_engine.models.experts import ExpertFeedForward, read_feed_forward
from mlx_engine.models.layers import Linear, Norm, Projections, silu
from mlx_engine.models.ngram_embedding import Engram, NgramEmbedding
from mlx_engine.models.ngram_spec import EngramSpec, NgramSpec
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class CollapsedStreams(NamedTuple):
    """Input of a block, mixed from residual streams [1, T, H], and gains to add its output by.

    gains: of the streams, [1, T, S]; None for the output head. exchange: shares [1, T, S, S] of
    stream i that go to stream j; None where each stream stays by itself. weights: of the streams in
    the mix, S times [1, T, 1].
    """

    mixed: mx.array
    gains: mx.array | None
    exchange: mx.array | None = None
    weights: Sequence[mx.array] = ()


class HyperConnection:
    """Connection of residual streams to one mixer or feed-forward, or to the output head.

    Gains are raw: the sigmoid of them over S, doubled, multiplies what the block makes.
    """

    def __init__(self, spec: model_spec.StreamsSpec, part: Part, eps: float) -> None:
        self._count, self._stock = spec.count, part.kernels.stock
        weight = part.vector("hc_norm.weight")
        self._norm = Norm.from_weight(weight.reshape(spec.count, -1), part, eps)
        names = ("input_mix_weight_down", "block_inject_weight")
        self._down = Projections.read(part, [name for name in names if f"{name}.weight" in part])
        self._up = Linear.read(part, "input_mix_weight_up")
        of_count = _make_stream_functions(spec.count)
        self._activate, self._weigh, self._inject = map(self._stock.compile_elementwise, of_count)

    def collapse_streams(self, streams: mx.array) -> CollapsedStreams:
        """Mix residual streams [1, T, S * H] to what a block reads [1, T, H]."""
        normed = self._norm(streams)
        low, *gains = self._down(normed.reshape(streams.shape))
        weights = self._up(self._activate(low)).reshape(normed.shape)
        return CollapsedStreams(
            self._weigh(weights, normed).sum(axis=-2), gains[0] if gains else None
        )

    def __call__(self, streams: mx.array) -> mx.array:
        """Mix residual streams [1, T, S * H] to a hidden state [1, T, H]."""
        return self.collapse_streams(streams).mixed

    def add_to_residual(
        self, streams: mx.array, layer_output: mx.array, read: CollapsedStreams
    ) -> mx.array:
        """Add a block's output [1, T, H] to each residual stream, by the gains of its input."""
        assert read.gains is not None
        split = streams.reshape(*layer_output.shape[:-1], self._count, -1)
        added = self._inject(split, layer_output[..., None, :], read.gains[..., None])
        return added.reshape(streams.shape)


class _StreamFunctions(NamedTuple):
    """Elementwise functions for a number S of residual streams."""

    activate: ElementwiseFunction
    weigh: ElementwiseFunction
    inject: ElementwiseFunction


@cache
def _make_stream_functions(count: int) -> _StreamFunctions:
    return _StreamFunctions(
        activate=lambda low: silu(low / count),
        weigh=lambda weights, normed: mx.sigmoid(weights) * normed / count,
        inject=lambda streams, made, gains: streams + made * (2 * mx.sigmoid(gains / count)),
    )


class WholeStreamConnection:
    """Hyper-connection that weighs each residual stream as a whole; weights are float32."""

    def __init__(self, spec: model_spec.WholeStreamsSpec, part: Part, eps: float) -> None:
        self._spec, self._eps, self._stock = spec, eps, part.kernels.stock
        self._raw = Linear.read(part, "mix", mx.float32)
        base, scale = part.vector("base", mx.float32), part.vector("scale", mx.float32)
        kinds, floors = min(scale.size, 2), (spec.eps, 0.0 if spec.exchange_steps else spec.eps)
        by_kind = (scale[:kinds], mx.array((1.0, spec.magnitude)[:kinds]), mx.array(floors[:kinds]))
        scales, factors, addends = (mx.repeat(numbers, spec.count) for numbers in by_kind)
        self._squashing = scales, base[: kinds * spec.count], factors, addends
        self._norm = Norm.read(part, "norm", eps)
        self._exchange = None
        if scale.size > kinds:
            self._exchange = StreamExchange(spec, scale[kinds:], base[kinds * spec.count :], part)
        self._squash = self._stock.compile_elementwise(_scaled_sigmoid)
        self._weigh = self._stock.compile_elementwise(_weighted_sum)
        self._add = self._stock.compile_elementwise(_add_product)

    def collapse_streams(self, streams: mx.array) -> CollapsedStreams:
        """Mix residual streams [1, T, S * H] to what a block reads [1, T, H], normed."""
        count = self._spec.count
        raw = self._raw(self._stock.rms_norm(streams.astype(mx.float32), None, self._eps))
        shares = None
        if self._exchange is not None:
            raw, of_exchange = mx.split(raw, [2 * count], axis=-1)
            shares = self._exchange.shares(of_exchange)
        weights, *gains = mx.split(self._squash(raw, *self._squashing), raw.shape[-1] // count, -1)
        columns = list(mx.split(weights, count, axis=-1))
        mixed = self._norm(self._mix(streams, columns))
        return CollapsedStreams(mixed, gains[0] if gains else None, shares, columns)

    def _mix(self, streams: mx.array, weights: Sequence[mx.array]) -> mx.array:
        """Sum of streams [1, T, S * H] by weights, S times [1, T, 1]."""
        return self._weigh(*weights, *mx.split(streams, self._spec.count, axis=-1))

    def __call__(self, streams: mx.array) -> mx.array:
        """Mix residual streams [1, T, S * H] to a normed hidden state [1, T, H]."""
        return self.collapse_streams(streams).mixed

    def add_to_residual(
        self, streams: mx.array, layer_output: mx.array, read: CollapsedStreams
    ) -> mx.array:
        """Add a block's output [1, T, H] to each residual stream, by the gains of its input."""
        assert read.gains is not None
        made, gains = layer_output[..., None, :], read.gains[..., None]
        split = streams.reshape(*layer_output.shape[:-1], self._spec.count, -1)
        if self._exchange is None or read.exchange is None:
            return self._add(split, made, gains).reshape(streams.shape)
        return self._exchange.add(split, read.exchange, made, gains).reshape(streams.shape)


class StaggeredConnection(WholeStreamConnection):
    """Hyper-connection that weighs streams for the one behind it, after adding to them.

    States are the streams and a mix of them by the weights of the connection before, [1, T,
    (S + 1) * H]; the first mix is a stream itself.
    """

    def collapse_streams(self, streams: mx.array) -> CollapsedStreams:
        """Take what a block reads [1, T, H], normed, from a state."""
        *_, mix = mx.split(streams, self._spec.vectors, axis=-1)
        read = super().collapse_streams(streams[..., : -mix.shape[-1]])
        return read._replace(mixed=self._norm(mix))

    def add_to_residual(
        self, streams: mx.array, layer_output: mx.array, read: CollapsedStreams
    ) -> mx.array:
        """Add the output [1, T, H] of a block to each stream of a state, and mix them anew."""
        size = layer_output.shape[-1]
        made = super().add_to_residual(streams[..., :-size], layer_output, read)
        return self.with_mix(made, read)

    def with_mix(self, streams: mx.array, read: CollapsedStreams) -> mx.array:
        """Make a state of streams [1, T, S * H] that a block has read."""
        return mx.concatenate([streams, self._mix(streams, read.weights)], axis=-1)


def _scaled_sigmoid(
    raw: mx.array, scale: mx.array, base: mx.array, factors: mx.array, addends: mx.array
) -> mx.array:
    """Make weights and gains of products."""
    return factors * mx.sigmoid(raw * scale + base) + addends


def _weighted_sum(*weights_and_streams: mx.array) -> mx.array:
    """Sum of streams [..., H] by float32 weights [..., 1], rounded once to the streams' type."""
    count = len(weights_and_streams) // 2
    weights, streams = weights_and_streams[:count], weights_and_streams[count:]
    products = [w * s.astype(mx.float32) for w, s in zip(weights, streams, strict=True)]
    return sum(products[1:], products[0]).astype(streams[0].dtype)


def _add_product(streams: mx.array, layer_output: mx.array, gains: mx.array) -> mx.array:
    """Streams plus gains times what was made, in the gains' float32, rounded once."""
    return (streams + layer_output.astype(mx.float32) * gains).astype(streams.dtype)


class StreamExchange:
    """Exchange between residual streams by a matrix of shares, made doubly stochastic.

    The matrix is a softmax of each row; Sinkhorn's method then divides columns and rows by their
    sums in turn, columns once more than rows.
    """

    def __init__(
        self, spec: model_spec.WholeStreamsSpec, scale: mx.array, base: mx.array, part: Part
    ) -> None:
        self._spec, self._scale, self._stock = spec, scale, part.kernels.stock
        self._base, self._floor = base.reshape(spec.count, -1), mx.array(spec.eps)
        self._scaled = self._stock.compile_elementwise(_scaled_sum)
        self._divide = self._stock.compile_elementwise(_divide_by_sum)
        self._weigh = self._stock.compile_elementwise(_weighted_sum)
        work = KernelWork("", spec.count, spec.count)
        self._served = part.kernels.served_row_counts("exchange", work)

    def shares(self, raw: mx.array) -> mx.array:
        """Make shares [1, T, S, S] of products [1, T, S * S], by the kernel or by MLX."""
        spec, served = self._spec, self._served
        if served is not None and 1 in served:
            given = self._scale, self._base, spec.exchange_steps, spec.eps
            return stream_exchange(raw.squeeze(0), *given, served.launcher)[None]
        matrix = raw.reshape(*raw.shape[:-1], self._spec.count, -1)
        matrix = mx.softmax(self._scaled(matrix, self._scale, self._base), axis=-1) + self._floor
        for step in range(1, 2 * self._spec.exchange_steps):
            parts = mx.split(matrix, self._spec.count, axis=-2 if step % 2 else -1)
            matrix = self._divide(matrix, self._floor, *parts)
        return matrix

    def add(
        self, streams: mx.array, shares: mx.array, layer_output: mx.array, gains: mx.array
    ) -> mx.array:
        """Exchange streams [1, T, S, H] by shares, and add an output [1, T, 1, H] by gains."""
        columns = mx.split(shares.swapaxes(-1, -2), self._spec.count, axis=-1)
        parts = mx.split(streams, self._spec.count, axis=-2)
        return self._weigh(gains, *columns, layer_output, *parts)


def _scaled_sum(raw: mx.array, scale: mx.array, base: mx.array) -> mx.array:
    return raw * scale + base


def _divide_by_sum(matrix: mx.array, floor: mx.array, *parts: mx.array) -> mx.array:
    return matrix / (sum(parts[1:], parts[0]) + floor)


class LastMix:
    """Output head's reading of a state with a mix of its residual streams: that mix, normed."""

    def __init__(self, part: Part, eps: float) -> None:
        self._norm = Norm.read(part, "norm", eps)

    def __call__(self, streams: mx.array) -> mx.array:
        """Take a normed hidden state [1, T, H] from a state [1, T, (S + 1) * H]."""
        return self._norm(streams[..., -self._norm.weight.size :])


class StreamsMean:
    """Output head's reading of residual streams: their mean, normed."""

    def __init__(self, spec: model_spec.WholeStreamsSpec, part: Part, eps: float) -> None:
        self._count, self._norm = spec.count, Norm.read(part, "norm", eps)
        self._average = part.kernels.stock.compile_elementwise(_mean)

    def __call__(self, streams: mx.array) -> mx.array:
        """Average residual streams [1, T, S * H] to a normed hidden state [1, T, H]."""
        return self._norm(self._average(*mx.split(streams, self._count, axis=-1)))


def _mean(*streams: mx.array) -> mx.array:
    """Mean of streams in float32, rounded once."""
    widened = [stream.astype(mx.float32) for stream in streams]
    return (sum(widened[1:], widened[0]) / len(streams)).astype(streams[0].dtype)


Connection = HyperConnection | WholeStreamConnection


def connection_of(spec: model_spec.AnyStreams, part: Part, eps: float) -> Connection:
    """Build the hyper-connection that a spec of residual streams asks for."""
    if isinstance(spec, model_spec.WholeStreamsSpec):
        kind = StaggeredConnection if spec.staggered else WholeStreamConnection
        return kind(spec, part, eps)
    return HyperConnection(spec, part, eps)


LastConnection = Connection | StreamsMean | LastMix


def last_connection_of(spec: model_spec.AnyStreams, part: Part, eps: float) -> LastConnection:
    """Build the connection that mixes residual streams to a hidden state for the output head."""
    if isinstance(spec, model_spec.WholeStreamsSpec) and spec.staggered:
        return LastMix(part, eps)
    if isinstance(spec, model_spec.WholeStreamsSpec) and spec.ends == "mean":
        return StreamsMean(spec, part, eps)
    return connection_of(spec, part, eps)


class StreamBlock:
    """A decoder block that reads residual streams, and adds to them, through hyper-connections."""

    def __init__(
        self, block: model_spec.BlockSpec, part: Part, model: model_spec.ModelSpec
    ) -> None:
        assert block.streams is not None
        assert block.mixer is not None
        self._ngrams = None
        if isinstance(block.ngrams, NgramSpec):
            self._ngrams = NgramEmbedding(
                block.ngrams, part.subpart(block.ngrams.prefix), model.eps
            )
        self._engram = None
        if isinstance(block.ngrams, EngramSpec):
            self._engram = Engram(block.ngrams, part.subpart(block.ngrams.prefix), model.eps)
        self._to_mixer, self._to_feed = (
            connection_of(block.streams, part.subpart(name), model.eps)
            for name in model_spec.CONNECTIONS
        )
        self._mixer = build_mixer(block.mixer, part, model.eps)
        self.dtypes = [self._mixer.dtype]
        assert block.feed is not None
        self._feed = read_feed_forward(part, block.feed, model.eps)

    def make_caches(self, bits: CacheBits = 16) -> list[LayerCache]:
        """Create empty caches of the n-gram embeddings, where there are any, and of the mixer."""
        ngrams = self._ngrams or self._engram
        before = [] if ngrams is None else ngrams.make_caches()
        return [*before, self._mixer.make_cache(bits)]

    def append_context(self, x: mx.array, cache: CompressedCache) -> None:
        """Write keys of rows [1, T, H] for later blocks of a drafter to the mixer's cache."""
        assert isinstance(self._mixer, CompressedAttention)
        self._mixer.append_context(x, cache)

    def __call__(
        self,
        streams: mx.array,
        caches: Sequence[LayerCache | JointCache],
        masks: Masks,
        tokens: mx.array | None = None,
    ) -> mx.array:
        """Run a decoder block: residual streams [1, T, S * H] -> [1, T, S * H].

        tokens: int [1, T], for n-gram embeddings and experts chosen by a table.
        """
        *before, cache = caches
        if self._ngrams is not None and tokens is not None:
            streams = self._ngrams.add_to_residual(streams, before, tokens)
        read = self._to_mixer.collapse_streams(streams)
        made = self._mixer.out_proj.linear(self._mixer.mix_tokens(read.mixed, cache, masks))
        streams = self._to_mixer.add_to_residual(streams, made, read)
        read = self._to_feed.collapse_streams(streams)
        if isinstance(self._feed, ExpertFeedForward):
            made = self._feed(read.mixed, tokens=tokens)
        else:
            made = self._feed(read.mixed)
        streams = self._to_feed.add_to_residual(streams, made, read)
        if self._engram is None or tokens is None:
            return streams
        assert isinstance(self._to_feed, StaggeredConnection)
        alone = streams[..., : -made.shape[-1]]
        return self._to_feed.with_mix(self._engram.add_to_residual(alone, before, tokens), read)


class StreamsMtpInput:
    """Input of an MTP head on residual streams: a product of the embedding added to each stream's.

    The norm of hidden states goes over all streams of a token together, or over each by itself,
    as the size of the weight tells.
    """

    def __init__(self, spec: model_spec.AnyStreams, part: Part, eps: float) -> None:
        self._count = spec.count
        self._embedding_norm = Norm.read(part, "enorm", eps)
        self._norm = Norm.read(part, "hnorm", eps)
        self._embedding = Linear.read(part, "join")
        self._streams = None
        if "join_streams.weight" in part:
            self._streams = Linear.read(part, "join_streams")

    def __call__(self, embedded: mx.array, streams: mx.array) -> mx.array:
        """Join embeddings [1, T, H] with residual streams [1, T, S * H] -> [1, T, S * H]."""
        split_shape = (*embedded.shape[:-1], self._count, embedded.shape[-1])
        is_whole = self._norm.weight.size == streams.shape[-1]
        normed = self._norm(streams if is_whole else streams.reshape(split_shape))
        split = normed.reshape(split_shape)
        normed = self._embedding_norm(embedded)
        if self._streams is None:  # both products in one
            both = [mx.broadcast_to(normed[..., None, :], split_shape), split]
            return self._embedding(mx.concatenate(both, axis=-1)).reshape(streams.shape)
        added = self._embedding(normed)[..., None, :]
        return (added + self._streams(split)).reshape(streams.shape)
