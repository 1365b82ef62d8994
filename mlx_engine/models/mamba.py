"""Mamba-2 (arXiv 2405.21060) and lightning attention, whose recurrences run as delta rules."""

import math
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from metal_kernels.choice import MOST_ROWS, KernelWork
from metal_kernels.gated_delta_block import DeltaRows
from metal_kernels.stock import StockOperations
from metal_kernels.stock_on_cpu import constant_array
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache, run_each_conversation
from mlx_engine.cache.recurrent import (
    DeltaBlock,
    RecurrentCache,
    ReplayedSteps,
    StockSteps,
    choose_delta_rule,
)
from mlx_engine.models.attention import Masks
from mlx_engine.models.layers import (
    Norm,
    Projections,
    ResidualLinear,
    RotaryEmbedding,
    apply_wide_gate,
    silu,
)
from mlx_engine.models.recurrent_specs import LightningSpec, Mamba2Spec
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits

TINY = 2.0**-32
"""What keys are multiplied by and values divided by, which is exact in float32.

The delta rule S <- a S + (v - a S k) k^T then takes 2^-64 of what it reads away, far below the last
bit of S, and what it adds is v k^T: the recurrence of Mamba-2. So its kernels, and their replay of
committed rows, serve both.
"""
_CHUNK = 128
"""Rows that are read at once where rows are many."""
_LEAST_DECAY = 1e-37
"""What smaller factors of a state count as, which have no logarithm."""


@dataclass(frozen=True, slots=True)
class ChunkedScan:
    """Delta rule for state-space layers that processes prompts in chunks by matrix products.

    MLX has delta-rule kernels for the head sizes of a few models only, and for others computes one
    row after the other. Within a chunk, a row attends to earlier rows weighted by their decay
    (arXiv 2405.21060, section 6).
    """

    stock: StockOperations

    def run(self, rows: DeltaRows, state: mx.array, replay: ReplayedSteps | None) -> DeltaBlock:
        """Run a delta rule over a block: apply the replayed steps to the state, then the rows."""
        before = now = state if replay is None else replay.advance_state(state)
        steps, count = StockSteps(*rows[1:], self.stock), rows.keys.shape[1]
        if count <= MOST_ROWS:  # those of a draft must not depend on how many they are
            outputs, now = self.stock.delta_rule(rows, before)
            return DeltaBlock(outputs, before, now, steps)
        made = []
        for start in range(0, count, _CHUNK):
            chunk = DeltaRows(*(part[:, start : start + _CHUNK] for part in rows))
            outputs, now = _scan_chunk(chunk, now)
            made.append(outputs)
        return DeltaBlock(mx.concatenate(made, axis=1), before, now, steps)


class ScanResult(NamedTuple):
    """Outputs [1, T, heads, Dv] of a Mamba-2 scan and the state after it [1, heads, Dv, Dk]."""

    outputs: mx.array
    state: mx.array


