"""Operations across lanes and 8x8 matrices against NumPy."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from metal_emulator import metal_kernel

KERNELS = np.arange(32)
X = np.random.default_rng(1).uniform(0.5, 1.5, 32).astype(np.float32)
FILL = X[::-1].copy()
QUADS = X.reshape(8, 4)


def across(function: Callable[..., np.ndarray], width: int) -> np.ndarray:
    return np.repeat(function(X.reshape(-1, width), axis=1), width)


def running(function: np.ufunc, width: int, first: float | None = None) -> np.ndarray:
    sums = function.accumulate(X.reshape(-1, width), axis=1)
    if first is None:
        return sums.ravel()
    start = np.full((len(sums), 1), first)
    return np.concatenate([start, sums[:, :-1]], axis=1).ravel()


OPERATIONS: dict[str, np.ndarray] = {
    "simd_sum(x)": across(np.sum, 32),
    "simd_product(x)": across(np.prod, 32),
    "simd_min(x)": across(np.min, 32),
    "simd_max(x)": across(np.max, 32),
    "quad_sum(x)": across(np.sum, 4),
    "quad_product(x)": across(np.prod, 4),
    "quad_min(x)": across(np.min, 4),
    "quad_max(x)": across(np.max, 4),
    "simd_prefix_inclusive_sum(x)": running(np.add, 32),
    "simd_prefix_exclusive_sum(x)": running(np.add, 32, 0),
    "simd_prefix_inclusive_product(x)": running(np.multiply, 32),
    "simd_prefix_exclusive_product(x)": running(np.multiply, 32, 1),
    "quad_prefix_inclusive_sum(x)": running(np.add, 4),
    "quad_prefix_exclusive_sum(x)": running(np.add, 4, 0),
    "simd_shuffle(x, 31 - i)": X[31 - KERNELS],
    "simd_broadcast(x, 7)": np.full(32, X[7]),
    "simd_broadcast_first(x)": np.full(32, X[0]),
    "simd_shuffle_xor(x, 5)": X[KERNELS ^ 5],
    "simd_shuffle_rotate_down(x, 3)": X[(KERNELS + 3) % 32],
    "simd_shuffle_rotate_up(x, 3)": X[(KERNELS - 3) % 32],
    "simd_shuffle_and_fill_down(x, f, 3)": np.concatenate([X[3:], FILL[:3]]),
    "simd_shuffle_and_fill_up(x, f, 3)": np.concatenate([FILL[29:], X[:29]]),
    "quad_shuffle(x, 3 - i % 4)": QUADS[:, ::-1].ravel(),
    "quad_broadcast(x, 2)": np.repeat(QUADS[:, 2], 4),
    "quad_shuffle_xor(x, 1)": X[KERNELS ^ 1],
    "float(simd_or(1 << (i % 4)))": np.full(32, 15),
    "float(simd_and(0xff ^ int(i % 4)))": np.full(32, 0xFC),
    "float(simd_xor(i))": np.full(32, 0),
    "float(simd_any(i == 3))": np.full(32, 1),
    "float(simd_all(i != 3))": np.full(32, 0),
    "float(ulong(simd_ballot(i % 8 == 0)))": np.full(32, 0x01010101),
    "simd_sum(float4(x, 2 * x, 0, 1)).y": 2 * across(np.sum, 32),
}


def evaluate(expressions: list[str], shuffle: int) -> np.ndarray:
    """Each expression over one SIMD-group: (expressions, 32)."""
    body = "uint i = thread_index_in_simdgroup;\nfloat x = inp[i], f = fill[i];\n" + "".join(
        f"out[{32 * row} + i] = {expression};\n" for row, expression in enumerate(expressions)
    )
    kernel = metal_kernel("lanes", ["inp", "fill"], ["out"], body, shuffle=shuffle)
    (out,) = kernel(
        inputs=[mx.array(X), mx.array(FILL)],
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(len(expressions), 32)],
        output_dtypes=[mx.float32],
    )
    return np.array(out)


@pytest.mark.parametrize("shuffle", [0, 3])
def test_operations_across_lanes(shuffle: int) -> None:
    found = evaluate(list(OPERATIONS), shuffle)
    for row, (name, expected) in zip(found, OPERATIONS.items(), strict=True):
        np.testing.assert_allclose(row, expected, rtol=1e-6, err_msg=name)


def test_moves_past_the_end_give_no_number() -> None:
    down, up = evaluate(["simd_shuffle_down(x, 3)", "simd_shuffle_up(x, 3)"], 0)
    np.testing.assert_array_equal(down[:29], X[3:])
    np.testing.assert_array_equal(up[3:], X[:29])
    assert np.isnan(down[29:]).all()
    assert np.isnan(up[:3]).all()


def test_a_sum_adds_neighbours_first() -> None:
    level = X
    while len(level) > 1:
        level = level[0::2] + level[1::2]
    np.testing.assert_array_equal(evaluate(["simd_sum(x)"], 0)[0], np.full(32, level[0]))


def test_a_sum_over_a_part_of_a_simd_group_that_is_all_there_is() -> None:
    kernel = metal_kernel(
        "ragged", ["inp"], ["out"], "uint i = thread_position_in_grid.x; out[i] = simd_sum(inp[i]);"
    )
    (out,) = kernel(
        inputs=[mx.ones(40)],
        grid=(40, 1, 1),
        threadgroup=(64, 1, 1),
        output_shapes=[(40,)],
        output_dtypes=[mx.float32],
    )
    assert out.tolist() == [32.0] * 32 + [8.0] * 8


MATRIX = """
    simdgroup_matrix<T, 8, 8> x, y;
    simdgroup_matrix<float, 8, 8> z = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
    simdgroup_load(x, a, 8);
    simdgroup_load(y, b, 10, ulong2(1, 1), TURN);
    simdgroup_multiply_accumulate(z, x, y, z);
    simdgroup_store(z, out, 16);
    simdgroup_store(z, out + 8, 16, ulong2(0, 0), true);
    simdgroup_matrix<float, 8, 8> one(1.0f), product;
    simdgroup_multiply(product, one, z);
    product.thread_elements()[0] *= 2;
    simdgroup_store(product, out + 128, 8);
"""


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("turned", [False, True])
def test_matrices(dtype: mx.Dtype, turned: bool) -> None:
    a = mx.random.normal((8, 8), key=mx.random.key(1)).astype(dtype)
    b = mx.random.normal((10, 10), key=mx.random.key(2)).astype(dtype)
    kernel = metal_kernel("matrix", ["a", "b"], ["out"], MATRIX)
    (out,) = kernel(
        inputs=[a, b],
        template=[("T", dtype), ("TURN", turned)],
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(192,)],
        output_dtypes=[mx.float32],
    )
    left, right = (np.array(m.astype(mx.float32)).astype(np.float64) for m in (a, b))
    inner = right[1:9, 1:9]
    expected = left @ (inner.T if turned else inner) + 1
    both = np.array(out)[:128].reshape(8, 16)
    np.testing.assert_allclose(both[:, :8], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(both[:, 8:], expected.T, rtol=1e-5, atol=1e-6)
    doubled = expected * np.where(np.arange(8) % 2, 1, 2)
    np.testing.assert_allclose(np.array(out)[128:].reshape(8, 8), doubled, rtol=1e-5, atol=1e-6)
