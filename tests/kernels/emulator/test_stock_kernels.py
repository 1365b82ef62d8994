"""MLX's own kernels run in the emulator, and their counts are those their source promises."""

import mlx.core as mx
import numpy as np
import pytest
from metal_emulator import stock_kernels as stock


def quantized(rows: int, columns: int, dtype: mx.Dtype, bits: int, group: int) -> list[mx.array]:
    w = mx.random.normal((columns, rows), key=mx.random.key(1))
    words, scales, biases = mx.quantize(w, group, bits)
    return [words, scales.astype(dtype), biases.astype(dtype)]


def truth(x: mx.array, weight: list[mx.array], bits: int, group: int) -> np.ndarray:
    words, *rest = weight
    plain = mx.dequantize(words, *(a.astype(mx.float32) for a in rest), group, bits)
    return np.array(x.astype(mx.float32)).astype(np.float64) @ np.array(plain).T.astype(np.float64)


def relative_error(y: mx.array, reference: np.ndarray) -> float:
    return float(np.abs(np.array(y.astype(mx.float32)) - reference).max() / np.abs(reference).max())


@pytest.mark.parametrize(
    ("bits", "group", "k", "n", "m", "dtype"),
    [
        (4, 64, 512, 64, 4, mx.float16),
        (4, 64, 512, 60, 7, mx.float32),
        (3, 32, 320, 24, 2, mx.float32),
        (8, 128, 256, 16, 5, mx.bfloat16),
    ],
)
def test_quantised_vector_kernels(
    bits: int, group: int, k: int, n: int, m: int, dtype: mx.Dtype
) -> None:
    weight = quantized(k, n, dtype, bits, group)
    x = mx.random.normal((m, k), key=mx.random.key(2)).astype(dtype)
    reference = truth(x, weight, bits, group)
    tolerance = {mx.float32: 1e-6, mx.float16: 1e-3, mx.bfloat16: 8e-3}[dtype]
    narrow = stock.qmv(x, *weight, group_size=group, bits=bits)
    wide = stock.qmv_wide(x, *weight, group_size=group, bits=bits)
    assert relative_error(narrow.outputs[0], reference) < tolerance
    assert relative_error(wide.outputs[0], reference) < tolerance
    assert narrow.report.buffers["w"].times_read == pytest.approx(m, rel=0.2)
    assert wide.report.buffers["w"].times_read == pytest.approx(-(-m // 5), rel=0.2)


@pytest.fixture(scope="module")
def attention() -> tuple[list[mx.array], mx.array]:
    keys = mx.random.split(mx.random.key(5), 3)
    shapes = [(1, 4, 3, 64), (1, 2, 45, 64), (1, 2, 45, 64)]
    arrays = [
        mx.random.normal(s, key=k).astype(mx.float16) for s, k in zip(shapes, keys, strict=True)
    ]
    plain = [a.astype(mx.float32) for a in arrays]
    return arrays, mx.fast.scaled_dot_product_attention(*plain, scale=0.125, mask="causal")


def test_attention_in_one_pass(attention: tuple[list[mx.array], mx.array]) -> None:
    arrays, reference = attention
    (out,), report = stock.sdpa_vector(*arrays, scale=0.125, causal=True)
    assert mx.abs(out - reference).max().item() < 1e-3
    assert report.buffers["keys"].times_read > 5  # of 2 heads x 3 rows, less what is masked
    assert report.barriers == 12 * (1 + 2 * 2)


def test_attention_in_two_passes(attention: tuple[list[mx.array], mx.array]) -> None:
    arrays, reference = attention
    first, second = stock.sdpa_vector_two_pass(*arrays, scale=0.125, causal=True, blocks=32)
    assert mx.abs(second.outputs[0] - reference).max().item() < 2e-3
    assert first.report.buffers["keys"].times_read == 1.0
    assert first.report.buffers["keys"].bytes_loaded > 5 * first.report.buffers["keys"].size


def test_they_use_no_variable_before_it_is_written(
    attention: tuple[list[mx.array], mx.array],
) -> None:
    arrays, _ = attention
    weight = quantized(512, 16, mx.float16, 4, 64)
    x = mx.random.normal((2, 512), key=mx.random.key(2)).astype(mx.float16)
    stock.qmv(x, *weight, group_size=64, bits=4, private=True)
    stock.qmv_wide(x, *weight, group_size=64, bits=4, private=True)
    stock.sdpa_vector(*arrays, scale=0.125, causal=True, private=True)
    stock.sdpa_vector_two_pass(*arrays, scale=0.125, causal=True, blocks=32, private=True)


def test_another_order_of_lanes_changes_nothing() -> None:
    weight = quantized(512, 16, mx.float16, 4, 64)
    x = mx.random.normal((2, 512), key=mx.random.key(2)).astype(mx.float16)
    (one,), report = stock.qmv(x, *weight, group_size=64, bits=4)
    (again,), _ = stock.qmv(x, *weight, group_size=64, bits=4)
    assert mx.array_equal(one, again).item()
    assert report.simd_ops == 2 * 2 * 2 * 4  # rows, threadgroups, SIMD-groups, results of each
