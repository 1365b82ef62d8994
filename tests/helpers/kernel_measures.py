"""What our kernels and MLX's own move and compute, counted by the emulator alike."""

from typing import NamedTuple

import mlx.core as mx
from compared import halves
from metal_emulator import Counted, EmulatorLauncher, RegisterLauncher, Report
from metal_emulator import stock_kernels as stock
from metal_emulator.instructions import Instructions

from metal_kernels import few_query_attention, few_row_matvec, gated_delta_block
from metal_kernels.few_query_attention import KeyExtent
from metal_kernels.key_value_formats import cache_format
from metal_kernels.weight_formats.contract import WeightFormat
from metal_kernels.weight_formats.mlx_formats import affine_format
from mlx_engine.self_check.kernel_trials import Trial

OUTPUTS, INPUTS = 96, 1024
"""A whole number of threadgroups for every count of rows, ours and stock."""


class PerWeight(NamedTuple):
    """Of one product. lines: times the packed weights' lines are read. loads: of any buffer by
    lanes, a weight.
    """

    lines: float
    loads: float


def per_weight(report: Report) -> PerWeight:
    loads = sum(traffic.loads for traffic in report.buffers.values())
    return PerWeight(report.buffers["w"].times_read, loads / (OUTPUTS * INPUTS))


def ours(rows: int, bits: int) -> PerWeight:
    launcher = EmulatorLauncher()
    few_row_matvec.few_row_matvec(
        halves((rows, INPUTS), 1), _packed(bits), affine_format(bits, 64), launcher
    )
    return per_weight(launcher.last)


def stock_product(rows: int, bits: int, *, wide: bool) -> PerWeight:
    """wide: what M3 and later run, qmv_wide from two rows on; else qmv, a row by itself."""
    kernel = stock.qmv_wide if wide and rows > 1 else stock.qmv
    packed = _packed(bits)
    return per_weight(kernel(halves((rows, INPUTS), 1), *packed, group_size=64, bits=bits).report)


def stock_instructions(bits: int, rows: int, dtype: mx.Dtype, *, wide: bool) -> Instructions:
    """Instructions that a weight takes in MLX's product of so many rows of this dtype.

    wide: as in stock_product.
    """
    is_wide = wide and rows > 1
    tiles = -(-rows // stock.MOST_WIDE_ROWS) if is_wide else rows
    kernel = stock.qmv_wide if is_wide else stock.qmv
    x = halves((-(-rows // tiles), INPUTS), 1).astype(dtype)
    need = kernel(x, *_packed(bits, dtype), group_size=64, bits=bits, lint=True).report.need
    assert need is not None
    trip = need.loops[1]
    return Instructions(*(tiles * count / trip.conversions for count in trip))  # one a weight


def _packed(bits: int, dtype: mx.Dtype = mx.float16) -> tuple[mx.array, ...]:
    return tuple(mx.quantize(halves((OUTPUTS, INPUTS), 2).astype(dtype), 64, bits))


def instructions(
    form: WeightFormat, weights: tuple[mx.array, ...], rows: int, dtype: mx.Dtype = mx.bfloat16
) -> Instructions:
    """Instructions that a weight takes in a product of so many rows of this dtype.

    weights: of an even number of units, at least 32 a row.
    """
    launcher = RegisterLauncher()
    x = mx.zeros((rows, 32 * form.unit), dtype)
    few_row_matvec.few_row_matvec(x, weights, form, launcher)
    _, unit, *run = launcher.runs[0].need.loops
    runs = form.unit // 8 if run else 0
    weights_of_a_trip = form.unit * few_row_matvec.weight_rows(rows)
    inner = run[0] if run else Instructions()
    counts = zip(unit, inner, strict=True)
    return Instructions(*((count + runs * more) / weights_of_a_trip for count, more in counts))


def our_instructions(bits: int, rows: int, dtype: mx.Dtype) -> Instructions:
    """Those of affine weights of 64 a scale."""
    form = affine_format(bits, 64)
    weights = tuple(mx.quantize(mx.zeros((8, 32 * form.unit), dtype), 64, bits))
    return instructions(form, weights, rows, dtype)


class PerKey(NamedTuple):
    """Of attention over one key head. lines: times the keys' lines are read; loads: times their
    bytes are fetched by lanes; in_flight: keys that a SIMD-group fetches before it needs one.
    """

    lines: float
    loads: float
    in_flight: float


def per_key(report: Report, buffer: str) -> PerKey:
    traffic = report.buffers[buffer]
    keys = traffic.together * 32 / (SIZE * 2)
    return PerKey(traffic.times_read, traffic.bytes_loaded / traffic.size, keys)


KEYS, SIZE = 512, 128


def our_attention(rows: int, heads: int) -> PerKey:
    launcher = EmulatorLauncher()
    cache = (halves((1, KEYS, SIZE), 3), halves((1, KEYS, SIZE), 4))
    place = KeyExtent(KEYS)
    q = halves((heads, rows, SIZE), 5)
    few_query_attention.few_query_attention(q, cache, cache_format(), place, 0.1, launcher)
    return per_key(launcher.reports[0], "k")


def stock_attention(rows: int, heads: int, two_pass: bool) -> PerKey | None:
    """None where heads * rows > 32: MLX then writes all scores with unfused operations."""
    if heads * rows > 32:
        return None
    keys, values = (halves((1, 1, KEYS, SIZE), seed) for seed in (3, 4))
    q = halves((1, heads, rows, SIZE), 5)
    if two_pass:
        done = stock.sdpa_vector_two_pass(q, keys, values, scale=0.1, causal=True, blocks=64)[0]
    else:
        done = stock.sdpa_vector(q, keys, values, scale=0.1, causal=True)
    return per_key(done.report, "keys")


def our_registers(trial: Trial, rows: int) -> list[Counted]:
    """What each launch of the trial's kernel asks for, at its own small sizes, in bfloat16."""
    launcher = RegisterLauncher()
    case = trial.make_trial_inputs(mx.bfloat16, launcher)
    case.kernel(case.x(rows))
    return launcher.runs


class StateTraffic(NamedTuple):
    """Times the state's bytes are read and written in a round."""

    read: float
    written: float


def our_state(rows: int, kept: int) -> StateTraffic:
    launcher = EmulatorLauncher()
    parts = [mx.zeros(s) for s in ((rows, 2, 128), (rows, 2, 128), (rows, 4, 128), (rows, 4))]
    block = gated_delta_block.DeltaRows(*parts, parts[-1])
    last = gated_delta_block.ReplaySteps(block.keys, block.values, block.decay)
    state, count = mx.zeros((4, 128, 128)), mx.array([kept], dtype=mx.int32)
    gated_delta_block.gated_delta_block(state, count, last, block, launcher)
    read, written = (launcher.last.buffers[name] for name in ("state", "settled"))
    return StateTraffic(read.bytes_loaded / read.size, written.bytes_stored / written.size)


class StateMemory(NamedTuple):
    """Bytes a layer holds so that a block of rows can be cut short, besides its state."""

    steps: int
    snapshots: int


def state_memory(rows: int) -> StateMemory:
    """At the sizes of Qwen3.6-27B: 16 key heads, 48 value heads, 128 by 128, 10240 channels.

    steps: keys, delta and decay in float32 and the projected rows in two bytes. snapshots: a state
    after each row.
    """
    each = (16 * 128 + 48 * 128 + 48) * 4 + 10240 * 2
    return StateMemory(rows * each, rows * 48 * 128 * 128 * 4)
