"""Run kernels in the emulator at the sizes of large models, once, against float64.

    PYTHONPATH=.:tests:tests/helpers python tests/speed/emulated_big.py

Too slow for the suite, whose sizes are awkward but small: here indices pass 2^31 bits and blocks of
keys grow. A result is told as its largest error over the largest value of the reference, beside one
step of rounding of its type; rows must have the same bits beside any others.

Found at 248,320 x 5,120 in 4 bits and at 40,003 keys, in bfloat16 and float16: every error below a
step of rounding (products 0.5 to 0.7 of it, attention 0.5 to 0.9), the same bits beside any rows,
filtered picks and picks without logits equal to those of plain operations.
"""

from collections.abc import Callable, Iterator
from time import perf_counter

import mlx.core as mx
import numpy as np
from metal_emulator import EmulatorLauncher
from numpy.typing import NDArray

from metal_kernels.few_query_attention import KeyExtent, few_query_attention
from metal_kernels.few_row_matvec import few_row_matvec
from metal_kernels.filtered_pick import SamplingFilters, filtered_pick
from metal_kernels.filtered_pick import reference as filtered_reference
from metal_kernels.key_value_formats import KeyValueFormat, cache_format
from metal_kernels.vocabulary_pick import PickOptions, vocabulary_pick
from metal_kernels.weight_formats.mlx_formats import affine_format

OUTPUTS, INPUTS, KEYS = 248_320, 5_120, 40_003
ROUNDING = {mx.bfloat16: 2**-8, mx.float16: 2**-11}
Wide = NDArray[np.float64]


def normal(shape: tuple[int, ...], seed: int, dtype: mx.Dtype, scale: float = 1.0) -> mx.array:
    """Random numbers of this type."""
    return (scale * mx.random.normal(shape, key=mx.random.key(seed))).astype(dtype)


def wide(array: mx.array) -> Wide:
    """The same numbers in float64."""
    return np.array(array.astype(mx.float32)).astype(np.float64)


def told(name: str, found: mx.array, right: Wide, began: float) -> str:
    """One line about a result."""
    error = np.abs(wide(found) - right).max() / np.abs(right).max()
    step = ROUNDING[found.dtype]
    verdict = "ok" if error <= step else "WRONG"
    return (
        f"{name}: error {error:.1e}, a step {step:.1e}, {perf_counter() - began:.0f} s: {verdict}"
    )


