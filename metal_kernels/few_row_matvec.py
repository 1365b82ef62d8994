"""y = x W^T for 1 to 9 rows x, bit-equal for any number of rows.

Verifying a draft multiplies the same weights by a few rows. Memory is the bound, so every weight
is read once for all rows; and a row's result must not depend on the rows beside it, so one
algorithm serves every count: the order in which a row adds is fixed by K and the format.

    x [M, K] float, W [N, K] in a WeightFormat: units of one, two or four runs u of 8 values q_u,
        fetched together, with the runs' scales s_u
    part[l] = sum over the runs u of units l, l + 32, ... of s_u * (q_u . x_u)
    y[m, n] = part[0] + ... + part[31], neighbours first, then neighbouring pairs and so on
    all in float32

Two more kernels add to the product, or gate it, before they store it, which saves a launch. The
product is the same bit for bit, and rounded to x's dtype before the addition or the gate:

    y = x W^T + c                       c [N] (a bias) or [M, N] (a residual)
    y = silu(x G^T) * (x U^T)           gate and up of a feed-forward, one matrix [2N, K], G's rows
                                        first; silu(g) = g / (1 + exp(-g)) (arXiv 2002.05202)

Kernels of other files use ACCUMULATE and define by three macros which rows of the matrix (W_ROW),
which values of x (X_VALUE) and which of the M rows (HAS_ROW) it works on.

A SIMD-group takes `R` weight rows and all M rows of x: a lane fetches a unit of each weight row,
and each x it loads serves R rows. R * M accumulators, at most 27 a thread; beside them the units,
eight of each unit's values as floats and eight values of one row of x are live, whatever M is.
Neighbouring lanes fetch neighbouring units, so a SIMD-group reads whole lines. In the end lanes
exchange what they have added up, and each of the first R * M stores one sum. Weight rows beyond N
are read as the last one and not stored. Every product is an explicit fma: what a compiler contracts
could depend on M. The loop over a unit's runs is written out for few rows only: four runs of eight
rows would be 16 KB of code, which no instruction cache holds, and compilers move so much of it up
that values lose their registers. Gate and up: a SIMD-group takes the same rows of both.

Cost: weights, x and c read once, y written, 2 M N K flops (gate and up: 4 M N K).
"""

from dataclasses import dataclass
from functools import cache
from math import prod

import mlx.core as mx

from metal_kernels.kernel import (
    KernelSource,
    Launch,
    Launcher,
    Parameter,
    parameters,
    pipeline,
)
from metal_kernels.weight_formats.contract import WeightFormat

MOST_ROWS = 9
"""Of a launch: those of the longest verify pass."""

MOST_ACCUMULATORS = 27
GROUPS_TOGETHER = 2
"""SIMD-groups of a threadgroup; they share nothing."""

_SETUP = """
const int K = x_shape[x_ndim - 1];
const int lane = thread_index_in_simdgroup;
const int simd = threadgroup_position_in_grid.x * SIMDS + simdgroup_index_in_threadgroup;
#define X_ROW(m) (x + size_t(m) * K)
#define HAS_ROW(m) true
"""

SETUP = f"""{_SETUP}
const int N = w_shape[0];
#define W_ROW(r) min(first + r, N - 1)
"""

FIRST = """
const int first = simd * R;
"""

ACCUMULATE = """
#define UNROLL_RUNS _Pragma("clang loop unroll_count(AT_ONCE)")
float total[M][R];
UNROLL for (int m = 0; m < M; m++) {
  UNROLL for (int r = 0; r < R; r++) {
    total[m][r] = 0;
  }
}

constexpr int AT_ONCE = M * RUNS <= 8 ? RUNS : 1;
const int units = K / (8 * RUNS);
for (int unit = lane; unit < units; unit += 32) {
  decltype(FETCH(0, 0, 0)) fetched[R];
  UNROLL for (int r = 0; r < R; r++) {
    fetched[r] = FETCH(W_ROW(r), unit, K);
  }
  UNROLL_RUNS for (int run = 0; run < RUNS; run++) {
    const int start = run_start(unit, run);
    float q[R][8];
    float scale[R];
    UNROLL for (int r = 0; r < R; r++) {
      scale[r] = decode(fetched[r], q[r]);
    }
    UNROLL for (int m = 0; m < M; m++) {
      if (HAS_ROW(m)) {
        float x8[8];
        load_values<8>(X_ROW(m) + start, x8);
        UNROLL for (int r = 0; r < R; r++) {
          float dot = q[r][0] * x8[0];
          UNROLL for (int i = 1; i < 8; i++) {
            dot = fma(q[r][i], x8[i], dot);
          }
          total[m][r] = fma(scale[r], dot, total[m][r]);
        }
      }
    }
  }
}
"""

