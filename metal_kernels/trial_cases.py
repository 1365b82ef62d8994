"""Kernels to try, each with inputs of its own, beside its reference and stock MLX.

Those that multiply by a matrix are in matrix_cases.py.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import mlx.core as mx

from metal_kernels import few_query_attention as attention
from metal_kernels import filtered_pick as filtering
from metal_kernels import gated_delta_block as delta
from metal_kernels import gated_delta_inputs as inputs
from metal_kernels.choice import Work
from metal_kernels.kernel import Launcher
from metal_kernels.key_blocks import Place
from metal_kernels.key_value_formats import cache_form
from metal_kernels.noise import gumbel_noise
from metal_kernels.noise import reference as noise_reference
from metal_kernels.wide_norm import reference as norm_reference
from metal_kernels.wide_norm import wide_norm

NORM_EPS = 1e-6

KEY_HEADS, TAPS = 2, 4
"""Heads of keys; rows that a convolution sees."""

Run = Callable[[mx.array], mx.array]


class Ours(Protocol):
    """A kernel that somebody runs."""

    def __call__(self, x: mx.array, by: Launcher) -> mx.array:
        """The result for x."""


class Case(NamedTuple):
    """A kernel with weights or a cache of its own, for x and results whose first axis is the row.

    x: rows -> inputs. exact_reference: the reference has the kernel's own bits, or picks tokens.
    most: rows of its longest pass.
    """

    x: Callable[[int], mx.array]
    ours: Ours
    reference: Run
    stock: Run
    exact_reference: bool = False
    most: int = 8


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype = mx.float32) -> mx.array:
    """Random numbers, the same for the same seed."""
    return mx.random.normal(shape, key=mx.random.key(seed)).astype(dtype)


def noise_keys(x: mx.array) -> mx.array:
    """For the rows of x, uint32 [R, 2]."""
    return (mx.arange(2 * len(x)) * 77 + 5).astype(mx.uint32).reshape(-1, 2)


def filtered_pick_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """x are logits; filters as makers of models recommend them."""
    filters = filtering.Filters(0.6, top_k=20, top_p=0.95)
    settings = filters.settings()

    def plain(x: mx.array) -> mx.array:
        return filtering.reference(x, noise_keys(x), filters)

    return Case(
        lambda rows: normal((rows, work.outputs), seed, dtype),
        lambda x, by: filtering.filtered_pick(x, noise_keys(x), settings, by),
        plain,
        plain,
        exact_reference=True,
    )


class _Queries(NamedTuple):
    q: mx.array
    latent: mx.array | None


def attention_case(work: Work, dtype: mx.Dtype, seed: int, keys: int = 150) -> Case:
    """Over a cache of few keys; x are queries, of latents both parts side by side."""
    form = cache_form(work.form, work.inputs, work.outputs)
    heads = 1 if form.is_joined else KEY_HEADS
    sides = [
        normal((heads, keys, size), seed + n, dtype)
        for n, size in enumerate((work.inputs, work.outputs), 1)
    ]
    cache = tuple(part for side in sides for part in form.store(side))
    half = len(cache) // 2
    read = [form.dequantise(side).astype(dtype) for side in (cache[:half], cache[half:])]
    if form.is_joined:
        read[0] = mx.concatenate([read[1], read[0]], axis=-1)
    width = read[0].shape[2]
    scale = width**-0.5

    def place(x: mx.array) -> Place:  # row m of every pass stands at the same position
        return Place(keys - 9 + len(x))

    def parts(x: mx.array) -> _Queries:
        q = mx.contiguous(x.swapaxes(0, 1))
        if not form.is_joined:
            return _Queries(q, None)
        latent, turned = mx.split(q, [work.outputs], axis=-1)
        return _Queries(mx.contiguous(turned), mx.contiguous(latent))

    def stock(x: mx.array) -> mx.array:
        end = place(x).end
        mask = "causal" if len(x) > 1 else None
        seen = (side[None, :, :end] for side in read)
        y: mx.array = mx.fast.scaled_dot_product_attention(
            x.swapaxes(0, 1)[None], *seen, scale=scale, mask=mask
        )
        its: mx.array = y[0]
        return its.swapaxes(0, 1)

    def ours(x: mx.array, by: Launcher) -> mx.array:
        q, latent = parts(x)
        y = attention.few_query_attention(q, cache, form, place(x), scale, by, q_latent=latent)
        return y.swapaxes(0, 1)

    def reference(x: mx.array) -> mx.array:
        q, latent = parts(x)
        y = attention.reference(q, cache, form, place(x), scale, q_latent=latent)
        return y.swapaxes(0, 1)

    return Case(
        lambda rows: normal((rows, heads * work.shared, width), 5, dtype),
        ours,
        reference,
        stock,
        most=9,
    )


def long_attention_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Over as many keys as a long chat has."""
    return attention_case(work, dtype, seed, keys=8192)