def products(dtype: mx.Dtype, launcher: EmulatorLauncher) -> Iterator[str]:
    """The output matrix of a large vocabulary, of 1, 4 and 9 rows, and the token picked from it."""
    parts = [normal((8192, INPUTS), 7, dtype, INPUTS**-0.5)] * -(-OUTPUTS // 8192)
    packed = [mx.quantize(part, 64, 4) for part in parts[:1]] * len(parts)
    weights = tuple(mx.concatenate(part)[:OUTPUTS] for part in zip(*packed, strict=True))
    shift = mx.arange(OUTPUTS)[:, None] % 251 / 250  # so that no two of the tiles are alike
    weights = (weights[0], (weights[1] * (1 + shift)).astype(dtype), weights[2])
    mx.eval(weights)
    x = normal((9, INPUTS), 3, dtype)
    right = np.concatenate(
        [wide(x) @ _dequantised(weights, first).T for first in range(0, OUTPUTS, 8192)], axis=1
    )
    made = {}
    for rows in (1, 4, 9):
        began = perf_counter()
        made[rows] = few_row_matvec(x[:rows], weights, affine_format(4, 64), launcher)
        yield told(f"product of {rows} rows, {dtype}", made[rows], right[:rows], began)
    same = all(mx.array_equal(made[9][:rows], made[rows]).item() for rows in (1, 4))
    yield f"rows beside others: {'same bits' if same else 'WRONG'}"
    picked = vocabulary_pick(x[:4], weights, affine_format(4, 64), PickOptions(), launcher)
    best = mx.argmax(made[4], axis=-1)
    yield f"picked: {'ok' if mx.array_equal(picked, best).item() else 'WRONG'}"


def _dequantised(weights: tuple[mx.array, ...], first: int) -> Wide:
    words, scales, biases = (
        np.array(part[first : first + 8192].astype(t))
        for part, t in zip(weights, (mx.uint32, mx.float32, mx.float32), strict=True)
    )
    nibbles = (words[..., None] >> (4 * np.arange(8, dtype=np.uint32)) & 15).reshape(len(words), -1)
    grouped = nibbles.reshape(len(words), -1, 64).astype(np.float64)
    return (grouped * scales[..., None] + biases[..., None]).reshape(len(words), -1)


def attention(
    name: str, form: KeyValueFormat, heads: int, sizes: tuple[int, int], dtype: mx.Dtype
) -> Iterator[str]:
    """One key head at 40,003 keys, of 1, 5 and 16 rows. sizes: of a key and a value."""
    keys, values = (normal((1, KEYS, n), n + 1, dtype) for n in sizes)
    cache = (*form.store(keys), *form.store(values))
    half = len(cache) // 2
    read = [wide(form.dequantise(side))[0] for side in (cache[:half], cache[half:])]
    q, latent = (normal((heads, 16, n), 5 + n, dtype) for n in sizes)
    queries, scale = wide(q), sizes[0] ** -0.5
    if form.is_joined:
        queries, read[0] = np.concatenate([wide(latent), queries], -1), np.hstack(read[::-1])
    scores = scale * queries @ read[0].T
    scores[:, np.arange(KEYS) > np.arange(KEYS - 16, KEYS)[:, None]] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    right = (weights / weights.sum(-1, keepdims=True)) @ read[1]
    launcher, made = EmulatorLauncher(check=False, seconds=900), {}
    for rows in (1, 5, 16):
        began, place = perf_counter(), KeyExtent(KEYS)
        extra = {"q_latent": latent[:, -rows:]} if form.is_joined else {}
        newest = mx.contiguous(q[:, -rows:])
        made[rows] = few_query_attention(
            newest, cache, form, place, scale, launcher, None, *map(mx.contiguous, extra.values())
        )
        yield told(f"attention {name}, {rows} rows, {dtype}", made[rows], right[:, -rows:], began)
    same = all(mx.array_equal(made[16][:, -rows:], made[rows]).item() for rows in (1, 5))
    yield f"rows beside others: {'same bits' if same else 'WRONG'}"


def filtered(launcher: EmulatorLauncher) -> Iterator[str]:
    """Filters over the whole vocabulary, against plain operations."""
    logits = normal((3, OUTPUTS), 9, mx.float32, 3.0)
    keys = mx.array(np.random.default_rng(4).integers(0, 2**32, (3, 2), dtype=np.uint32))
    for filters in (SamplingFilters(0.8, 20, 0.95, 0.0), SamplingFilters(1.0, 0, 0.9, 0.05)):
        found = filtered_pick(logits, keys, filters.kernel_settings(), launcher)
        right = filtered_reference(logits, keys, filters)
        is_right = mx.array_equal(found, right).item()
        yield f"filtered pick, {filters}: {'ok' if is_right else 'WRONG'}"


def main() -> None:
    launcher = EmulatorLauncher(check=False, seconds=900)
    runs: list[Callable[[], Iterator[str]]] = [lambda: filtered(launcher)]
    for dtype in (mx.bfloat16, mx.float16):
        runs += [
            lambda dtype=dtype: products(dtype, launcher),
            lambda dtype=dtype: attention("of 6 heads", cache_format(), 6, (256, 256), dtype),
            lambda dtype=dtype: attention("in 8 bits", cache_format(8), 8, (128, 128), dtype),
            lambda dtype=dtype: attention(
                "of latents", cache_format(is_latent=True), 20, (64, 512), dtype
            ),
        ]
    for run in runs:
        for line in run():
            print(line, flush=True)


if __name__ == "__main__":
    main()
