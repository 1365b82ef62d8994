"""IQ4_NL and IQ4_XS of GGUF read as they lie in the file: four bits into a table of 16 values.

    IQ4_NL, 32 values in 18 bytes: half d, nibbles [16]
        w = d * table[q]
    IQ4_XS, 256 values in 136 bytes: half d, ushort high scales, low scales [4], nibbles [128]
        w = d * (scale - 32) * table[q], one 6-bit scale for 32 values

The low nibbles of 16 bytes are the first 16 values, the high ones the next: a unit is four runs of
eight. Layouts: ggml-common.h and the gguf package.
"""

from functools import cache

from metal_kernels.weight_formats import gguf_values
from metal_kernels.weight_formats.block_format import block_format
from metal_kernels.weight_formats.contract import WeightFormat

SHARED = """
constant constexpr int RUNS = 4;
constant float IQ4_TABLE[16] = {
    -127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
    1.0f, 13.0f, 25.0f, 38.0f, 53.0f, 69.0f, 89.0f, 113.0f};

struct Iq4Unit {
  ushort bytes[8];
  float scale;
};

template <typename P>
Iq4Unit nibbles_at(P from, float scale) {
  Iq4Unit it;
  for (int i = 0; i < 8; i++) {
    it.bytes[i] = ((const device ushort*)from)[i];
  }
  it.scale = scale;
  return it;
}

template <typename P>
float half_at(P from) {
  return float(*(const device half*)from);
}

inline int run_start(int unit, int run) {
  return unit * 32 + run * 8;
}

inline float2 decode(thread const Iq4Unit& it, int run, thread float* q) {
  for (int i = 0; i < 8; i++) {
    const uint both = it.bytes[(run % 2) * 4 + i / 2] >> (8 * (i % 2));
    q[i] = IQ4_TABLE[(both >> (4 * (run / 2))) & 15];
  }
  return float2(it.scale, 0.0f);
}
"""

IQ4_NL = (
    SHARED
    + """
template <typename W>
Iq4Unit fetch_iq4(W w, int row, int unit, int K) {
  W block = w + (size_t(row) * (K / 32) + unit) * 18;
  return nibbles_at(block + 2, half_at(block));
}

#define FETCH(row, unit, K) fetch_iq4(w, row, unit, K)
"""
)

IQ4_XS = (
    SHARED
    + """
template <typename W>
Iq4Unit fetch_iq4(W w, int row, int unit, int K) {
  W block = w + (size_t(row) * (K / 256) + unit / 8) * 136;
  const int which = unit % 8;
  const uint highs = *(const device ushort*)(block + 2);
  const uint low = (uint(block[4 + which / 2]) >> (4 * (which % 2))) & 15;
  const uint high = (highs >> (2 * which)) & 3;
  const float scale = half_at(block) * float(int(low | (high << 4)) - 32);
  return nibbles_at(block + 8 + 16 * which, scale);
}

#define FETCH(row, unit, K) fetch_iq4(w, row, unit, K)
"""
)


@cache
def iq4_nl() -> WeightFormat:
    """uint8 w [N, K / 32 * 18]."""
    return block_format("iq4_nl", 18 / 32, IQ4_NL, gguf_values.iq4_nl)


@cache
def iq4_xs() -> WeightFormat:
    """uint8 w [N, K / 256 * 136]."""
    return block_format("iq4_xs", 136 / 256, IQ4_XS, gguf_values.iq4_xs)
