"""Gated DeltaNet layers (arXiv 2412.06464): convolution, gates and delta rule."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels.choice import Kernels, KernelWork, ServedRows
from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.gated_delta_inputs import (
    L2_EPS,
    ConvolutionRows,
    DeltaBlockInputs,
    DeltaConstants,
    Projected,
    gated_delta_inputs,
)
from metal_kernels.stock import StockOperations
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, each
from mlx_engine.cache.recurrent import (
    ConvolutionWindow,
    RecurrentCache,
    StockDelta,
    delta_rule,
)
from mlx_engine.models.attention import Masks
from mlx_engine.models.layers import PartLocation, Projections, ResidualLinear, silu
from mlx_engine.models.recurrent_specs import DeltaNetSpec
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits

PROJECTIONS = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")


class DeltaNet:
    """Gated DeltaNet layer of a decoder block, used in place of attention."""

    def __init__(self, spec: DeltaNetSpec, part: Part, eps: float) -> None:
        self._spec = spec
        self._stock = part.kernels.stock
        work = KernelWork("", spec.value_dim, spec.key_dim)
        self._rule = delta_rule(part.kernels.served("delta", work), StockDelta(self._stock))
        self._projections = Projections.read(part, PROJECTIONS)
        self.dtype = self._projections.dtype
        fixed = DeltaConstants(
            taps=part.vector("conv1d.weight").squeeze(-1),
            decay_bias=part.vector("dt_bias").astype(mx.float32),
            decay_rate=-mx.exp(part.vector("A_log").astype(mx.float32)),
            key_heads=spec.key_heads,
            key_size=spec.key_dim,
            value_size=spec.value_dim,
        )
        self._inputs = make_delta_inputs(part.kernels, fixed, self._projections)
        weight = part.vector("norm.weight", mx.float32)  # as what the rule makes
        eps *= spec.key_dim  # queries were not divided by sqrt(Dk)
        self._head_norm = self._stock.make_rms_norm(weight, eps, spec.value_heads)
        self.out_proj = ResidualLinear.read(part, "out_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create DeltaNet's cache of zeros: a float32 state and the convolution's last rows."""
        del bits
        spec = self._spec
        window = mx.zeros((1, spec.taps - 1, spec.channels), self.dtype)
        state = mx.zeros((1, spec.value_heads, spec.value_dim, spec.key_dim))
        return RecurrentCache(window, state, self._rule, self._stock)

    def mix(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run Gated DeltaNet on normed hidden states [1, T, H] -> [1, T, N] for `out_proj`."""
        del masks
        spec = self._spec
        gate, rows = self._inputs.split_gate(self._projections.products(x))
        outputs = self._head_norm(each(cache, self._run_sequence, *rows))
        join = self._stock.elementwise(_apply_silu_gate)
        if not spec.tiled:
            return join(outputs.reshape(gate.shape), gate)
        grouped = (1, x.shape[1], spec.key_heads, -1, spec.value_dim)
        outputs = outputs.reshape(grouped).swapaxes(2, 3)  # a view, which the gate walks through
        return join(outputs, gate.reshape(outputs.shape)).reshape(gate.shape)

    def _run_sequence(self, cache: LayerCache, *rows: mx.array) -> mx.array:
        """Run the delta rule on rows of one sequence -> outputs [1, T, value heads, Dv]."""
        assert isinstance(cache, RecurrentCache)
        return cache.run(*self._inputs(rows, cache.window))


class GateAndInputs(NamedTuple):
    """Gated DeltaNet's output gate [1, T, Hv * Dv] and raw inputs of its delta rule."""

    gate: mx.array
    rows: Sequence[mx.array]


class DeltaInputs(Protocol):
    """Protocol: compute the inputs of Gated DeltaNet's delta rule from outputs of projections."""

    def split_gate(self, products: Sequence[mx.array]) -> GateAndInputs:
        """Split the outputs of projections, [1, T, N] each, into DeltaNet's gate and inputs."""

    def __call__(self, rows: Sequence[mx.array], window: ConvolutionWindow) -> DeltaBlockInputs:
        """Compute the inputs of Gated DeltaNet's delta rule for rows of one sequence.

        rows: outputs of the projections, [1, T, ...]. window: the convolution's earlier rows.
        """


class StockDeltaInputs:
    """Computes the inputs of Gated DeltaNet's delta rule by about a dozen MLX operations."""

    def __init__(
        self, fixed: DeltaConstants, projections: Projections, stock: StockOperations, repeats: int
    ) -> None:
        """Create the computation of the delta rule's inputs by MLX.

        repeats: copies of each query and key head that may be made for value heads.
        """
        self._fixed, self._projections, self._stock = fixed, projections, stock
        self._times = repeats
        self._convolve = stock.make_convolution(fixed.taps)
        # with all axes, that there is nothing to broadcast in a pass
        self._bias, self._rate = fixed.decay_bias[None, None], fixed.decay_rate[None, None]
        self._zero = mx.zeros(self._bias.shape)

    def split_gate(self, products: Sequence[mx.array]) -> GateAndInputs:
        """Split DeltaNet's projections into output gate, convolution channels, beta and decay."""
        channels, gate, beta, decay = self._projections.parts(products)
        return GateAndInputs(gate, (channels, beta, decay))

    def __call__(self, rows: Sequence[mx.array], window: ConvolutionWindow) -> DeltaBlockInputs:
        """Compute the inputs of Gated DeltaNet's delta rule for rows of one sequence, by MLX.

        rows: outputs of the projections, [1, T, ...]. window: the convolution's earlier rows.
        """
        fixed, stock = self._fixed, self._stock
        channels, beta, decay = rows
        count, size = channels.shape[1], fixed.key_size
        before = window.alone(fixed.taps.shape[1] - 1)
        convolved = mx.concatenate([before, channels], axis=1)
        activated = stock.elementwise(_rounded_silu)(self._convolve(convolved))
        both, values = mx.split(activated, [2 * fixed.key_heads * size], axis=-1)
        units = stock.l2_norm(both, 2 * fixed.key_heads, L2_EPS, self._times)
        queries, keys = mx.split(units, 2, axis=2)
        its = DeltaRows(
            queries=queries,
            keys=keys,
            values=values.reshape(1, count, -1, fixed.value_size),
            decay=stock.elementwise(_decay)(decay, self._bias, self._rate, self._zero),
            beta=stock.elementwise(_sigmoid_float32)(beta),
        )
        return DeltaBlockInputs(its, convolved)


@dataclass(frozen=True, slots=True)
class KernelDeltaInputs:
    """Computes the inputs of Gated DeltaNet's delta rule by one kernel launch for few rows.

    Prompts use MLX operations. gate, beta, decay: where each part lies in the outputs of the
    projections.
    """

    fixed: DeltaConstants
    gate: PartLocation
    beta: PartLocation
    decay: PartLocation
    served: ServedRows
    stock: StockDeltaInputs

    def split_gate(self, products: Sequence[mx.array]) -> GateAndInputs:
        """Split off DeltaNet's output gate; the kernel reads the other projections in place."""
        start = self.gate.column
        width = self.fixed.value_size * len(self.fixed.decay_bias)
        return GateAndInputs(products[self.gate.matrix][:, :, start : start + width], products)

    def __call__(self, rows: Sequence[mx.array], window: ConvolutionWindow) -> DeltaBlockInputs:
        """Compute the inputs of Gated DeltaNet's delta rule for rows of one sequence, by a kernel.

        rows: outputs of the projections, [1, T, ...]. window: the convolution's earlier rows.
        """
        channels, decay, beta = rows[0], self.decay, self.beta
        if channels.shape[1] not in self.served:
            return self.stock(self.stock.split_gate(rows).rows, window)
        a, b = rows[decay.matrix], rows[beta.matrix]
        return gated_delta_inputs(
            Projected(channels, a, b, decay.column, beta.column),
            ConvolutionRows(window.rows.astype(channels.dtype), window.kept),
            self.fixed,
            self.served.launcher,
        )


def make_delta_inputs(
    kernels: Kernels, fixed: DeltaConstants, projections: Projections
) -> DeltaInputs:
    """Choose the kernel for the delta rule's inputs, or MLX operations where there is none."""
    work = KernelWork("", fixed.value_size, fixed.key_size)
    repeats = 1 if kernels.launcher else len(fixed.decay_bias) // fixed.key_heads
    stock = StockDeltaInputs(fixed, projections, kernels.stock, repeats)
    served = kernels.served("delta-inputs", work)
    if served is None:
        return stock
    _, gate, beta, decay = projections.part_locations
    return KernelDeltaInputs(fixed, gate, beta, decay, served, stock)


def _rounded_silu(sums: mx.array) -> mx.array:
    """SiLU rounded to the dtype of its input, returned in float32."""
    return silu(sums.astype(mx.float32)).astype(sums.dtype).astype(mx.float32)


def _decay(a: mx.array, bias: mx.array, rate: mx.array, zero: mx.array) -> mx.array:
    """Decay of the delta rule, exp(-exp(A_log) * softplus(a + bias)), in float32.

    rate: -exp(A_log).
    """
    return mx.exp(rate * mx.logaddexp(a.astype(mx.float32) + bias, zero))


def _sigmoid_float32(b: mx.array) -> mx.array:
    return mx.sigmoid(b.astype(mx.float32))


def _apply_silu_gate(outputs: mx.array, gate: mx.array) -> mx.array:
    return (outputs * silu(gate.astype(mx.float32))).astype(gate.dtype)
