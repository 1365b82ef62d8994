"""Cases of the delta rule and of what it reads."""

import mlx.core as mx

from metal_kernels import gated_delta_inputs as inputs
from metal_kernels.choice import Work
from metal_kernels.gated_delta_block import Rows, Steps, gated_delta_block
from metal_kernels.gated_delta_block import reference as delta_reference
from metal_kernels.kernel import Launcher
from metal_kernels.trials.case import Case, normal

HEADS, TAPS = 2, 4
"""Heads of keys, half as many as of values; rows that a convolution sees."""


def delta_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Three steps to replay, then the rows; x are the values."""
    del dtype
    heads = 2 * HEADS
    state = normal((heads, work.outputs, work.inputs), seed)

    def unit(shape: tuple[int, ...], seed: int) -> mx.array:
        normed: mx.array = mx.fast.rms_norm(normal(shape, seed), None, 1e-6)
        return normed * float(shape[-1] ** -0.5)

    last = Steps(
        unit((3, HEADS, work.inputs), 11),
        normal((3, heads, work.outputs), 12),
        mx.exp(-mx.abs(normal((3, heads), 13))),
    )

    def rows_of(x: mx.array) -> Rows:
        count = len(x)
        return Rows(
            unit((9, HEADS, work.inputs), 14)[:count],
            unit((9, HEADS, work.inputs), 15)[:count],
            x,
            mx.exp(-mx.abs(normal((9, heads), 16)))[:count],
            mx.sigmoid(normal((9, heads), 17))[:count],
        )

    def stock(x: mx.array) -> mx.array:
        rows = [part[None] for part in rows_of(x)]
        queries, keys, values, decay, beta = rows
        y, _ = mx.fast.gated_delta_update(queries, keys, values, decay, beta, state[None])
        return y[0]

    kept = mx.array([3], dtype=mx.int32)
    return Case(
        lambda rows: normal((rows, heads, work.outputs), 5),
        lambda x, by: gated_delta_block(state, kept, last, rows_of(x), by).y,
        lambda x: delta_reference(state, 3, last, rows_of(x)).y,
        stock,
    )


def delta_inputs_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """After a block of which two rows stand; x are the projected rows."""
    heads = 2 * HEADS
    channels = 2 * HEADS * work.inputs + heads * work.outputs
    fixed = inputs.Fixed(
        normal((channels, TAPS), seed, dtype),
        normal((heads,), 21),
        -mx.exp(normal((heads,), 22)),
        HEADS,
        work.inputs,
        work.outputs,
    )
    before, kept = normal((TAPS - 1 + 3, channels), 23, dtype), mx.array([2], dtype=mx.int32)
    gates = [normal((9, heads), side, dtype) for side in (24, 25)]

    def projected(x: mx.array) -> inputs.Projected:
        return inputs.Projected(x, *(part[: len(x)] for part in gates))

    def flat(rows: Rows) -> mx.array:
        return mx.concatenate([part.reshape(len(part), -1) for part in rows], axis=-1)

    def stock(x: mx.array) -> mx.array:
        its, side = projected(x), HEADS * work.inputs
        window = mx.concatenate([before[2 : TAPS + 1], x])
        made: mx.array = mx.conv1d(window[None], fixed.taps[..., None], groups=channels)
        made = (made * mx.sigmoid(made)).astype(mx.float32).squeeze(0)
        both = made[:, : 2 * side].reshape(len(x), 2 * HEADS, work.inputs)
        both = mx.fast.rms_norm(both, None, inputs.L2_EPS / work.inputs) * work.inputs**-0.5
        softplus = mx.logaddexp(its.a.astype(mx.float32) + fixed.decay_bias, mx.array(0.0))
        return flat(
            Rows(
                both[:, :HEADS] * work.inputs**-0.5,
                both[:, HEADS:],
                made[:, 2 * side :],
                mx.exp(fixed.decay_rate * softplus),
                mx.sigmoid(its.b.astype(mx.float32)),
            )
        )

    def ours(x: mx.array, by: Launcher) -> mx.array:
        window = inputs.Window(before, kept)
        return flat(inputs.gated_delta_inputs(projected(x), window, fixed, by).rows)

    def plain(x: mx.array) -> mx.array:
        return flat(inputs.reference(projected(x), before, 2, fixed).rows)

    return Case(lambda rows: normal((rows, channels), 5, dtype), ours, plain, stock)
