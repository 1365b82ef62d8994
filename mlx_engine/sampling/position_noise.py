"""Gumbel noise that depends on nothing but the seed, the position and the token id.

Adding Gumbel(0, 1) noise to logits and taking the largest draws from their softmax (the Gumbel-max
trick: Gumbel 1954; Maddison, Tarlow & Minka 2014). Because each noise value is a hash of where it
is used, drafting and verifying see the same noise, and no state has to be kept or rolled back.

The hash has two steps. Seed and position become two words through SplitMix64's finaliser (Steele,
Lea & Flood 2014); this costs a few integer operations a row and runs on the host. Those words and
the token id become 32 bits through the two-multiplication hash "lowbias32" (Wellons 2018), used
twice; this runs once per token and needs only 32-bit integers, as a GPU likes it.
"""

from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from metal_kernels.choice import KernelRowCounts
from metal_kernels.noise import gumbel_noise as kernel_noise
from metal_kernels.noise import reference as noise_of_keys
from metal_kernels.stock import computes_on_gpu

NoiseOfKeys = Callable[[mx.array, int], mx.array]
"""Keys uint32 [R, 2] and V -> Gumbel noise float32 [R, V]."""

_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio


def row_keys(seed: int, positions: Sequence[int]) -> mx.array:
    """Hash a seed and positions to noise keys, uint32 [R, 2], one row a position.

    Seed and positions are taken modulo 2**64.
    """
    start = _split_mix(seed + _GOLDEN)
    keys = [_split_mix(start + position * _GOLDEN) for position in positions]
    return mx.array(np.array([[key & 0xFFFFFFFF, key >> 32] for key in keys], dtype=np.uint32))


# One fused operation instead of some thirty. The CPU gains nothing from it and would need a C++
# compiler at run time.
plain_noise: NoiseOfKeys = mx.compile(noise_of_keys) if computes_on_gpu() else noise_of_keys


def noise_function(served_row_counts: KernelRowCounts | None) -> NoiseOfKeys:
    """Make the function from keys uint32 [R, 2] to Gumbel noise [R, vocabulary].

    It uses our kernel while that is in use, else plain operations; the bits are equal.
    """
    if served_row_counts is None:
        return plain_noise

    def noise(keys: mx.array, vocabulary: int) -> mx.array:
        if 1 in served_row_counts:
            return kernel_noise(keys, vocabulary, served_row_counts.launcher)
        return plain_noise(keys, vocabulary)

    return noise


def gumbel_noise(seed: int, positions: Sequence[int], vocabulary: int) -> mx.array:
    """Lazy float32 [R, vocabulary] of independent Gumbel(0, 1) noise, one row a position.

    seed: 0 to 2**64-1. positions: R absolute token indices.
    """
    return plain_noise(row_keys(seed, positions), vocabulary)


def _split_mix(word: int) -> int:
    word &= _WORD
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
    return word ^ (word >> 31)
