"""Gated short convolution (LFM2, arXiv 2511.23404); its cache holds a few rows."""

import mlx.core as mx

from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, each
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.models.attention import Masks
from mlx_engine.models.layers import Projections, ResidualLinear
from mlx_engine.models.recurrent_specs import ShortConvolution
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class GatedConvolution:
    """The mixer of a block that convolves: out(c * conv(b * x)) of b, c, x = in(h)."""

    def __init__(self, spec: ShortConvolution, part: Part) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        width = spec.width
        self._inputs = Projections.read(part, ("in_proj",), (width, width, width))
        self.dtype = self._inputs.dtype
        taps = part.vector("conv.weight").astype(self.dtype).squeeze(-1)
        self._convolve = self._stock.convolution(taps)
        self._bias = part.vector("conv.bias", self.dtype) if spec.bias else None
        self.out = ResidualLinear.read(part, "out_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """An empty cache: a window of zeros."""
        del bits
        window = mx.zeros((1, self._spec.taps - 1, self._spec.width), self.dtype)
        return RecurrentCache(window, mx.zeros((1, 0)), stock=self._stock)

    def mixed(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Hidden states [1, T, H] -> inputs of the output projection [1, T, N]."""
        del masks
        before, behind, values = self._inputs(x)
        rows = self._stock.elementwise(_times)(before, values)
        convolved = each(cache, self._of_conversation, rows)
        if self._bias is None:
            return self._stock.elementwise(_times)(behind, convolved)
        return self._stock.elementwise(_times_sum)(behind, convolved, self._bias)

    def _of_conversation(self, cache: LayerCache, rows: mx.array) -> mx.array:
        """One conversation: convolve rows [1, T, C] -> [1, T, C]."""
        assert isinstance(cache, RecurrentCache)
        before = cache.window.alone(self._spec.taps - 1).astype(rows.dtype)
        convolved = mx.concatenate([before, rows], axis=1)
        cache.move(convolved)
        return self._convolve(convolved)


def _times(left: mx.array, right: mx.array) -> mx.array:
    return left * right


def _times_sum(left: mx.array, right: mx.array, added: mx.array) -> mx.array:
    return left * (right + added)
