"""A matrix as plain numbers: float32, float16 or bfloat16, rows of K values."""

import mlx.core as mx

from metal_kernels.weight_formats.contract import WeightFormat

HEADER = """
constant constexpr int RUNS = 1;
constant constexpr bool OFFSET = false;

template <typename W>
struct DenseUnit {
  W values[8];
};

template <typename W>
METAL_FUNC DenseUnit<W> fetch_dense(const device W* w, int row, int unit, int K) {
  DenseUnit<W> it;
  const device W* from = w + size_t(row) * K + unit * 8;
  UNROLL for (int i = 0; i < 8; i++) {
    it.values[i] = from[i];
  }
  return it;
}

METAL_FUNC int run_start(int unit, int run) {
  return unit * 8;
}

template <typename W>
METAL_FUNC float2 decode(thread DenseUnit<W>& it, thread float* q) {
  UNROLL for (int i = 0; i < 8; i++) {
    q[i] = float(it.values[i]);
  }
  return float2(1.0f, 0.0f);
}

#define FETCH(row, unit, K) fetch_dense(w, row, unit, K)
"""

DENSE = WeightFormat(
    name="dense",
    buffers=("w",),
    unit=8,
    header=HEADER,
    parameters=(),
    dequantise=lambda arrays: arrays[0].astype(mx.float32),
)
"""w [N, K]."""
