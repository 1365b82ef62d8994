"""Decoder blocks: a sequence mixer and a feed-forward, each added to the residual stream."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import mlx.core as mx

from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.models import layer_specs, model_spec
from mlx_engine.models.attention import Attention, Masks
from mlx_engine.models.compressed_attention import CompressedAttention
from mlx_engine.models.compressed_specs import CompressedAttentionSpec, SharedEntriesSpec
from mlx_engine.models.delta_net import DeltaNet, KimiDeltaAttention
from mlx_engine.models.experts import ExpertFeedForward, read_feed_forward
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.latent_attention import LatentAttention
from mlx_engine.models.layers import (
    Embedding,
    GatedFeedForward,
    Linear,
    Norm,
    Projections,
    ResidualLinear,
    make_gate,
)
from mlx_engine.models.mamba import LightningAttention, Mamba2
from mlx_engine.models.ngram_embedding import TokenNgrams
from mlx_engine.models.ngram_spec import TokenNgramSpec
from mlx_engine.models.recurrent_specs import (
    DeltaNetSpec,
    KimiDeltaSpec,
    LightningSpec,
    Mamba2Spec,
    ShortConvolutionSpec,
)
from mlx_engine.models.shared_entries import SharedEntriesAttention
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class GatedConvolution:
    """LFM2's short convolution in place of attention: out(c * conv(b * x)) with b, c, x = in(h)."""

    def __init__(self, spec: ShortConvolutionSpec, part: Part) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        width = spec.width
        self._inputs = Projections.read(part, ("in_proj",), (width, width, width))
        self.dtype = self._inputs.dtype
        taps = part.vector("conv.weight").astype(self.dtype).squeeze(-1)
        self._convolve = self._stock.make_convolution(taps)
        self._bias = part.vector("conv.bias", self.dtype) if spec.bias else None
        self.out_proj = ResidualLinear.read(part, "out_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create a cache for a short convolution: its last input rows, filled with zeros."""
        del bits
        window = mx.zeros((1, self._spec.taps - 1, self._spec.width), self.dtype)
        return RecurrentCache(window, mx.zeros((1, 0)), stock=self._stock)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Convolve normed hidden states [1, T, H] -> [1, T, N], inputs of the output projection."""
        del masks
        before, behind, values = self._inputs(x)
        rows = self._stock.compile_elementwise(_multiply)(before, values)
        convolved = run_each_conversation(cache, self._run_sequence, rows)
        if self._bias is None:
            return self._stock.compile_elementwise(_multiply)(behind, convolved)
        return self._stock.compile_elementwise(_multiply_by_sum)(behind, convolved, self._bias)

    def _run_sequence(self, cache: LayerCache, rows: mx.array) -> mx.array:
        """Convolve the rows of one sequence behind its cached rows, [1, T, C] -> [1, T, C]."""
        assert isinstance(cache, RecurrentCache)
        return self._convolve(cache.write_behind_window(rows))


def _multiply(x: mx.array, y: mx.array) -> mx.array:
    return x * y


def _multiply_by_sum(x: mx.array, y: mx.array, addend: mx.array) -> mx.array:
    return x * (y + addend)


class PerLayerEmbedding:
    """Computes a vector for each token and layer from ids and embeddings (Gemma 3n, Gemma 4)."""

    def __init__(
        self,
        spec: model_spec.ModelSpec,
        inputs: model_spec.PerLayerInputsSpec,
        part: Part,
        dtype: mx.Dtype,
    ) -> None:
        matrix, scale = part.matrix("embed_tokens_per_layer"), math.sqrt(inputs.width)
        self._rows = Embedding.from_matrix(matrix, dtype, part.kernels, scale)
        self._projection = Linear.read(part, "per_layer_model_projection")
        self._norm = Norm.read(part, "per_layer_projection_norm", spec.eps)
        self._scale = spec.hidden**-0.5
        self._width = inputs.width

    def __call__(self, tokens: mx.array, embedded: mx.array) -> mx.array:
        """Int tokens [1, T] and embeddings [1, T, H] -> per-layer inputs [1, T, layers, width]."""
        projected = self._projection(embedded) * self._scale
        normed = self._norm(projected.reshape(*tokens.shape, -1, self._width))
        return (normed + self._rows(tokens).reshape(normed.shape)) * math.sqrt(0.5)


class PerLayerInput:
    """Term that a Gemma 3n or 4 layer adds to the residual, gated by a vector per token."""

    def __init__(self, block: model_spec.BlockSpec, part: Part, norm: Norm) -> None:
        assert isinstance(block.feed, FeedForwardSpec)
        self._gate = Linear.read(part, "per_layer_input_gate")
        self._projection = Linear.read(part, "per_layer_projection")
        self._join = make_gate(block.feed, part.kernels.stock)
        self._norm = norm

    def __call__(self, x: mx.array, per_layer_input: mx.array) -> mx.array:
        """Residual [1, T, H] and per-layer input vectors [1, T, width] -> term to add [1, T, H]."""
        return self._norm(self._projection(self._join(self._gate(x), per_layer_input)))


class Mixer(Protocol):
    """Protocol of a decoder block's sequence mixer: attention or a recurrent layer."""

    @property
    def dtype(self) -> mx.Dtype:
        """Element type that the sequence mixer (attention or recurrence) computes in."""

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create a mixer's empty cache; bits: of keys and values, ignored by recurrences."""

    @property
    def out_proj(self) -> ResidualLinear:
        """A mixer's output projection (as o_proj), whose result is added to the residual."""

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Mix normed hidden states [1, T, H] over the text -> [1, T, N] for `out_proj`."""


def build_mixer(spec: model_spec.MixerSpec, part: Part, eps: float) -> Mixer:
    """Build attention or a recurrent layer, as its spec says, from a decoder block's tensors."""
    inner = part.subpart(spec.prefix)
    mixer: Mixer
    match spec:
        case layer_specs.AttentionSpec():
            mixer = Attention(spec, inner, eps)
        case layer_specs.LatentAttentionSpec():
            mixer = LatentAttention(spec, inner, eps)
        case SharedEntriesSpec():
            mixer = SharedEntriesAttention(spec, inner, eps)
        case CompressedAttentionSpec():
            mixer = CompressedAttention(spec, inner, eps)
        case ShortConvolutionSpec():
            mixer = GatedConvolution(spec, inner)
        case LightningSpec():
            mixer = LightningAttention(spec, inner, eps)
        case KimiDeltaSpec():
            mixer = KimiDeltaAttention(spec, inner, eps)
        case Mamba2Spec():
            mixer = Mamba2(spec, inner, eps)
        case _:
            assert isinstance(spec, DeltaNetSpec)
            mixer = DeltaNet(spec, inner, eps)
    return mixer


class ExpertsAndDense(NamedTuple):
    """Routed experts in parallel to a dense feed-forward, each followed by a norm (Gemma 4)."""

    experts: ExpertFeedForward
    dense_out_norm: Norm
    norm: Norm
    out_norm: Norm

    def __call__(self, dense: mx.array, x: mx.array) -> mx.array:
        """Add experts' output for x to a dense feed-forward's, both normed; arrays [1, T, H]."""
        made = self.experts(self.norm(x), router_input=x)
        return self.dense_out_norm(dense) + self.out_norm(made)


class DecoderBlock:
    """A decoder block built from a BlockSpec and its tensors."""

    def __init__(
        self, block: model_spec.BlockSpec, part: Part, model: model_spec.ModelSpec
    ) -> None:
        is_layer_norm = model.norm == "layer"
        norms = {
            n: Norm.read(part, n, model.eps, is_layer_norm=is_layer_norm) for n in block.norm_names
        }
        self._is_parallel = block.norms in ("parallel", "shared")
        self._scale = block.residual_scale
        self._norm = norms.get("input_layernorm")
        self._second_norm = norms.get("post_attention_layernorm")
        self._out_norm = norms.get("mixer_out_norm")
        self._second_out_norm = norms.get("feed_out_norm")
        self._mixers = [build_mixer(spec, part, model.eps) for spec in block.mixers]
        self.dtypes = [mixer.dtype for mixer in self._mixers]
        self._feed = None if block.feed is None else read_feed_forward(part, block.feed, model.eps)
        self._experts = None
        if block.experts is not None:
            outer = [norms[name] for name in ("dense_out_norm", "experts_norm", "experts_out_norm")]
            experts = ExpertFeedForward.read(
                part.subpart(block.experts.prefix), block.experts, model.eps
            )
            self._experts = ExpertsAndDense(experts, *outer)
        self._per_layer = None
        if block.per_layer_width:
            self._per_layer = PerLayerInput(block, part, norms["post_per_layer_input_norm"])
        self._scalar = part.vector("layer_scalar") if block.scaled else None

    def make_caches(self, bits: CacheBits = 16) -> list[LayerCache]:
        """Create an empty cache for each sequence mixer (attention, recurrence) of a block."""
        return [mixer.make_cache(bits) for mixer in self._mixers]

    def __call__(
        self,
        x: mx.array,
        caches: Sequence[LayerCache | JointCache],
        masks: Masks,
        per_layer_input: mx.array | None = None,
    ) -> mx.array:
        """Run a decoder block: hidden states [1, T, H] -> hidden states [1, T, H].

        caches: one for each mixer. per_layer_input: the tokens' vectors for this layer [1, T,
        width].
        """
        entered = x
        read = x if self._norm is None else self._norm(x)
        for mixer, cache in zip(self._mixers, caches, strict=True):
            mixed = mixer.mix_tokens(read, cache, masks)
            if self._out_norm is None and self._scale == 1.0:
                x = mixer.out_proj(x, mixed)
            else:
                x = self._add_to_residual(x, mixer.out_proj.linear(mixed), self._out_norm)
        if self._feed is None:
            return x
        if not self._is_parallel:
            read = entered = x
        if self._second_norm is not None:
            read = self._second_norm(entered)
        if self._second_out_norm is None and self._scale == 1.0:
            return self._feed.add_to_residual(x, read)
        made = self._feed(read)
        if self._experts is not None:
            made = self._experts(made, entered)
        x = self._add_to_residual(x, made, self._second_out_norm)
        if self._per_layer is not None and per_layer_input is not None:
            x = x + self._per_layer(x, per_layer_input)
        return x if self._scalar is None else x * self._scalar.astype(x.dtype)

    def _add_to_residual(
        self, residual: mx.array, layer_output: mx.array, norm: Norm | None
    ) -> mx.array:
        normed = layer_output if norm is None else norm(layer_output)
        return residual + (normed if self._scale == 1.0 else normed * self._scale)


class _Half(NamedTuple):
    """Half of a block with shortcut-connected experts: mixer and dense feed-forward."""

    norm: Norm
    mixer: Mixer
    second_norm: Norm
    feed: GatedFeedForward

    @staticmethod
    def read(half: model_spec.BlockSpec, part: Part, eps: float) -> "_Half":
        assert half.mixer is not None
        assert isinstance(half.feed, FeedForwardSpec)
        norm, second_norm = (Norm.read(part, name, eps) for name in half.norm_names)
        feed = GatedFeedForward.read(part.subpart(half.feed.prefix), half.feed)
        return _Half(norm, build_mixer(half.mixer, part, eps), second_norm, feed)


class ShortcutBlock:
    """A block of two halves, whose experts run beside the first half's end and the second half.

    They read what the first half's feed-forward reads (arXiv 2404.05019).
    """

    def __init__(
        self, block: model_spec.BlockSpec, part: Part, model: model_spec.ModelSpec
    ) -> None:
        assert isinstance(block.feed, ExpertsSpec)
        parts = (part.subpart(f"halves.{number}") for number in range(len(block.halves)))
        self._halves = [
            _Half.read(half, half_part, model.eps)
            for half, half_part in zip(block.halves, parts, strict=True)
        ]
        self.dtypes = [half.mixer.dtype for half in self._halves]
        self._ngrams = None
        if isinstance(block.ngrams, TokenNgramSpec):
            self._ngrams = TokenNgrams(block.ngrams, part.subpart(block.ngrams.prefix))
        self._experts = ExpertFeedForward.read(part.subpart(block.feed.prefix), block.feed)

    def make_caches(self, bits: CacheBits = 16) -> list[LayerCache]:
        """Create empty caches for n-grams, where there are any, and for the mixer of each half."""
        before = [] if self._ngrams is None else [self._ngrams.make_cache()]
        return [*before, *(half.mixer.make_cache(bits) for half in self._halves)]

    def __call__(
        self,
        x: mx.array,
        caches: Sequence[LayerCache | JointCache],
        masks: Masks,
        tokens: mx.array | None = None,
    ) -> mx.array:
        """Run the halves and the experts: hidden states [1, T, H] -> hidden states [1, T, H].

        tokens: int [1, T], for n-grams.
        """
        if self._ngrams is not None and tokens is not None:
            x, caches = self._ngrams.add_to_residual(x, caches[0], tokens), caches[1:]
        made: list[mx.array] = []
        for half, cache in zip(self._halves, caches, strict=True):
            x = half.mixer.out_proj(x, half.mixer.mix_tokens(half.norm(x), cache, masks))
            read = half.second_norm(x)
            made = made or [self._experts(read)]
            x = half.feed.add_to_residual(x, read)
        return x + made[0]
