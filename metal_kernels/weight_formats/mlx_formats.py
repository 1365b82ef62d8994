"""Weight formats of MLX: plain floats, affine packing, and four-bit floats (mxfp4, nvfp4).

Affine: w = scale * q + bias, q of 2 to 8 bits, groups of 32, 64 or 128. A row is one little-endian
stream of bits: value j lies at bits [j * BITS, (j + 1) * BITS). Eight values are exactly BITS
bytes; a unit has so many of them that it is whole words of 32 bits and no more than a group: 32
values at 2, 3 and 5 bits, 16 at 4, 6 and 8. A shift costs M1 and M2 four masks, so values of 4 and
8 bits are taken two at a time, and every other nibble where it lies: a nibble in place is 16 q, and
(scale / 16) * (16 q) = scale * q, exact for scales above 2^-122.

mxfp4 (groups of 32, power-of-two scales) and nvfp4 (groups of 16, E4M3 scales): a value is E2M1,
scale * {0, 0.5, 1, 1.5, 2, 3, 4, 6} with a sign in bit 3, low nibble first, and without an offset
(OCP Microscaling Formats 1.0).
"""

from functools import cache
from typing import Literal

import mlx.core as mx

from metal_kernels.kernel import parameters
from metal_kernels.weight_formats.contract import WeightFormat

_DENSE = """
constant constexpr int RUNS = 1;

struct DenseUnit {
  float values[8];
};

template <typename W>
METAL_FUNC DenseUnit fetch_dense(const device W* w, int row, int unit, int K) {
  DenseUnit it;
  load_values<8>(w + size_t(row) * K + unit * 8, it.values);
  return it;
}

METAL_FUNC int run_start(int unit, int run) {
  return unit * 8;
}

METAL_FUNC float decode(thread DenseUnit& it, thread float* q) {
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = it.values[i];
  }
  return 1.0f;
}

#define FETCH(row, unit, K) fetch_dense(w, row, unit, K)
"""

DENSE = WeightFormat("dense", ("w",), 8, _DENSE, (), lambda arrays: arrays[0].astype(mx.float32))
"""A matrix w [N, K] of float32, float16 or bfloat16."""

BITS = (2, 3, 4, 5, 6, 8)
GROUP = 64
GROUPS = (32, GROUP, 128)

_AFFINE = """

template <int BITS>
struct AffineUnit {
  uint words[BITS * RUNS / 4];
  float scale;
  float bias;
};

template <int BITS, int GROUP, typename W, typename S>
METAL_FUNC AffineUnit<BITS> fetch_affine(W w, S scales, S biases, int row, int unit, int K) {
  constexpr int WORDS = BITS * RUNS / 4;
  AffineUnit<BITS> it;
  const uint at = uint(row) * uint(K / (8 * RUNS)) + unit;  // counted in units
  load_words<WORDS>(w + at * WORDS, it.words);
  const uint group = uint(row) * uint(K / GROUP) + unit * (8 * RUNS) / GROUP;
  it.scale = float(scales[group]);
  it.bias = float(biases[group]);
  return it;
}

METAL_FUNC int run_start(int unit, int run) {
  return (unit * RUNS + run) * 8;
}

template <int BITS>
METAL_FUNC float decode(thread AffineUnit<BITS>& it, thread float* q) {
  constexpr int WORDS = BITS * RUNS / 4;
  constexpr uint mask = (1u << BITS) - 1;
  if (BITS == 4 || BITS == 8) {
    constexpr int EACH = 16 / BITS;  // values of half a word
    UNROLL for (int i = 0; i < EACH; i++) {
      // of both halves one value, the upper of a byte where it lies: 16 times as large
      constexpr uint both = mask * 0x10001;
      const int up = i * BITS % 8;
      const float scale = up == 0 ? it.scale : it.scale * 0.0625f;
      UNROLL for (int word = 0; word < BITS / 4; word++) {
        const float2 two = integers((it.words[word] >> (i * BITS - up)) & (both << up), 0.0f);
        q[word * 2 * EACH + i] = fma(scale, two.x, it.bias);
        q[word * 2 * EACH + EACH + i] = fma(scale, two.y, it.bias);
      }
    }
  } else {
    UNROLL for (int i = 0; i < 8; i++) {
      const int from = i * BITS % 32;
      uint bits = it.words[i * BITS / 32] >> from;
      if (from + BITS > 32) {
        bits |= it.words[i * BITS / 32 + 1] << (32 - from);
      }
      q[i] = fma(it.scale, float(bits & mask), it.bias);
    }
  }
  constexpr int WHOLE = BITS / 4;       // words and bits of a run
  constexpr int REST = 8 * (BITS % 4);
  UNROLL for (int i = 0; i < WORDS; i++) {
    const uint next = i + WHOLE < WORDS ? it.words[i + WHOLE] : 0;
    const uint after = i + WHOLE + 1 < WORDS ? it.words[i + WHOLE + 1] : 0;
    it.words[i] = REST == 0 ? next : (next >> REST) | (after << (32 - REST) % 32);
  }
  return 1.0f;
}

#define FETCH(row, unit, K) fetch_affine<BITS, GROUP>(w, scales, biases, row, unit, K)
"""


