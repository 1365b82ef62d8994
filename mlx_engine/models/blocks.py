"""One block of a decoder: a mixer of positions and a feed-forward around the residual."""

from collections.abc import Iterator
from typing import Protocol

import mlx.core as mx

from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache
from mlx_engine.models import layer_specs, specs
from mlx_engine.models.attention import Attention, Masks
from mlx_engine.models.delta_net import DeltaNet
from mlx_engine.models.experts import ExpertFeedForward
from mlx_engine.models.latent_attention import LatentAttention
from mlx_engine.models.layers import GatedFeedForward, Norm, ResidualLinear
from mlx_engine.models.mamba import StateSpace
from mlx_engine.models.recurrent_specs import Mamba2, Recurrent, ShortConvolution
from mlx_engine.models.short_convolution import GatedConvolution
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class Mixer(Protocol):
    """Attention or a recurrence: each row reads the rows before it through a cache."""

    @property
    def dtype(self) -> mx.Dtype:
        """Element type the layer works in."""

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """An empty cache for this mixer; bits: of keys and values, where it has any."""

    @property
    def out(self) -> ResidualLinear:
        """The output projection."""

    def mixed(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Normed hidden states [1, T, H] -> inputs of the output projection [1, T, N]."""


MixerSpec = layer_specs.Attention | layer_specs.Latent | Recurrent


def mixer_of(spec: MixerSpec, part: Part, eps: float) -> Mixer:
    """Build a mixer from the tensors of a block."""
    inner = part.below(spec.prefix)
    if isinstance(spec, layer_specs.Attention):
        return Attention(spec, inner, eps)
    if isinstance(spec, layer_specs.Latent):
        return LatentAttention(spec, inner, eps)
    if isinstance(spec, ShortConvolution):
        return GatedConvolution(spec, inner)
    return StateSpace(spec, inner, eps) if isinstance(spec, Mamba2) else DeltaNet(spec, inner, eps)


class DecoderBlock:
    """A Block (specs.py) with its tensors."""

    def __init__(self, block: specs.Block, part: Part, model: specs.ModelSpec) -> None:
        feed = part.below(block.feed.prefix)
        is_layer_norm = model.norm == "layer"
        norms = {n: Norm.read(part, n, model.eps, centred=is_layer_norm) for n in block.norm_names}
        self._is_parallel = block.norms in ("parallel", "shared")
        self._scale = block.residual_scale
        self._norm = norms.get("input_layernorm")
        self._second_norm = norms.get("post_attention_layernorm")
        self._out_norm = norms.get("mixer_out_norm")
        self._second_out_norm = norms.get("feed_out_norm")
        self._mixers = [mixer_of(spec, part, model.eps) for spec in block.mixers]
        self.dtype = self._mixers[0].dtype
        self._feed = (
            ExpertFeedForward.read(feed, block.feed)
            if isinstance(block.feed, layer_specs.Experts)
            else GatedFeedForward.read(feed, block.feed)
        )

    def make_caches(self, bits: CacheBits = 16) -> list[LayerCache]:
        """An empty cache for each mixer."""
        return [mixer.make_cache(bits) for mixer in self._mixers]

    def __call__(
        self, x: mx.array, caches: Iterator[LayerCache | JointCache], masks: Masks
    ) -> mx.array:
        """Hidden states [1, T, H] -> [1, T, H]; each mixer takes the next of the caches."""
        entered = x
        read = x if self._norm is None else self._norm(x)
        for mixer in self._mixers:
            mixed = mixer.mixed(read, next(caches), masks)
            if self._out_norm is None and self._scale == 1.0:
                x = mixer.out(x, mixed)
            else:
                x = self._joined(x, mixer.out.linear(mixed), self._out_norm)
        if not self._is_parallel:
            read = entered = x
        if self._second_norm is not None:
            read = self._second_norm(entered)
        if self._second_out_norm is None and self._scale == 1.0:
            return self._feed.onto(x, read)
        return self._joined(x, self._feed(read), self._second_out_norm)

    def _joined(self, residual: mx.array, made: mx.array, norm: Norm | None) -> mx.array:
        normed = made if norm is None else norm(made)
        return residual + (normed if self._scale == 1.0 else normed * self._scale)