def _scan_chunk(rows: DeltaRows, state: mx.array) -> ScanResult:
    _, heads, size, width = state.shape
    count, groups = rows.keys.shape[1:3]
    queries, keys = (part.swapaxes(1, 2)[:, :, None] for part in rows[:2])  # [1, groups, 1, T, Dk]
    shape = (1, groups, heads // groups)
    values = rows.values.swapaxes(1, 2).reshape(*shape, count, size)
    logs = mx.log(mx.maximum(rows.decay, _LEAST_DECAY)).swapaxes(1, 2).reshape(*shape, count, 1)
    faded = mx.cumsum(logs, axis=-2)  # log of what is left of the state before the chunk
    earlier, masked = _causal_masks(count)
    between = mx.cumsum(mx.where(earlier, logs, 0.0), axis=-2)  # of what is left of a row's values
    weights = (queries @ keys.swapaxes(-1, -2)) * mx.exp(between + masked)
    before = state.reshape(*shape, size, width)
    outputs = weights @ values + mx.exp(faded) * (queries @ before.swapaxes(-1, -2))
    at_end = between[..., -1:, :].swapaxes(-1, -2)
    added = (values * mx.exp(at_end)).swapaxes(-1, -2) @ keys
    after = mx.exp(faded[..., -1:, :]) * before + added
    outputs = outputs.reshape(1, heads, count, size).swapaxes(1, 2)
    return ScanResult(outputs, after.reshape(state.shape))


class _CausalMasks(NamedTuple):
    """Masks [T, T]: `earlier` is true below the diagonal; `masked` is -inf above it, else 0."""

    earlier: mx.array
    masked: mx.array


@cache
def _causal_masks(count: int) -> _CausalMasks:
    places = np.arange(count)
    earlier, own = places < places[:, None], places <= places[:, None]
    return _CausalMasks(
        mx.array(earlier), mx.array(np.where(own, np.float32(0), np.float32(-np.inf)))
    )


class Mamba2:
    """Mamba-2 layer of a decoder block, used in place of attention."""

    def __init__(self, spec: Mamba2Spec, part: Part, eps: float) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        work = KernelWork("", spec.head_dim, spec.state)
        self._rule = choose_delta_rule(
            part.kernels.served_row_counts("delta", work), ChunkedScan(self._stock)
        )
        self._inputs = Projections.read(
            part, ("in_proj",), (spec.inner_width, spec.channels, spec.heads)
        )
        self.dtype = self._inputs.dtype
        taps = part.vector("conv1d.weight").astype(self.dtype).squeeze(-1)
        self._convolve = self._stock.make_convolution(taps)
        bias = part.vector("conv1d.bias", mx.float32) if spec.conv_bias else None
        # with all axes, that there is nothing to broadcast in a pass
        self._bias = mx.zeros((1, 1, 1)) if bias is None else bias[None, None]
        self._step_bias = part.vector("dt_bias", mx.float32)[None, None]
        self._rate = -mx.exp(part.vector("A_log", mx.float32))[None, None]
        self._skip = part.vector("D", mx.float32)[None, None, :, None]
        is_limited = spec.least_step > 0 or spec.most_step < math.inf
        limits = mx.array(spec.least_step), mx.array(spec.most_step)
        self._limits = limits if is_limited else ()
        self._norm = None
        if spec.norm != "none":
            weight = part.vector("norm.weight", mx.float32)
            groups = weight.reshape(spec.groups, -1) if spec.groups > 1 else weight
            self._norm = self._stock.make_rms_norm(groups, eps)
        self.out_proj = ResidualLinear.read(part, "out_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create Mamba-2's cache of zeros: a float32 state and the convolution's last rows."""
        del bits
        spec = self._spec
        window = mx.zeros((1, spec.taps - 1, spec.channels), self.dtype)
        state = mx.zeros((1, spec.heads, spec.head_dim, spec.state))
        return RecurrentCache(window, state, self._rule, self._stock)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run Mamba-2 on normed hidden states [1, T, H] -> [1, T, N] for the output projection."""
        del masks
        gate, channels, steps = self._inputs(x)
        outputs = run_each_conversation(cache, self._run_sequence, channels, steps)
        if self._norm is None or self._spec.norm == "gated":
            outputs = self._stock.compile_elementwise(_apply_silu_gate)(outputs, gate)
        if self._norm is not None:
            outputs = self._norm(outputs).reshape(gate.shape)
            if self._spec.norm == "before gate":
                outputs = self._stock.compile_elementwise(_apply_silu_gate)(outputs, gate)
        return outputs.astype(x.dtype)

    def _run_sequence(
        self, cache: LayerCache, channels: mx.array, time_steps: mx.array
    ) -> mx.array:
        """Run Mamba-2 on one sequence: convolution inputs and raw step sizes [1, T, heads]."""
        assert isinstance(cache, RecurrentCache)
        spec, stock, count = self._spec, self._stock, channels.shape[1]
        before = cache.window.slice_window(spec.taps - 1).astype(channels.dtype)
        convolved = mx.concatenate([before, channels], axis=1)
        activated = stock.compile_elementwise(_silu_plus_bias)(
            self._convolve(convolved), self._bias
        )
        ends = [spec.inner_width, spec.inner_width + spec.groups * spec.state]
        inputs, keys, queries = mx.split(activated, ends, axis=-1)
        inputs = inputs.reshape(1, count, spec.heads, spec.head_dim)
        step = stock.compile_elementwise(_time_step)(time_steps, self._step_bias, *self._limits)
        rows = DeltaRows(
            queries=queries.reshape(1, count, spec.groups, spec.state),
            keys=keys.reshape(1, count, spec.groups, spec.state) * TINY,
            values=stock.compile_elementwise(_scale_inputs)(inputs, step[..., None]),
            decay=stock.compile_elementwise(_decay)(step, self._rate),
            beta=_cached_ones(step.shape),
        )
        outputs = cache.run(rows, convolved)
        skipped = stock.compile_elementwise(_add_skip)(outputs, inputs, self._skip)
        return skipped.reshape(1, count, spec.inner_width)


class LightningAttention:
    """Lightning attention layer of a decoder block, used in place of softmax attention."""

    def __init__(self, spec: LightningSpec, part: Part, eps: float) -> None:
        self._spec, self._stock = spec, part.kernels.stock
        work = KernelWork("", spec.head_dim, spec.head_dim)
        self._rule = choose_delta_rule(
            part.kernels.served_row_counts("delta", work), ChunkedScan(self._stock)
        )
        sizes = (2 * spec.width, spec.width, spec.width)
        self._inputs = Projections.read(part, ("qkv_proj", "g_proj"), sizes)
        self.dtype = self._inputs.dtype
        self._qk_norm = None
        if spec.qk_norm:
            norms = dict.fromkeys(("q_norm", "k_norm"), spec.heads)
            self._qk_norm = Norm.read_rows(part, norms, eps)
        self._rotate = RotaryEmbedding(spec.rope, self._stock)
        scales = np.repeat(np.array([spec.head_dim**-0.5, TINY], np.float32), spec.heads)
        self._scales = mx.array(scales[None, :, None, None])  # of queries and keys
        self._value_scale = mx.full((1, 1, 1), 1 / TINY)
        weight = part.vector("g_norm.weight", mx.float32).reshape(spec.groups, -1)
        self._norm = self._stock.make_rms_norm(weight if spec.groups > 1 else weight[0], eps)
        self.out_proj = ResidualLinear.read(part, "o_proj")

    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        """Create lightning attention's cache: a float32 state of zeros."""
        del bits
        spec = self._spec
        state = mx.zeros((1, spec.heads, spec.head_dim, spec.head_dim))
        return RecurrentCache(mx.zeros((1, 0, 0)), state, self._rule, self._stock)

    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        """Run lightning attention on normed hidden states [1, T, H] -> [1, T, N] for o_proj."""
        both, values, gate = self._inputs(x)
        if self._qk_norm is not None:
            both = self._qk_norm(both)
        both = both.reshape(1, x.shape[1], -1, self._spec.head_dim)
        outputs = run_each_conversation(cache, partial(self._run_sequence, masks), both, values)
        normed = self._norm(outputs).reshape(gate.shape)
        return self._stock.compile_elementwise(apply_wide_gate)(normed, gate)

    def _run_sequence(
        self, masks: Masks, cache: LayerCache, queries_keys: mx.array, values: mx.array
    ) -> mx.array:
        """Run one sequence: normed queries and keys [1, T, 2 heads, size], values [1, T, N]."""
        assert isinstance(cache, RecurrentCache)
        spec, stock, count = self._spec, self._stock, queries_keys.shape[1]
        rotated = self._rotate(queries_keys.swapaxes(1, 2), cache.start(), is_long=masks.is_long)
        widen = stock.compile_elementwise(_widen_and_scale)
        queries, keys = mx.split(widen(rotated, self._scales).swapaxes(1, 2), 2, axis=2)
        rows = DeltaRows(
            queries=queries,
            keys=keys,
            values=widen(values, self._value_scale).reshape(1, count, spec.heads, -1),
            **_constant_decay_rows(spec.log_decays, count)._asdict(),
        )
        outputs = cache.run(rows, mx.zeros((1, count, 0)))
        return outputs.reshape(1, count, spec.width)


class _ConstantDecayRows(NamedTuple):
    """Decay and beta [1, T, heads] of rows that all have the same."""

    decay: mx.array
    beta: mx.array


@lru_cache(maxsize=256)  # prompts have rows in any number
def _constant_decay_rows(log_decays: tuple[float, ...], count: int) -> _ConstantDecayRows:
    decay = np.tile(np.exp(np.array(log_decays, np.float32)), (1, count, 1))
    return _ConstantDecayRows(mx.array(decay), mx.ones(decay.shape))


def _widen_and_scale(x: mx.array, scale: mx.array) -> mx.array:
    return x.astype(mx.float32) * scale


def _silu_plus_bias(convolution_sums: mx.array, bias: mx.array) -> mx.array:
    return silu(convolution_sums.astype(mx.float32) + bias)


def _time_step(step_input: mx.array, bias: mx.array, *step_limits: mx.array) -> mx.array:
    """Mamba-2's step size: softplus(raw + bias), clipped to any limits, in float32."""
    step = mx.logaddexp(step_input.astype(mx.float32) + bias, 0.0)
    return mx.clip(step, *step_limits) if step_limits else step


def _cached_ones(shape: tuple[int, ...]) -> mx.array:
    """Ones [1, T, heads], kept from pass to pass where rows are few."""
    return constant_array(shape, 1.0) if shape[1] <= MOST_ROWS else mx.ones(shape)


def _decay(time_step: mx.array, rate: mx.array) -> mx.array:
    return mx.exp(rate * time_step)


def _scale_inputs(inputs: mx.array, time_step: mx.array) -> mx.array:
    return inputs * (time_step * (1 / TINY))


def _add_skip(outputs: mx.array, inputs: mx.array, skip_weights: mx.array) -> mx.array:
    return outputs + skip_weights * inputs


def _apply_silu_gate(outputs: mx.array, gate: mx.array) -> mx.array:
    return outputs * silu(gate.astype(mx.float32))