def noise_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """x are the keys."""
    del dtype

    def plain(x: mx.array) -> mx.array:
        return noise_reference(x, work.outputs)

    return Case(
        lambda rows: (mx.arange(2 * rows) * 991 + seed).astype(mx.uint32).reshape(rows, 2),
        lambda x, by: gumbel_noise(x, work.outputs, by),
        plain,
        plain,
        exact_reference=True,
    )


def norms_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """work.inputs: elements of a row."""
    weight = normal((work.inputs,), seed) + 1

    def stock(x: mx.array) -> mx.array:
        normed: mx.array = mx.fast.rms_norm(x, weight, NORM_EPS)
        return normed.astype(dtype)

    return Case(
        lambda rows: normal((rows, work.inputs), 5, dtype),
        lambda x, by: wide_norm(x, weight, NORM_EPS, by),
        lambda x: norm_reference(x, weight, NORM_EPS),
        stock,
    )


def delta_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """Three steps to replay, then the rows; x are the values."""
    del dtype
    heads = 2 * KEY_HEADS
    state = normal((heads, work.outputs, work.inputs), seed)

    def unit(shape: tuple[int, ...], seed: int) -> mx.array:
        normed: mx.array = mx.fast.rms_norm(normal(shape, seed), None, 1e-6)
        return normed * float(shape[-1] ** -0.5)

    last = delta.Steps(
        unit((3, KEY_HEADS, work.inputs), 11),
        normal((3, heads, work.outputs), 12),
        mx.exp(-mx.abs(normal((3, heads), 13))),
    )

    def rows_of(x: mx.array) -> delta.Rows:
        count = len(x)
        return delta.Rows(
            unit((9, KEY_HEADS, work.inputs), 14)[:count],
            unit((9, KEY_HEADS, work.inputs), 15)[:count],
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
        lambda x, by: delta.gated_delta_block(state, kept, last, rows_of(x), by).y,
        lambda x: delta.reference(state, 3, last, rows_of(x)).y,
        stock,
    )


def delta_inputs_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """After a block of which two rows stand; x are the projected rows."""
    heads = 2 * KEY_HEADS
    channels = 2 * KEY_HEADS * work.inputs + heads * work.outputs
    fixed = inputs.Fixed(
        normal((channels, TAPS), seed, dtype),
        normal((heads,), 21),
        -mx.exp(normal((heads,), 22)),
        KEY_HEADS,
        work.inputs,
        work.outputs,
    )
    before, kept = normal((TAPS - 1 + 3, channels), 23, dtype), mx.array([2], dtype=mx.int32)
    gates = [normal((9, heads), side, dtype) for side in (24, 25)]

    def projected(x: mx.array) -> inputs.Projected:
        a, b = (part[: len(x)] for part in gates)
        return inputs.Projected(x, a, b)

    def flat(rows: delta.Rows) -> mx.array:
        return mx.concatenate([part.reshape(len(part), -1) for part in rows], axis=-1)

    def stock(x: mx.array) -> mx.array:
        its, side = projected(x), KEY_HEADS * work.inputs
        window = mx.concatenate([before[2 : TAPS + 1], x])
        made: mx.array = mx.conv1d(window[None], fixed.taps[..., None], groups=channels)
        made = (made * mx.sigmoid(made)).astype(mx.float32).squeeze(0)
        both = made[:, : 2 * side].reshape(len(x), 2 * KEY_HEADS, work.inputs)
        both = mx.fast.rms_norm(both, None, inputs.L2_EPS / work.inputs) * work.inputs**-0.5
        softplus = mx.logaddexp(its.a.astype(mx.float32) + fixed.decay_bias, mx.array(0.0))
        return flat(
            delta.Rows(
                both[:, :KEY_HEADS],
                both[:, KEY_HEADS:],
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
