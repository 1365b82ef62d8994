"""What stands between projections and delta rule: right, indifferent to rows, the window kept."""

import mlx.core as mx
import numpy as np
import pytest
from compared import normal, wide
from kernel_launchers import kernel_launcher
from metal_emulator import EmulatorLauncher

from metal_kernels.gated_delta_inputs import (
    L2_EPS,
    ConvolutionRows,
    DeltaBlockInputs,
    DeltaConstants,
    ProjectedInputs,
    gated_delta_inputs,
    reference,
)

Array = np.ndarray
SIZES = [(1, 2, 128, 128), (2, 4, 48, 40), (2, 2, 16, 33)]


def layer(sizes: tuple[int, int, int, int], dtype: mx.Dtype, kernel: int = 4) -> DeltaConstants:
    key_heads, heads, size, value_size = sizes
    channels = 2 * key_heads * size + heads * value_size
    taps, bias = normal((channels, kernel), 1, dtype), normal((heads,), 2)
    return DeltaConstants(taps, bias, -mx.exp(normal((heads,), 3)), key_heads, size, value_size)


def new_rows(count: int, fixed: DeltaConstants, dtype: mx.Dtype) -> ProjectedInputs:
    heads = fixed.decay_bias.size
    return ProjectedInputs(
        normal((count, fixed.taps.shape[0]), 4, dtype),
        8 * normal((count, heads), 5, dtype),
        normal((count, heads), 6, dtype),
    )


def truth(projected: ProjectedInputs, before: Array, fixed: DeltaConstants) -> list[Array]:
    p, a, b = (wide(array) for array in projected[:3])
    count, kernel = p.shape[0], fixed.taps.shape[1]
    rows = np.concatenate([before, p])
    taps = wide(fixed.taps)
    made = sum(taps[:, j] * rows[j : j + count] for j in range(kernel))
    made = made / (1 + np.exp(-made))
    side = fixed.key_heads * fixed.key_size
    both = made[:, : 2 * side].reshape(count, 2, fixed.key_heads, fixed.key_size)
    both = both / np.sqrt((both**2).sum(axis=-1, keepdims=True) + L2_EPS)
    softplus = np.logaddexp(0, a + wide(fixed.decay_bias))
    return [
        both[:, 0],
        both[:, 1],
        made[:, 2 * side :].reshape(count, -1, fixed.value_size),
        np.exp(wide(fixed.decay_rate) * softplus),
        1 / (1 + np.exp(-b)),
    ]


def same(mine: DeltaBlockInputs, its: DeltaBlockInputs, rows: int) -> bool:
    pairs = zip(mine.rows, its.rows, strict=True)
    return all(mx.array_equal(one[:rows], two[:rows]).item() for one, two in pairs)


@pytest.mark.parametrize(
    ("dtype", "stored"),
    [(kind, kind) for kind in (mx.float32, mx.float16, mx.bfloat16)] + [(mx.bfloat16, mx.float16)],
    ids=str,
)
@pytest.mark.parametrize("sizes", SIZES)
def test_right_against_float64(
    sizes: tuple[int, int, int, int], dtype: mx.Dtype, stored: mx.Dtype
) -> None:
    """Also of a model that was stored in float16 and has outgrown it."""
    fixed = layer(sizes, stored)
    projected = new_rows(5, fixed, dtype)
    before = normal((7, fixed.taps.shape[0]), 7, dtype)
    kept = mx.array([2], dtype=mx.int32)
    mine = gated_delta_inputs(
        projected, ConvolutionRows(before, kept), fixed, kernel_launcher(shuffle=1)
    )
    plain = reference(projected, before, 2, fixed)
    right = truth(projected, wide(before)[2:5], fixed)
    for one, two, its in zip(mine.rows, plain.rows, right, strict=True):
        error, other = np.abs(wide(one) - its).max(), np.abs(wide(two) - its).max()
        assert error <= 2 * other + 1e-6
    assert mx.array_equal(mine.after, plain.after).item()


def test_the_window_follows_what_was_kept_and_rows_do_not_matter() -> None:
    """Eight rows at once, then one after the other with a block of junk behind each."""
    fixed = layer((1, 2, 32, 16), mx.float16)
    rows = new_rows(8, fixed, mx.float16)
    launcher = kernel_launcher()
    none = mx.array([0], dtype=mx.int32)
    window = ConvolutionRows(normal((3, fixed.taps.shape[0]), 8, mx.float16), none)
    whole = gated_delta_inputs(rows, window, fixed, launcher)
    for count in range(1, 8):
        few = gated_delta_inputs(
            ProjectedInputs(*(part[:count] for part in rows[:3])), window, fixed, launcher
        )
        assert same(few, whole, count), count
    for t in range(4):
        two = ProjectedInputs(*(mx.concatenate([part[t : t + 1], part[:3]]) for part in rows[:3]))
        one = gated_delta_inputs(two, window, fixed, launcher)
        assert all(
            mx.array_equal(mine[0], its[t]).item()
            for mine, its in zip(one.rows, whole.rows, strict=True)
        )
        window = ConvolutionRows(one.after, mx.array([1], dtype=mx.int32))


def test_projections_may_be_columns_of_one_array() -> None:
    fixed = layer((2, 4, 48, 40), mx.bfloat16)
    apart = new_rows(5, fixed, mx.bfloat16)
    p, a, b = apart[:3]
    whole = mx.concatenate([p, normal((5, 7), 9, p.dtype), b, a], axis=-1)
    b_at = p.shape[1] + 7
    joined = ProjectedInputs(whole, whole, whole, b_at + 4, b_at)
    before = normal((3, p.shape[1]), 8, mx.bfloat16)
    window = ConvolutionRows(before, mx.array([0], dtype=mx.int32))
    launcher = kernel_launcher()
    made = [gated_delta_inputs(rows, window, fixed, launcher) for rows in (joined, apart)]
    made += [reference(joined, before, 0, fixed), reference(apart, before, 0, fixed)]
    for one, its in ((made[0], made[1]), (made[2], made[3])):
        assert same(one, its, 5)
        assert mx.array_equal(one.after, its.after).item()


def test_everything_is_read_and_written_once() -> None:
    fixed = layer((2, 4, 128, 128), mx.float16)
    launcher = EmulatorLauncher()
    before = normal((11, fixed.taps.shape[0]), 7, mx.float16)
    window = ConvolutionRows(before, mx.array([8], dtype=mx.int32))
    gated_delta_inputs(new_rows(1, fixed, mx.float16), window, fixed, launcher)
    buffers = launcher.last.buffers
    assert buffers["projected"].times_read == buffers["taps"].times_read == 1
    assert buffers["before"].lines_loaded == 3 * before.shape[1] * 2 // 64
    assert {buffers[name].times_written for name in ("after", "keys", "values")} == {1}


def test_an_axis_of_one_before_is_kept() -> None:
    fixed, launcher = layer((1, 2, 16, 8), mx.float32), kernel_launcher()
    channels, a, b = new_rows(3, fixed, mx.float32)[:3]
    window = ConvolutionRows(normal((3, channels.shape[1]), 7), mx.array([0], dtype=mx.int32))
    flat = gated_delta_inputs(ProjectedInputs(channels, a, b), window, fixed, launcher)
    batch = ProjectedInputs(channels[None], a[None], b[None])
    before = window._replace(before=window.before[None])
    its = gated_delta_inputs(batch, before, fixed, launcher)
    for one, other in zip((*its.rows, its.after), (*flat.rows, flat.after), strict=True):
        assert one.shape == (1, *other.shape)
        assert mx.array_equal(one[0], other).item()
