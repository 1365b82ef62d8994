"""Cases of attention and of noise."""

import mlx.core as mx

from metal_kernels.choice import Work
from metal_kernels.few_query_attention import Place, few_query_attention
from metal_kernels.few_query_attention import reference as attention_reference
from metal_kernels.kernel import Launcher
from metal_kernels.key_value_formats import dense_cache
from metal_kernels.noise import gumbel_noise
from metal_kernels.noise import reference as noise_reference
from metal_kernels.trials.case import Case, normal

HEADS, SHARED = 2, 3
"""Heads of keys, and heads of queries to each of them."""


def attention_case(work: Work, dtype: mx.Dtype, seed: int) -> Case:
    """work.outputs: keys in the cache; work.inputs: size of a head."""
    length, size = work.outputs, work.inputs
    cache = tuple(normal((HEADS, length, size), seed + side, dtype) for side in (1, 2))

    def place(x: mx.array) -> Place:  # row m of every pass stands at the same position
        return Place(length - 9 + len(x))

    def stock(x: mx.array) -> mx.array:
        end = place(x).end
        keys, values = (side[None, :, :end] for side in cache)
        mask = "causal" if len(x) > 1 else None
        q = x.swapaxes(0, 1)[None]
        y: mx.array = mx.fast.scaled_dot_product_attention(
            q, keys, values, scale=size**-0.5, mask=mask
        )
        its: mx.array = y[0]
        return its.swapaxes(0, 1)

    def ours(x: mx.array, by: Launcher) -> mx.array:
        q = mx.contiguous(x.swapaxes(0, 1))
        y = few_query_attention(q, cache, dense_cache(), place(x), size**-0.5, by)
        return y.swapaxes(0, 1)

    def reference(x: mx.array) -> mx.array:
        q = x.swapaxes(0, 1)
        return attention_reference(q, cache, dense_cache(), place(x), size**-0.5).swapaxes(0, 1)

    return Case(lambda rows: normal((rows, HEADS * SHARED, size), 5, dtype), ours, reference, stock)


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
