"""MLX's affine packing: w = scale * q + bias, q of 2 to 8 bits, groups of 32, 64 or 128.

A row is one little-endian stream of bits: value j lies at bits [j * BITS, (j + 1) * BITS). Eight
values are exactly BITS bytes, so a unit never shares a byte with another. 2, 4 and 8 bits are read
as words of 16 and 32 bits, 3, 5 and 6 byte by byte (a unit then starts at an odd address).
"""

from functools import cache

import mlx.core as mx

from metal_kernels.kernel import Parameter
from metal_kernels.weight_formats.contract import WeightFormat

BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)

HEADER = """
constant constexpr int RUNS = 1;

template <int BITS>
struct AffineUnit {
  uint low;   // bits 0 to 31 of the unit
  uint high;  // the rest
  float scale;
  float bias;
};

template <int BITS, int GROUP, typename W, typename S>
AffineUnit<BITS> fetch_affine(W w, S scales, S biases, int row, int unit, int K) {
  AffineUnit<BITS> it;
  const size_t at = size_t(row) * (K / 8) + unit;  // counted in units
  it.low = 0;
  it.high = 0;
  if (BITS == 8) {
    it.low = w[2 * at];
    it.high = w[2 * at + 1];
  } else if (BITS == 4) {
    it.low = w[at];
  } else if (BITS == 2) {
    it.low = ((const device ushort*)w)[at];
  } else {
    const device uchar* bytes = (const device uchar*)w + at * BITS;
    UNROLL for (int i = 0; i < BITS; i++) {
      if (i < 4) {
        it.low |= uint(bytes[i]) << (8 * i);
      } else {
        it.high |= uint(bytes[i]) << (8 * (i - 4));
      }
    }
  }
  const size_t group = size_t(row) * (K / GROUP) + unit * 8 / GROUP;
  it.scale = float(scales[group]);
  it.bias = float(biases[group]);
  return it;
}

inline int run_start(int unit, int run) {
  return unit * 8;
}

template <int BITS>
float2 decode(thread const AffineUnit<BITS>& it, int run, thread float* q) {
  constexpr uint mask = (1u << BITS) - 1;
  UNROLL for (int i = 0; i < 8; i++) {
    const int from = i * BITS;
    uint bits;
    if (from >= 32) {
      bits = it.high >> (from - 32);
    } else if (from + BITS <= 32) {
      bits = it.low >> from;
    } else {
      bits = (it.low >> from) | (it.high << (32 - from));
    }
    q[i] = float(bits & mask);
  }
  return float2(it.scale, it.bias);
}

#define FETCH(row, unit, K) fetch_affine<BITS, GROUP>(w, scales, biases, row, unit, K)
"""


@cache
def affine(bits: int, group: int) -> WeightFormat:
    """uint32 w [N, K * bits / 32], floating scales and biases [N, K / group]."""
    assert bits in BITS, bits
    assert group in GROUPS, group

    def dequantise(arrays: tuple[mx.array, ...]) -> mx.array:
        w, scales, biases = arrays
        exact = (scales.astype(mx.float32), biases.astype(mx.float32))
        return mx.dequantize(w, *exact, group_size=group, bits=bits)

    return WeightFormat(
        name=f"affine{bits}",
        buffers=("w", "scales", "biases"),
        unit=8,
        header=HEADER,
        parameters=(Parameter("BITS", bits), Parameter("GROUP", group)),
        dequantise=dequantise,
    )
