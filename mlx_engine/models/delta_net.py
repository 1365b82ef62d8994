"""Gated DeltaNet (arXiv 2412.06464): convolution, gates and delta rule, by MLX or our kernels."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels.choice import Kernels, Served, Work
from metal_kernels.gated_delta_inputs import (
    L2_EPS,
    Fixed,
    Projected,
    Window,
    gated_delta_inputs,
)
from metal_kernels.stock import MLX, Stock
from mlx_engine.cache.attention import CacheBits
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.recurrent import DeltaInputs, RecurrentCache, delta_rule
from mlx_engine.models import specs
from mlx_engine.models.attention import Masks
from mlx_engine.models.layers import Linear, Norm, ResidualLinear, silu
from mlx_engine.models.weights import Part


class DeltaNet:
    """The mixer of a block that recurs."""

    def __init__(self, spec: specs.Delta, part: Part, eps: float) -> None:
        self._spec = spec
        self._stock = part.kernels.stock
        work = Work("", spec.value_dim, spec.key_dim)
        self._rule = delta_rule(part.kernels.served("delta", work, whole=True), self._stock)
        self._in_qkv = Linear.read(part, "in_proj_qkv")
        self._in_gate = Linear.read(part, "in_proj_z")
        self._in_beta = Linear.read(part, "in_proj_b")
        self._in_decay = Linear.read(part, "in_proj_a")
        fixed = Fixed(
            taps=part.vector("conv1d.weight").squeeze(-1),
            decay_bias=part.vector("dt_bias").astype(mx.float32),
            decay_rate=-mx.exp(part.vector("A_log").astype(mx.float32)),
            key_heads=spec.key_heads,
            key_size=spec.key_dim,
            value_size=spec.value_dim,
        )
        self._inputs = recurrent_inputs(part.kernels, fixed)
        self._head_norm = Norm.read(part, "norm", eps)
        self._out = ResidualLinear.read(part, "out_proj")

    @property
    def dtype(self) -> mx.Dtype:
        """Element type the layer works in."""
        return self._in_qkv.matrix.dtype

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Zeros; states are float32."""
        del bits
        spec = self._spec
        window = mx.zeros((1, spec.taps - 1, spec.channels), self.dtype)
        state = mx.zeros((1, spec.value_heads, spec.value_dim, spec.key_dim))
        return RecurrentCache(window, state, self._rule, self._stock)

    def __call__(self, x: mx.array, cache: LayerCache, masks: Masks) -> mx.array:
        """Normed hidden states [1, T, H] -> [1, T, H]."""
        del masks
        return self._out.linear(self._recurred(x, cache))

    def onto(self, residual: mx.array, x: mx.array, cache: LayerCache, masks: Masks) -> mx.array:
        """residual + what comes of x."""
        del masks
        return self._out(residual, self._recurred(x, cache))

    def _recurred(self, x: mx.array, cache: LayerCache) -> mx.array:
        """[1, T, H] -> what the output projection takes."""
        assert isinstance(cache, RecurrentCache)
        spec, gate = self._spec, self._in_gate(x)
        projected = Projected(self._in_qkv(x), self._in_decay(x), self._in_beta(x))
        queries, steps, convolved = self._inputs(projected, cache.window)
        outputs = self._head_norm(cache.run(queries, steps, convolved))
        if spec.tiled:  # a view, which the gate walks through
            grouped = (1, x.shape[1], spec.key_heads, -1, spec.value_dim)
            outputs = outputs.reshape(grouped).swapaxes(2, 3)
        made = self._stock.elementwise(_through_gate)(outputs, gate.reshape(outputs.shape))
        return made.reshape(gate.shape)


class RecurrentInputs(NamedTuple):
    """queries [1, T, key heads, Dk] float32; convolved [1, K-1+T, C]: the window, then the rows."""

    queries: mx.array
    steps: DeltaInputs
    convolved: mx.array


