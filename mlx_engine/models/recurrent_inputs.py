"""What a Gated DeltaNet layer makes of its projections for the delta rule: by MLX or our kernel."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels.choice import MOST_ROWS, Kernels, Work
from metal_kernels.gated_delta_inputs import (
    L2_EPS,
    Fixed,
    Projected,
    Window,
    gated_delta_inputs,
)
from metal_kernels.kernel import Launcher
from mlx_engine.cache.recurrent import DeltaInputs
from mlx_engine.models.layers import silu


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

    def __call__(self, projected: Projected, window: mx.array) -> RecurrentInputs:
        """A dozen operations."""
        fixed, (_, rows, channels) = self.fixed, projected.channels.shape
        convolved = mx.concatenate([window, projected.channels], axis=1)
        # causal and depthwise: every channel by its own taps
        made = silu(mx.conv1d(convolved, fixed.taps[..., None], groups=channels))
        both_size = 2 * fixed.key_heads * fixed.key_size
        both, values = mx.split(made.astype(mx.float32), [both_size], axis=-1)
        units = _unit(both.reshape(1, rows, 2 * fixed.key_heads, fixed.key_size))
        steps = DeltaInputs(
            keys=units[:, :, fixed.key_heads :],
            values=values.reshape(1, rows, -1, fixed.value_size),
            decay=self._decay(projected.a),
            beta=mx.sigmoid(projected.b.astype(mx.float32)),
        )
        queries = units[:, :, : fixed.key_heads] * fixed.key_size**-0.5
        return RecurrentInputs(queries, steps, convolved)

    def _decay(self, a: mx.array) -> mx.array:
        """exp(-exp(A_log) * softplus(a + dt_bias)), float32 [1, T, value heads]."""
        step = a.astype(mx.float32) + self.fixed.decay_bias
        return mx.exp(self.fixed.decay_rate * mx.logaddexp(step, mx.array(0.0)))


@dataclass(frozen=True, slots=True)
class FewRowInputs:
    """Our kernel for few rows, in one launch; plain ops for the long blocks of a prompt.

    The cache hands over a window that was cut already, so that no row of the last block is left
    for the kernel to skip.
    """

    fixed: Fixed
    launcher: Launcher
    none_kept: mx.array

    def __call__(self, projected: Projected, window: mx.array) -> RecurrentInputs:
        """One launch."""
        if projected.channels.shape[1] > MOST_ROWS:
            return StockInputs(self.fixed)(projected, window)
        before = window.squeeze(0).astype(projected.channels.dtype)
        rows, after = gated_delta_inputs(
            Projected(*(array.squeeze(0) for array in projected)),
            Window(before, self.none_kept),
            self.fixed,
            self.launcher,
        )
        queries, *steps = (array[None] for array in rows)
        return RecurrentInputs(queries, DeltaInputs(*steps), after[None])


def recurrent_inputs(kernels: Kernels, fixed: Fixed) -> MakeInputs:
    """By the kernel where there is one."""
    work = Work("", fixed.value_size, fixed.key_size)
    launcher = kernels.launcher_of("delta-inputs", work)
    if launcher is None:
        return StockInputs(fixed)
    return FewRowInputs(fixed, launcher, mx.array([0], dtype=mx.int32))


def _unit(x: mx.array) -> mx.array:
    """x / sqrt(sum(x^2) + eps) over the last axis, through rms_norm's mean."""
    size = x.shape[-1]
    return mx.fast.rms_norm(x, None, L2_EPS / size) / math.sqrt(size)
