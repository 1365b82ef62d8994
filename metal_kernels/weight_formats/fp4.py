"""Four-bit floats with shared scales: mxfp4 (groups of 32, powers of two), nvfp4 (16, E4M3).

A value is E2M1, scale * {0, 0.5, 1, 1.5, 2, 3, 4, 6} with a sign in bit 3, low nibble first, and
without an offset. OCP Microscaling Formats 1.0; MLX's packing of both.
"""

from functools import cache

import mlx.core as mx

from metal_kernels.kernel import Parameter
from metal_kernels.weight_formats.contract import WeightFormat

HEADER = """
constant constexpr int RUNS = 2;
constant constexpr bool OFFSET = false;

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

METAL_FUNC float2 decode(thread Fp4Unit& it, thread float* q) {
  UNROLL for (int i = 0; i < 8; i++) {
    const uint code = it.words[0] >> (4 * i);
    // as float16 its sign, exponent and mantissa are those of a number 2^14 times smaller
    const ushort bits = ushort(((code & 7) << 9) | ((code & 8) << 12));
    q[i] = float(as_type<half>(bits)) * 16384.0f;
  }
  it.words[0] = it.words[1];
  return float2(it.scale, 0.0f);
}

template <int GROUP, typename W, typename S>
METAL_FUNC Fp4Unit fetch_fp4(W w, S scales, int row, int unit, int K) {
  Fp4Unit it;
  const size_t at = size_t(row) * (K / 8) + unit * 2;
  it.words[0] = w[at];
  it.words[1] = w[at + 1];
  const uint scale = scales[size_t(row) * (K / GROUP) + unit * 16 / GROUP];
  it.scale = GROUP == 32 ? power_of_two(scale) : e4m3(scale);
  return it;
}

#define FETCH(row, unit, K) fetch_fp4<GROUP>(w, scales, row, unit, K)
"""


@cache
def mxfp4() -> WeightFormat:
    """The mxfp4 weight format: uint32 w [N, K / 8], uint8 scales [N, K / 32]."""
    return _fp4("mxfp4", 32)


@cache
def nvfp4() -> WeightFormat:
    """The nvfp4 weight format: uint32 w [N, K / 8], uint8 scales [N, K / 16]."""
    return _fp4("nvfp4", 16)


def _fp4(mode: str, group: int) -> WeightFormat:
    def dequantise(arrays: tuple[mx.array, ...]) -> mx.array:
        w, scales = arrays
        return mx.dequantize(w, scales, group_size=group, bits=4, mode=mode, dtype=mx.float32)

    return WeightFormat(
        name=mode,
        buffers=("w", "scales"),
        unit=16,
        header=HEADER,
        parameters=(Parameter("GROUP", group),),
        dequantise=dequantise,
    )