class MakeInputs(Protocol):
    """Convolution, SiLU, unit norms and gates (arXiv 2412.06464)."""

    def __call__(self, projected: Projected, window: mx.array) -> RecurrentInputs:
        """projected: its arrays as [1, T, ...]; window [1, K-1, C] of the same dtype."""


@dataclass(frozen=True, slots=True)
class StockInputs:
    """Plain ops of MLX."""

    fixed: Fixed
    stock: Stock = MLX

    def __call__(self, projected: Projected, window: mx.array) -> RecurrentInputs:
        """Half a dozen operations."""
        fixed, (_, rows, channels) = self.fixed, projected.channels.shape
        convolved = mx.concatenate([window, projected.channels], axis=1)
        # causal and depthwise: every channel by its own taps
        sums = mx.conv1d(convolved, fixed.taps[..., None], groups=channels)
        made = self.stock.elementwise(_activated)(sums)
        both, values = mx.split(made, [2 * fixed.key_heads * fixed.key_size], axis=-1)
        units = self._unit(both.reshape(1, rows, 2 * fixed.key_heads, fixed.key_size))
        steps = DeltaInputs(
            keys=units[:, :, fixed.key_heads :],
            values=values.reshape(1, rows, -1, fixed.value_size),
            decay=self.stock.elementwise(_decay)(projected.a, fixed.decay_bias, fixed.decay_rate),
            beta=self.stock.elementwise(_beta)(projected.b),
        )
        queries = units[:, :, : fixed.key_heads] * fixed.key_size**-0.5
        return RecurrentInputs(queries, steps, convolved)

    def _unit(self, x: mx.array) -> mx.array:
        """x / sqrt(sum(x^2) + eps) over the last axis, through rms_norm's mean."""
        size = x.shape[-1]
        return self.stock.rms_norm(x, None, L2_EPS / size) / math.sqrt(size)


@dataclass(frozen=True, slots=True)
class FewRowInputs:
    """Our kernel for few rows, in one launch; plain ops for the long blocks of a prompt.

    The window is a slice of the last block's rows, so that none of them is left for the kernel to
    skip.
    """

    fixed: Fixed
    served: Served
    none_kept: mx.array
    stock: StockInputs

    def __call__(self, projected: Projected, window: mx.array) -> RecurrentInputs:
        """One launch."""
        if projected.channels.shape[1] not in self.served:
            return self.stock(projected, window)
        before = window.squeeze(0).astype(projected.channels.dtype)
        rows, after = gated_delta_inputs(
            Projected(*(array.squeeze(0) for array in projected)),
            Window(before, self.none_kept),
            self.fixed,
            self.served.launcher,
        )
        queries, *steps = (array[None] for array in rows)
        return RecurrentInputs(queries, DeltaInputs(*steps), after[None])


def recurrent_inputs(kernels: Kernels, fixed: Fixed) -> MakeInputs:
    """By the kernel where there is one."""
    work = Work("", fixed.value_size, fixed.key_size)
    stock = StockInputs(fixed, kernels.stock)
    served = kernels.served("delta-inputs", work, whole=True)
    if served is None:
        return stock
    return FewRowInputs(fixed, served, mx.array([0], dtype=mx.int32), stock)


def _activated(sums: mx.array) -> mx.array:
    """SiLU, rounded to what it is of, in float32."""
    return silu(sums.astype(mx.float32)).astype(sums.dtype).astype(mx.float32)


def _decay(a: mx.array, bias: mx.array, rate: mx.array) -> mx.array:
    """exp(-exp(A_log) * softplus(a + dt_bias)) in float32."""
    return mx.exp(rate * mx.logaddexp(a.astype(mx.float32) + bias, mx.array(0.0)))


def _beta(b: mx.array) -> mx.array:
    return mx.sigmoid(b.astype(mx.float32))


def _through_gate(outputs: mx.array, gate: mx.array) -> mx.array:
    """Float32 times silu of what decides the result's type."""
    return (outputs * silu(gate.astype(mx.float32))).astype(gate.dtype)