@cache
def affine_format(bits: int, group: int) -> WeightFormat:
    """MLX's affine weight format of so many bits: w = scale * q + bias.

    Arrays: uint32 w [N, K * bits / 32], floating scales and biases [N, K / group].
    """
    assert bits in BITS, bits
    assert group in GROUPS, group

    def dequantise(arrays: tuple[mx.array, ...]) -> mx.array:
        w, scales, biases = arrays
        exact = (scales.astype(mx.float32), biases.astype(mx.float32))
        return mx.dequantize(w, *exact, group_size=group, bits=bits)

    runs = 4 if bits in (2, 3, 5) else 2
    return WeightFormat(
        name=f"affine{bits}" if group == GROUP else f"affine{bits}g{group}",
        buffers=("w", "scales", "biases"),
        unit=8 * runs,
        header=f"\nconstant constexpr int RUNS = {runs};\n{_AFFINE}",
        parameters=parameters(BITS=bits, GROUP=group),
        dequantise=dequantise,
    )


_FP4 = """
constant constexpr int RUNS = 2;

struct Fp4Unit {
  uint words[2];
  float scale;
};

// The bits of 2^(e - 127); e = 0 is a denormal, e = 255 no number.
METAL_FUNC float power_of_two(uint e) {
  if (e == 0) {
    return as_type<float>(0x00400000u);
  }
  return e == 255 ? as_type<float>(0x7fc00000u) : as_type<float>(e << 23);
}

// Sign, four bits of exponent with a bias of 7, three of mantissa; no infinities.
METAL_FUNC float e4m3(uint b) {
  const uint e = (b >> 3) & 15;
  const uint m = b & 7;
  float size = e == 0 ? float(m) * 0.001953125f : float(8 + m) * power_of_two(e + 117);
  if ((b & 127) == 127) {
    size = as_type<float>(0x7fc00000u);
  }
  return (b & 128) ? -size : size;
}

METAL_FUNC int run_start(int unit, int run) {
  return (unit * 2 + run) * 8;
}

METAL_FUNC float decode(thread Fp4Unit& it, thread float* q) {
  UNROLL for (int i = 0; i < 4; i++) {
    // at the top of both halves a code, the sign first
    const uint codes = it.words[0] << (12 - 4 * i);
    // as float16 its sign, exponent and mantissa are those of a number 2^14 times smaller
    const half2 two = as_type<half2>((codes & 0x80008000) | ((codes & 0x70007000) >> 3));
    q[i] = float(two.x) * 16384.0f;
    q[i + 4] = float(two.y) * 16384.0f;
  }
  it.words[0] = it.words[1];
  return it.scale;
}

template <int GROUP, typename W, typename S>
METAL_FUNC Fp4Unit fetch_fp4(W w, S scales, int row, int unit, int K) {
  Fp4Unit it;
  const uint at = uint(row) * uint(K / 8) + unit * 2;
  load_words<2>(w + at, it.words);
  const uint scale = scales[uint(row) * uint(K / GROUP) + unit * 16 / GROUP];
  it.scale = GROUP == 32 ? power_of_two(scale) : e4m3(scale);
  return it;
}

#define FETCH(row, unit, K) fetch_fp4<GROUP>(w, scales, row, unit, K)
"""


def _fp4_format(mode: Literal["mxfp4", "nvfp4"], group: int) -> WeightFormat:
    def dequantise(arrays: tuple[mx.array, ...]) -> mx.array:
        w, scales = arrays
        return mx.dequantize(w, scales, group_size=group, bits=4, mode=mode, dtype=mx.float32)

    return WeightFormat(mode, ("w", "scales"), 16, _FP4, parameters(GROUP=group), dequantise)


MXFP4, NVFP4 = _fp4_format("mxfp4", 32), _fp4_format("nvfp4", 16)
"""Four-bit floats: uint32 w [N, K / 8], uint8 scales [N, K / 32] for mxfp4, [N, K / 16] for nvfp4.
"""
