"""Q6_K, Q3_K and Q2_K of GGUF read as they lie in the file: 16 groups of 16 values a block of 256.

A block's values come as two halves of 128, a half as four quarters of 32 whose bits share bytes.
A unit is therefore four runs of eight, one of each quarter: it needs eight bytes of each plane and
uses every bit of them. Blocks start at even addresses, so everything is read as ushort.

    Q6_K, 210 bytes: low nibbles [128], high bit pairs [64], int8 scales [16], half d
        w = d * scale * (q - 32)
    Q3_K, 110 bytes: high bits [32], low bit pairs [64], 6-bit scales [12], half d
        w = d * (scale - 32) * (q - 4)
    Q2_K, 84 bytes: nibbles of scale and minimum [16], bit pairs [64], half d, half dmin
        w = d * scale * q - dmin * minimum

Layouts: ggml-common.h and the gguf package.
"""

from functools import cache

from metal_kernels.weight_formats import gguf_values
from metal_kernels.weight_formats.block_format import block_format
from metal_kernels.weight_formats.contract import WeightFormat

BLOCK = 256

SHARED = """
constant constexpr int RUNS = 4;

// Eight bytes from an even address.
struct Eight {
  ushort pairs[4];
};

template <typename P>
Eight eight(P from) {
  Eight it;
  for (int i = 0; i < 4; i++) {
    it.pairs[i] = ((const device ushort*)from)[i];
  }
  return it;
}

inline uint byte_of(thread const Eight& it, int i) {
  return (it.pairs[i / 2] >> (8 * (i % 2))) & 255;
}

template <typename P>
float half_at(P from) {
  return float(*(const device half*)from);
}

inline int run_start(int unit, int run) {
  return (unit / 4) * 128 + run * 32 + (unit % 4) * 8;
}
"""

Q6_K = (
    SHARED
    + """
struct Q6Unit {
  Eight low[2];
  Eight high;
  float scale[4];
};

template <typename W>
Q6Unit fetch_q6(W w, int row, int unit, int K) {
  Q6Unit it;
  W block = w + (size_t(row) * (K / 256) + unit / 8) * 210;
  const int half_of = (unit / 4) % 2;
  const int l = (unit % 4) * 8;
  it.low[0] = eight(block + 64 * half_of + l);
  it.low[1] = eight(block + 64 * half_of + 32 + l);
  it.high = eight(block + 128 + 32 * half_of + l);
  const float d = half_at(block + 208);
  for (int run = 0; run < 4; run++) {
    it.scale[run] = d * float(char(block[192 + 8 * half_of + 2 * run + l / 16]));
  }
  return it;
}

inline float2 decode(thread const Q6Unit& it, int run, thread float* q) {
  for (int i = 0; i < 8; i++) {
    const uint low = (byte_of(it.low[run % 2], i) >> (4 * (run / 2))) & 15;
    const uint high = (byte_of(it.high, i) >> (2 * run)) & 3;
    q[i] = float(int(low | (high << 4)) - 32);
  }
  return float2(it.scale[run], 0.0f);
}

#define FETCH(row, unit, K) fetch_q6(w, row, unit, K)
"""
)

Q3_K = (
    SHARED
    + """
struct Q3Unit {
  Eight low;
  Eight high;
  float scale[4];
  int half_of;
};

template <typename W>
Q3Unit fetch_q3(W w, int row, int unit, int K) {
  Q3Unit it;
  W block = w + (size_t(row) * (K / 256) + unit / 8) * 110;
  const int half_of = (unit / 4) % 2;
  const int l = (unit % 4) * 8;
  it.half_of = half_of;
  it.high = eight(block + l);
  it.low = eight(block + 32 + 32 * half_of + l);
  const float d = half_at(block + 108);
  for (int run = 0; run < 4; run++) {
    const int which = 8 * half_of + 2 * run + l / 16;
    const uint low = (uint(block[96 + which % 8]) >> (4 * (which / 8))) & 15;
    const uint high = (uint(block[104 + which % 4]) >> (2 * (which / 4))) & 3;
    it.scale[run] = d * float(int(low | (high << 4)) - 32);
  }
  return it;
}

inline float2 decode(thread const Q3Unit& it, int run, thread float* q) {
  for (int i = 0; i < 8; i++) {
    const uint low = (byte_of(it.low, i) >> (2 * run)) & 3;
    const uint high = (byte_of(it.high, i) >> (4 * it.half_of + run)) & 1;
    q[i] = float(int(low | (high << 2)) - 4);
  }
  return float2(it.scale[run], 0.0f);
}

#define FETCH(row, unit, K) fetch_q3(w, row, unit, K)
"""
)

Q2_K = (
    SHARED
    + """
struct Q2Unit {
  Eight bits;
  float scale[4];
  float minimum[4];
};

template <typename W>
Q2Unit fetch_q2(W w, int row, int unit, int K) {
  Q2Unit it;
  W block = w + (size_t(row) * (K / 256) + unit / 8) * 84;
  const int half_of = (unit / 4) % 2;
  const int l = (unit % 4) * 8;
  it.bits = eight(block + 16 + 32 * half_of + l);
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int run = 0; run < 4; run++) {
    const uint both = block[8 * half_of + 2 * run + l / 16];
    it.scale[run] = d * float(both & 15);
    it.minimum[run] = -dmin * float(both >> 4);
  }
  return it;
}

inline float2 decode(thread const Q2Unit& it, int run, thread float* q) {
  for (int i = 0; i < 8; i++) {
    q[i] = float((byte_of(it.bits, i) >> (2 * run)) & 3);
  }
  return float2(it.scale[run], it.minimum[run]);
}

#define FETCH(row, unit, K) fetch_q2(w, row, unit, K)
"""
)


@cache
def q6_k() -> WeightFormat:
    """uint8 w [N, K / 256 * 210]."""
    return block_format("q6_k", 210 / BLOCK, Q6_K, gguf_values.q6_k)


@cache
def q3_k() -> WeightFormat:
    """uint8 w [N, K / 256 * 110]."""
    return block_format("q3_k", 110 / BLOCK, Q3_K, gguf_values.q3_k)


@cache
def q2_k() -> WeightFormat:
    """uint8 w [N, K / 256 * 84]."""
    return block_format("q2_k", 84 / BLOCK, Q2_K, gguf_values.q2_k)
