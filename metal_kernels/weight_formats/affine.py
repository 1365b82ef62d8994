"""MLX's affine packing: w = scale * q + bias, q of 2 to 8 bits, groups of 32, 64 or 128.

A row is one little-endian stream of bits: value j lies at bits [j * BITS, (j + 1) * BITS). Eight
values are exactly BITS bytes; a unit has so many of them that it is whole words of 32 bits and no
more than a group: 32 values at 2, 3 and 5 bits, 16 at 4, 6 and 8.
"""

from functools import cache

import mlx.core as mx

from metal_kernels.kernel import Parameter
from metal_kernels.weight_formats.contract import WeightFormat

BITS = (2, 3, 4, 5, 6, 8)
GROUP = 64
GROUPS = (32, GROUP, 128)

TWO_RUNS = """
constant constexpr int RUNS = 2;
"""

FOUR_RUNS = """
constant constexpr int RUNS = 4;
"""

HEADER = """
constant constexpr bool OFFSET = true;

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
  const size_t at = size_t(row) * (K / (8 * RUNS)) + unit;  // counted in units
  UNROLL for (int i = 0; i < WORDS; i++) {
    it.words[i] = w[at * WORDS + i];
  }
  const size_t group = size_t(row) * (K / GROUP) + unit * (8 * RUNS) / GROUP;
  it.scale = float(scales[group]);
  it.bias = float(biases[group]);
  return it;
}

METAL_FUNC int run_start(int unit, int run) {
  return (unit * RUNS + run) * 8;
}

template <int BITS>
METAL_FUNC float2 decode(thread AffineUnit<BITS>& it, thread float* q) {
  constexpr int WORDS = BITS * RUNS / 4;
  constexpr uint mask = (1u << BITS) - 1;
  UNROLL for (int i = 0; i < 8; i++) {
    const int from = i * BITS % 32;
    uint bits = it.words[i * BITS / 32] >> from;
    if (from + BITS > 32) {
      bits |= it.words[i * BITS / 32 + 1] << (32 - from);
    }
    q[i] = float(bits & mask);
  }
  constexpr int WHOLE = BITS / 4;       // words and bits of a run
  constexpr int REST = 8 * (BITS % 4);
  UNROLL for (int i = 0; i < WORDS; i++) {
    const uint next = i + WHOLE < WORDS ? it.words[i + WHOLE] : 0;
    const uint after = i + WHOLE + 1 < WORDS ? it.words[i + WHOLE + 1] : 0;
    it.words[i] = REST == 0 ? next : (next >> REST) | (after << (32 - REST) % 32);
  }
  return float2(it.scale, it.bias);
}

#define FETCH(row, unit, K) fetch_affine<BITS, GROUP>(w, scales, biases, row, unit, K)
"""


@cache
def affine(bits: int, group: int) -> WeightFormat:
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
        header=(FOUR_RUNS if runs == 4 else TWO_RUNS) + HEADER,
        parameters=(Parameter("BITS", bits), Parameter("GROUP", group)),
        dequantise=dequantise,
    )
