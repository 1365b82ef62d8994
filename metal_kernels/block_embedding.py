"""Rows of a matrix in GGUF blocks as floats, in one launch: an embedding's lookup.

    y[m, k] = W[tokens[m], k]      W [N, K] in a WeightFormat, read as it is stored

Plain MLX operations unpack a row's planes, scales and codes one after another, in 9 to 37 launches
of a few kilobytes each, for the trunk and for every drafted token. Here a thread unpacks one unit.

Cost: the rows' blocks read once, M K values written; two flops a value; one launch.
"""

from functools import lru_cache
from math import prod

import mlx.core as mx

from metal_kernels.few_row_matvec import MatvecTemplate, kernel_source
from metal_kernels.kernel import Launch, Launcher, parameters, pipeline
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.gguf_blocks import block_values

BODY = """
const int unit = thread_position_in_grid.x;
const size_t row = thread_position_in_grid.y;
if (unit < K / (8 * RUNS)) {
  auto held = FETCH(tokens[row], unit, K);
  UNROLL for (int run = 0; run < RUNS; run++) {
    float q[8];
    const float scale = decode(held, q);
    const size_t start = row * K + run_start(unit, run);
    UNROLL for (int i = 0; i < 8; i++) {
      y[start + i] = T(scale * q[i]);
    }
  }
}
"""

KERNEL = MatvecTemplate("block_embedding", BODY, before=("tokens",))
THREADS = 32
"""Of a threadgroup, at least as many as the formats' shared tables have entries."""


def block_embedding(
    tokens: mx.array, blocks: mx.array, form: WeightFormat, dtype: mx.Dtype, launcher: Launcher
) -> mx.array:
    """Look up rows of a GGUF matrix, uint8 [N, bytes of a row]: ids [...] -> `dtype` [..., K]."""
    launch = _make_launch(form, tokens.shape, block_values(form.name, blocks.shape[-1]), dtype)
    return launcher.run(launch, (tokens.astype(mx.int32), blocks))[0]


@lru_cache(maxsize=256)  # prompts have rows in any number
def _make_launch(
    form: WeightFormat, shape: tuple[int, ...], inputs: int, dtype: mx.Dtype
) -> Launch:
    made = pipeline(kernel_source(KERNEL, form), parameters(T=dtype, K=inputs))
    units = -(-inputs // form.unit // THREADS) * THREADS
    return Launch(made, ((*shape, inputs),), (dtype,), (units, prod(shape), 1), (THREADS, 1, 1))


def reference(tokens: mx.array, blocks: mx.array, form: WeightFormat, dtype: mx.Dtype) -> mx.array:
    """Rows of a GGUF matrix in plain MLX operations, to check block_embedding against."""
    return form.dequantise((blocks[tokens],)).astype(dtype)
