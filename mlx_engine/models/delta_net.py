"""Gated DeltaNet (arXiv 2412.06464) and Kimi Delta Attention: convolution, gates, delta rule."""

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from metal_kernels.choice import DECAYS_BY_CHANNEL, Kernels, KernelWork
from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.gated_delta_inputs import (
    L2_EPS,
    ConvolutionRows,
    DeltaBlockInputs,
    DeltaConstants,
    ProjectedInputs,
    gated_delta_inputs,
)
from metal_kernels.stock import StockOperations
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.cache.recurrent import (
    ConvolutionWindow,
    LongKernelDelta,
    RecurrentCache,
    StockDelta,
    choose_delta_rule,
)
from mlx_engine.models.attention import Masks
from mlx_engine.models.layers import Linear, Projections, ResidualLinear, apply_wide_gate, silu
from mlx_engine.models.recurrent_specs import DeltaNetSpec, KimiDeltaSpec
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits

PROJECTIONS = ("in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a")
_SPLIT_PROJECTIONS = (*(f"in_proj_{part}" for part in "qkv"), *PROJECTIONS[1:])


class DeltaNet:
    """Gated DeltaNet layer of a decoder block, used in place of attention."""

    def __init__(self, spec: DeltaNetSpec, part: Part, eps: float) -> None:
        self._spec = spec
        self._stock = part.kernels.stock
        work = KernelWork("", spec.value_dim, spec.key_dim)
        self._rule = choose_delta_rule(
            part.kernels.served_row_counts("delta", work), StockDelta(self._stock)
        )
        sizes = (spec.channels, spec.values, spec.value_heads, spec.value_heads)
        names = _SPLIT_PROJECTIONS if spec.is_split else PROJECTIONS
        self._projections = Projections.read(part, names, sizes)
        self.dtype = self._projections.dtype
        convolutions = [f"{name}_conv1d" for name in "qkv"] if spec.is_split else ["conv1d"]
        taps = mx.concatenate([part.vector(f"{name}.weight") for name in convolutions])
        fixed = DeltaConstants(
            taps=taps.squeeze(-1),
            decay_bias=part.vector("dt_bias").astype(mx.float32),
            decay_rate=-mx.exp(part.vector("A_log").astype(mx.float32)),
            key_heads=spec.key_heads,
            key_size=spec.key_dim,
            value_size=spec.value_dim,
        )
        self._inputs = DeltaInputs(spec, fixed, self._projections, part.kernels)
        weight = part.vector("norm.weight", mx.float32)  # as what the rule makes
        eps = (spec.norm_eps or eps) * spec.key_dim  # queries were not divided by sqrt(Dk)
        self._head_norm = self._stock.make_rms_norm(weight, eps, spec.value_heads)
        self.out_proj = ResidualLinear.read(part, "out_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create DeltaNet's cache of zeros: a float32 state and the convolution's last rows."""
        del bits
        spec = self._spec
        window = mx.zeros((1, spec.taps - 1, spec.channels), self.dtype)
        state = mx.zeros((1, spec.value_heads, spec.value_dim, spec.key_dim))
        return RecurrentCache(window, state, self._rule, self._stock)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run Gated DeltaNet on normed hidden states [1, T, H] -> [1, T, N] for `out_proj`."""
        del masks
        spec = self._spec
        gate, rows = self._inputs.split_gate(self._projections.padded_products(x))
        outputs = self._head_norm(run_each_conversation(cache, self._run_sequence, *rows))
        is_silu = spec.gate == "silu"
        join = self._stock.compile_elementwise(_apply_silu_gate if is_silu else apply_wide_gate)
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


class DeltaInputs:
    """Computes the inputs of Gated DeltaNet's delta rule from outputs of projections.

    One kernel launch for few rows, where there is that kernel; about a dozen MLX operations else.
    """

    def __init__(
        self,
        spec: DeltaNetSpec,
        fixed: DeltaConstants,
        projections: Projections,
        kernels: Kernels,
    ) -> None:
        self._fixed, self._projections, self._stock = fixed, projections, kernels.stock
        work = KernelWork("", fixed.value_size, fixed.key_size)
        is_usual = not spec.is_split and not spec.doubles_beta
        self._served = kernels.served_row_counts("delta-inputs", work) if is_usual else None
        self._weigh = _doubled_sigmoid_float32 if spec.doubles_beta else _sigmoid_float32
        self._locations = [] if self._served is None else projections.part_locations
        self._repeats = 1 if kernels.launcher else len(fixed.decay_bias) // fixed.key_heads
        self._convolve = kernels.stock.make_convolution(fixed.taps)
        # with all axes, that there is nothing to broadcast in a pass
        self._bias, self._rate = fixed.decay_bias[None, None], fixed.decay_rate[None, None]
        self._zero = mx.zeros(self._bias.shape)

    def split_gate(self, products: Sequence[mx.array]) -> GateAndInputs:
        """Split the outputs of projections, [1, T, N] each, into DeltaNet's gate and inputs.

        The kernel reads its inputs in place.
        """
        if self._served is None:
            channels, gate, beta, decay = self._projections.split_products(products)
            return GateAndInputs(gate, (channels, beta, decay))
        place, width = self._locations[1], self._fixed.value_size * len(self._fixed.decay_bias)
        gate = products[place.matrix][:, :, place.column : place.column + width]
        return GateAndInputs(gate, products)

    def __call__(self, rows: Sequence[mx.array], window: ConvolutionWindow) -> DeltaBlockInputs:
        """Compute the inputs of Gated DeltaNet's delta rule for rows of one sequence.

        rows: inputs from `split_gate`. window: the convolution's earlier rows.
        """
        channels = rows[0]
        if self._served is None:
            return self._compute_by_mlx(window, *rows)
        if channels.shape[1] not in self._served:
            channels, _, beta, decay = self._projections.split_products(rows)
            return self._compute_by_mlx(window, channels, beta, decay)
        b, a = self._locations[2:]
        return gated_delta_inputs(
            ProjectedInputs(channels, rows[a.matrix], rows[b.matrix], a.column, b.column),
            ConvolutionRows(window.rows.astype(channels.dtype), window.kept_count),
            self._fixed,
            self._served.launcher,
        )

    def _compute_by_mlx(
        self, window: ConvolutionWindow, channels: mx.array, beta: mx.array, decay: mx.array
    ) -> DeltaBlockInputs:
        fixed, stock = self._fixed, self._stock
        before = window.slice_window(fixed.taps.shape[1] - 1)
        convolved = mx.concatenate([before, channels], axis=1)
        sums, sizes = self._convolve(convolved), (fixed.key_size, fixed.value_size)
        made = _convolved_heads(sums, fixed.key_heads, *sizes, stock, self._repeats)
        rows = DeltaRows(
            *made,
            decay=stock.compile_elementwise(_decay)(decay, self._bias, self._rate, self._zero),
            beta=stock.compile_elementwise(self._weigh)(beta),
        )
        return DeltaBlockInputs(rows, convolved)


class KimiDeltaAttention:
    """Kimi Delta Attention layer of a decoder block, used in place of softmax attention."""

    def __init__(self, spec: KimiDeltaSpec, part: Part, eps: float) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        work = KernelWork(DECAYS_BY_CHANNEL, spec.head_dim, spec.head_dim)
        served, long = part.kernels.served_row_counts("delta", work), StockDelta(self._stock)
        every = None if served is None else LongKernelDelta(served.launcher, served, self._stock)
        self._rule = choose_delta_rule(served, every or long)
        f, g = ("f_a", "g_a") if spec.rank else ("f", "g")
        names = [f"{name}_proj" for name in ("q", "k", "v", f, g, "b")]
        gates = spec.rank or spec.width
        self._inputs = Projections.read(part, names, (spec.channels, gates, gates, spec.heads))
        self._unpack_decay = Linear.read(part, "f_b_proj") if spec.rank else None
        self._unpack_gate = Linear.read(part, "g_b_proj") if spec.rank else None
        self.dtype = self._inputs.dtype
        taps = mx.concatenate([part.vector(f"{name}_conv1d.weight") for name in "qkv"])
        self._convolve = self._stock.make_convolution(taps.astype(self.dtype).squeeze(-1))
        self._bias = part.vector("dt_bias", mx.float32).reshape(1, 1, spec.heads, -1)
        self._rate = mx.exp(part.vector("A_log", mx.float32))[None, None, :, None]
        self._least = mx.full(self._rate.shape, spec.least_log)
        weight = part.vector("o_norm.weight", mx.float32)
        eps *= spec.head_dim  # queries were not divided by sqrt(Dk)
        self._head_norm = self._stock.make_rms_norm(weight, eps, spec.heads)
        self.out_proj = ResidualLinear.read(part, "o_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create Kimi Delta Attention's cache: a float32 state and the last convolved rows."""
        del bits
        spec = self._spec
        window = mx.zeros((1, spec.taps - 1, spec.channels), self.dtype)
        state = mx.zeros((1, spec.heads, spec.head_dim, spec.head_dim))
        return RecurrentCache(window, state, self._rule, self._stock)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run Kimi Delta Attention on normed hidden states [1, T, H] -> [1, T, N] for `o_proj`."""
        del masks
        channels, decay, gate, beta = self._inputs(x)
        if self._unpack_decay is not None and self._unpack_gate is not None:
            decay, gate = self._unpack_decay(decay), self._unpack_gate(gate)
        outputs = self._head_norm(
            run_each_conversation(cache, self._run_sequence, channels, decay, beta)
        )
        return self._stock.compile_elementwise(apply_wide_gate)(outputs.reshape(gate.shape), gate)

    def _run_sequence(
        self, cache: LayerCache, channels: mx.array, decay: mx.array, beta: mx.array
    ) -> mx.array:
        """Run the delta rule on one sequence's raw inputs [1, T, N] -> [1, T, heads, Dv]."""
        assert isinstance(cache, RecurrentCache)
        spec, stock = self._spec, self._stock
        before = cache.window.slice_window(spec.taps - 1).astype(channels.dtype)
        convolved = mx.concatenate([before, channels], axis=1)
        sizes = (spec.head_dim, spec.head_dim)
        made = _convolved_heads(self._convolve(convolved), spec.heads, *sizes, stock)
        raw = decay.reshape(1, -1, spec.heads, spec.head_dim)
        fade = _bounded_decay if spec.least_log else _decay
        rate = self._rate if spec.least_log else -self._rate
        rows = DeltaRows(
            *made,
            decay=stock.compile_elementwise(fade)(raw, self._bias, rate, self._least),
            beta=stock.compile_elementwise(_sigmoid_float32)(beta),
        )
        return cache.run(rows, convolved)


class _ConvolvedHeads(NamedTuple):
    """Queries and keys of unit length and values of the delta rule, [1, T, heads, size] each."""

    queries: mx.array
    keys: mx.array
    values: mx.array


def _convolved_heads(
    sums: mx.array,
    key_heads: int,
    key_size: int,
    value_size: int,
    stock: StockOperations,
    repeats: int = 1,
) -> _ConvolvedHeads:
    """Apply SiLU to a convolution's sums [1, T, C] and cut them into heads of the delta rule."""
    activated = stock.compile_elementwise(_rounded_silu)(sums)
    both, values = mx.split(activated, [2 * key_heads * key_size], axis=-1)
    units = stock.l2_norm(both, 2 * key_heads, L2_EPS, repeats)
    queries, keys = mx.split(units, 2, axis=2)
    return _ConvolvedHeads(queries, keys, values.reshape(1, sums.shape[1], -1, value_size))


def _rounded_silu(sums: mx.array) -> mx.array:
    """SiLU rounded to the dtype of its input, returned in float32."""
    return silu(sums.astype(mx.float32)).astype(sums.dtype).astype(mx.float32)


def _decay(a: mx.array, bias: mx.array, rate: mx.array, zero: mx.array) -> mx.array:
    """Decay exp(rate * softplus(a + bias)) of the delta rule in float32; rate: -exp(A_log)."""
    return mx.exp(rate * mx.logaddexp(a.astype(mx.float32) + bias, zero))


def _bounded_decay(raw: mx.array, bias: mx.array, rate: mx.array, least: mx.array) -> mx.array:
    """Decay exp(least * sigmoid(rate * (raw + bias))) of the delta rule in float32."""
    return mx.exp(least * mx.sigmoid(rate * (raw.astype(mx.float32) + bias)))


def _sigmoid_float32(b: mx.array) -> mx.array:
    return mx.sigmoid(b.astype(mx.float32))


def _doubled_sigmoid_float32(b: mx.array) -> mx.array:
    return 2 * mx.sigmoid(b.astype(mx.float32))


def _apply_silu_gate(outputs: mx.array, gate: mx.array) -> mx.array:
    return (outputs * silu(gate.astype(mx.float32))).astype(gate.dtype)