SUM = """
const float sum = float(T(sum_of_each<M * R>(total[0], lane)));
const int m = lane / R;  // whose product with weight row r this lane has
const int r = lane % R;
"""

STORE = f"""{SUM}
if (m < M && first + r < N) {{
  y[size_t(m) * N + first + r] = T(sum);
}}
"""

STORE_SUM = f"""{SUM}
if (m < M && first + r < N) {{
  const float added = float(c[(EACH_ROW ? size_t(m) * N : 0) + first + r]);
  y[size_t(m) * N + first + r] = T(sum + added);
}}
"""

PAIR_SETUP = f"""{_SETUP}
const int N = w_shape[0] / 2;
const int first = simd * (R / 2);
#define W_ROW(r) (min(first + r % (R / 2), N - 1) + (r < R / 2 ? 0 : N))
"""

PAIR_STORE = f"""{SUM}
const float up = simd_shuffle_down(sum, R / 2);
if (m < M && r < R / 2 && first + r < N) {{
  y[size_t(m) * N + first + r] = T(sum / (1.0f + exp(-sum)) * up);
}}
"""


@dataclass(frozen=True, slots=True, eq=False)
class MatvecTemplate:
    """Text of a kernel that multiplies few rows by a matrix, before a weight format is put in.

    before, after: names of its inputs before and after the matrix's buffers, in order.
    """

    name: str
    body: str
    before: tuple[str, ...] = ("x",)
    after: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("y",)
    header: str = ""


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Sizes of a kernel launch for few rows times a matrix.

    count: rows M of x. together: weight rows R per SIMD-group. simds: number of SIMD-groups. deep:
    second dimension of the grid.
    """

    count: int
    together: int
    simds: int
    deep: int = 1

    @property
    def thread_grid(self) -> tuple[int, int, int]:
        """Grid size in threads, a multiple of the threadgroup's."""
        return (32 * -(-self.simds // GROUPS_TOGETHER) * GROUPS_TOGETHER, self.deep, 1)


def weight_rows(rows: int) -> int:
    """Number R of weight rows that a SIMD-group multiplies when x has `rows` rows."""
    assert 1 <= rows <= MOST_ROWS, rows
    return min(4, MOST_ACCUMULATORS // rows)


def few_row_launch(
    kernel: MatvecTemplate,
    form: WeightFormat,
    dtype: mx.Dtype,
    outputs: tuple[tuple[tuple[int, ...], mx.Dtype], ...],
    launch_shape: LaunchShape,
    extra_parameters: tuple[Parameter, ...] = (),
) -> Launch:
    """Make the launch of a kernel for few rows times a matrix of a weight format.

    dtype: of the rows. outputs: shape and dtype of each. extra_parameters: parameters of this
    kernel.
    """
    sizes = parameters(
        T=dtype, M=launch_shape.count, R=launch_shape.together, SIMDS=GROUPS_TOGETHER
    )
    shapes, dtypes = zip(*outputs, strict=True)
    made = pipeline(kernel_source(kernel, form), (*sizes, *extra_parameters, *form.parameters))
    return Launch(made, shapes, dtypes, launch_shape.thread_grid, (32 * GROUPS_TOGETHER, 1, 1))


@cache
def kernel_source(kernel: MatvecTemplate, form: WeightFormat) -> KernelSource:
    """Put a matrix's weight format into the text of a kernel for few rows times a matrix."""
    return KernelSource(
        name=f"{kernel.name}_{form.name}",
        inputs=(*kernel.before, *form.buffers, *kernel.after),
        outputs=kernel.outputs,
        body=form.setup + kernel.body,
        header=kernel.header + form.table() + form.header,
    )


@cache
def product_launch(
    kernel: MatvecTemplate,
    form: WeightFormat,
    shape: tuple[int, ...],
    dtype: mx.Dtype,
    outputs: int,
    *extra_parameters: Parameter,
) -> Launch:
    """Make the launch of a kernel that multiplies x [..., K] of this shape -> [..., outputs]."""
    *lead, _ = shape
    together = weight_rows(prod(lead))
    cut = LaunchShape(prod(lead), together, -(-outputs // together))
    return few_row_launch(kernel, form, dtype, (((*lead, outputs), dtype),), cut, extra_parameters)


MATVEC = MatvecTemplate("few_row_matvec", SETUP + FIRST + ACCUMULATE + STORE)
ADD = MatvecTemplate("few_row_matvec_add", SETUP + FIRST + ACCUMULATE + STORE_SUM, after=("c",))
EACH_ROW, EVERY_ROW = Parameter("EACH_ROW", True), Parameter("EACH_ROW", False)
GATE_UP = MatvecTemplate("few_row_gate_up", PAIR_SETUP + ACCUMULATE + PAIR_STORE)


def few_row_matvec(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, launcher: Launcher
) -> mx.array:
    """Multiply x [..., K], 1 to 9 rows, by a matrix [N, K] -> [..., N] of x's dtype."""
    launch = product_launch(MATVEC, form, x.shape, x.dtype, weights[0].shape[0])
    return launcher.run(launch, (x, *weights))[0]


def reference(x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat) -> mx.array:
    """x W^T in plain MLX operations, float32, to check the kernel few_row_matvec against.

    Products are added in the kernel's order.
    """
    dense, (rows, width) = form.dequantise(weights), x.shape
    blank = -width % (32 * form.unit)
    lanes = [
        mx.pad(matrix.astype(mx.float32), [(0, 0), (0, blank)]).reshape(
            matrix.shape[0], -1, 32, form.unit
        )
        for matrix in (x, dense)
    ]
    part = mx.zeros((rows, dense.shape[0], 32))
    for step in range(lanes[0].shape[1]):
        mine, its = lanes[0][:, step], lanes[1][:, step]
        part = part + (mine[:, None] * its[None]).sum(axis=-1)
    while part.shape[-1] > 1:
        part = part[..., 0::2] + part[..., 1::2]
    return part[..., 0].astype(x.dtype)


def few_row_matvec_add(
    x: mx.array,
    weights: tuple[mx.array, ...],
    form: WeightFormat,
    launcher: Launcher,
    addend: mx.array,
) -> mx.array:
    """Multiply x [..., K] by a matrix and add: x W^T + addend -> [..., N] of x's dtype.

    addend: [N] or [..., N], of any float dtype.
    """
    each_row = EACH_ROW if addend.ndim > 1 else EVERY_ROW
    launch = product_launch(ADD, form, x.shape, x.dtype, weights[0].shape[0], each_row)
    return launcher.run(launch, (x, *weights, addend))[0]


def add_reference(
    x: mx.array, weights: tuple[mx.array, ...], addend: mx.array, form: WeightFormat
) -> mx.array:
    """x W^T + addend in plain MLX operations, to check few_row_matvec_add against."""
    product = reference(x, weights, form).astype(mx.float32)
    return (product + addend.astype(mx.float32)).astype(x.dtype)


def few_row_gate_up(
    x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat, launcher: Launcher
) -> mx.array:
    """Gated product of x [..., K] by fused weights [2N, K]: silu(gate) * up -> [..., N]."""
    launch = _gate_up_launch(form, x.shape, x.dtype, weights[0].shape[0] // 2)
    return launcher.run(launch, (x, *weights))[0]


@cache
def _gate_up_launch(
    form: WeightFormat, shape: tuple[int, ...], dtype: mx.Dtype, outputs: int
) -> Launch:
    *lead, _ = shape
    pairs = weight_rows(prod(lead)) // 2
    cut = LaunchShape(prod(lead), 2 * pairs, -(-outputs // pairs))
    return few_row_launch(GATE_UP, form, dtype, (((*lead, outputs), dtype),), cut)


def gate_up_reference(x: mx.array, weights: tuple[mx.array, ...], form: WeightFormat) -> mx.array:
    """silu(gate) * up in plain MLX operations, to check few_row_gate_up against."""
    both = reference(x, weights, form).astype(mx.float32)
    gate, up = mx.split(both, 2, axis=-1)
    return (gate / (1 + mx.exp(-gate)) * up).astype(x.dtype)
