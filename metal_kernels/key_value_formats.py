"""Ways a cache stores keys and values, as MSL that fetches a lane's share of one row.

Both buffers of a cache are [heads, capacity, size]; a lane takes size / 32 neighbouring elements.
Rows may lie `*_strides` apart, so that a view of a longer buffer is read without a copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import mlx.core as mx

from metal_kernels.kernel import Parameter

DENSE = """
template <int EACH, typename B>
void fetch_row(B buffer, size_t row_at, int lane, thread float* values) {
  UNROLL for (int i = 0; i < EACH; i++) {
    values[i] = float(buffer[row_at + lane * EACH + i]);
  }
}

#define KEYS(head, row, lane, values) \\
  fetch_row<KEY_EACH>(k, head * k_strides[0] + row * k_strides[1], lane, values)
#define VALUES(head, row, lane, values) \\
  fetch_row<VALUE_EACH>(v, head * v_strides[0] + row * v_strides[1], lane, values)
"""

AFFINE = """
// q of BITS bits in a stream of bytes; a lane's share of a row starts at a whole byte.
template <int EACH, int BITS, int GROUP, typename B, typename S>
void fetch_row(
    B words, S scales, S biases, size_t row_at, size_t group_at, int lane, thread float* values) {
  const device uchar* bytes = (const device uchar*)(words + row_at) + lane * EACH * BITS / 8;
  UNROLL for (int i = 0; i < EACH; i++) {
    const uint both = bytes[i * BITS / 8];
    const uint q = BITS == 8 ? both : (both >> (4 * (i % 2))) & 15;
    const size_t group = group_at + (lane * EACH + i) / GROUP;
    values[i] = fma(float(scales[group]), float(q), float(biases[group]));
  }
}

#define KEYS(head, row, lane, values) \\
  fetch_row<KEY_EACH, BITS, GROUP>( \\
      k, k_scales, k_biases, head * k_strides[0] + row * k_strides[1], \\
      head * k_scales_strides[0] + row * k_scales_strides[1], lane, values)
#define VALUES(head, row, lane, values) \\
  fetch_row<VALUE_EACH, BITS, GROUP>( \\
      v, v_scales, v_biases, head * v_strides[0] + row * v_strides[1], \\
      head * v_scales_strides[0] + row * v_scales_strides[1], lane, values)
"""

# MLX passes a buffer's strides only where the body itself names them
DENSE_STRIDES = "// k_strides v_strides"
AFFINE_STRIDES = "// k_strides v_strides k_scales_strides v_scales_strides"


@dataclass(frozen=True, slots=True, eq=False)
class KeyValueFormat:
    """One way of storing a cache.

    buffers: names of the kernel's inputs, keys' first. size: elements of a row of the first buffer
    of keys or values, from the stored width. share: a lane's part of a row is a multiple of it, so
    that it begins at a whole byte. header defines the macros KEYS and VALUES; mention:
    a comment that names the strides they use. dequantise: one side's arrays -> float32
    [heads, capacity, size].
    """

    name: str
    buffers: tuple[str, ...]
    header: str
    mention: str
    parameters: tuple[Parameter, ...]
    size: Callable[[int], int]
    share: int
    dequantise: Callable[[tuple[mx.array, ...]], mx.array]


@cache
def dense_cache() -> KeyValueFormat:
    """k [Hkv, capacity, D], v [Hkv, capacity, DV], floating."""
    return KeyValueFormat(
        name="dense",
        buffers=("k", "v"),
        header=DENSE,
        mention=DENSE_STRIDES,
        parameters=(),
        size=lambda width: width,
        share=1,
        dequantise=lambda arrays: arrays[0].astype(mx.float32),
    )


@cache
def affine_cache(bits: int, group: int = 64) -> KeyValueFormat:
    """Keys as uint32 k, k_scales, k_biases, then values alike; 4 or 8 bits, as `mx.quantize`."""
    assert bits in (4, 8), bits

    def dequantise(arrays: tuple[mx.array, ...]) -> mx.array:
        words, scales, biases = arrays
        exact = (scales.astype(mx.float32), biases.astype(mx.float32))
        return mx.dequantize(words, *exact, group_size=group, bits=bits)

    return KeyValueFormat(
        name=f"affine{bits}",
        buffers=("k", "k_scales", "k_biases", "v", "v_scales", "v_biases"),
        header=AFFINE,
        mention=AFFINE_STRIDES,
        parameters=(Parameter("BITS", bits), Parameter("GROUP", group)),
        size=lambda width: width * 32 // bits,
        share=8 // bits,
        dequantise=dequantise,
    )
