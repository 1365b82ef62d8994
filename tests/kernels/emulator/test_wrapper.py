"""MLX's rules around a source: parameters, attributes, template, initial values, strides."""

import mlx.core as mx
import pytest
from metal_emulator import EmulatedKernel, EmulatorError, Strided, metal_kernel


def run(kernel: EmulatedKernel, inputs: list[object], size: int = 8, **more: object) -> mx.array:
    arguments = {
        "grid": (size, 1, 1),
        "threadgroup": (size, 1, 1),
        "output_shapes": [(size,)],
        "output_dtypes": [mx.float32],
    }
    return kernel(inputs=inputs, **(arguments | more))[0]


def test_numbers_are_references_and_small_arrays_constant(capsys: pytest.CaptureFixture) -> None:
    body = "out[thread_position_in_grid.x] = n + f + (b ? few[1] : many[0]);"
    kernel = metal_kernel("k", ["n", "f", "b", "few", "many"], ["out"], body)
    inputs = [3, 0.5, True, mx.array([1.0, 2.0]), mx.ones(8)]
    assert run(kernel, inputs, verbose=True).tolist() == [5.5] * 8
    text = capsys.readouterr().out
    assert "  const constant int32_t& n [[buffer(0)]],\n" in text
    assert "  const constant bool& b [[buffer(2)]],\n" in text
    assert "  const constant float* few [[buffer(3)]],\n" in text
    assert "  const device float* many [[buffer(4)]],\n" in text
    assert "  device float* out [[buffer(5)]],\n" in text
    assert "  uint3 thread_position_in_grid [[thread_position_in_grid]]) {\n" in text


def test_shapes_and_attributes_only_where_named(capsys: pytest.CaptureFixture) -> None:
    body = "uint i = thread_position_in_grid.x; // grid_size, a_ndim\nout[i] = a[0] + a_shape[1];"
    kernel = metal_kernel("k", ["a"], ["out"], body)
    assert run(kernel, [mx.ones((2, 4))], verbose=True).tolist() == [5] * 8
    text = capsys.readouterr().out
    assert "a_strides" not in text
    order = [text.index(part) for part in ("int* a_shape", "int& a_ndim", "float* out")]
    order += [text.index(f"[[{name}]]") for name in ("grid_size", "thread_position_in_grid")]
    assert order == sorted(order)


ATTRIBUTES = """
    uint i = thread_position_in_grid.x + 10 * thread_position_in_grid.y;
    out[8 * i + 0] = threadgroup_position_in_grid.x + 100 * threads_per_threadgroup.x;
    out[8 * i + 1] = thread_index_in_threadgroup + 100 * dispatch_threads_per_threadgroup.x;
    out[8 * i + 2] = thread_position_in_threadgroup.y + 10 * threadgroups_per_grid.x;
    out[8 * i + 3] = threads_per_grid.x + 100 * simdgroups_per_threadgroup;
    out[8 * i + 4] = threads_per_simdgroup + 100 * quadgroup_index_in_threadgroup;
    out[8 * i + 5] = thread_index_in_quadgroup + 100 * dispatch_simdgroups_per_threadgroup;
    out[8 * i + 6] = thread_index_in_simdgroup + 100 * simdgroup_index_in_threadgroup;
    out[8 * i + 7] = thread_execution_width + grid_origin.x + grid_size.y;
"""


def test_attributes_of_a_ragged_grid() -> None:
    kernel = metal_kernel("k", [], ["out"], ATTRIBUTES)
    out = run(kernel, [], grid=(10, 2, 1), threadgroup=(8, 2, 9), output_shapes=[(20, 8)]).tolist()
    assert out[9] == [1 + 200, 1 + 800, 20, 10 + 100, 32, 1 + 100, 1, 34]  # (9, 0): edge group
    assert out[13] == [0 + 800, 11 + 800, 1 + 20, 10 + 100, 32 + 200, 3 + 100, 11, 34]  # (3, 1)


def test_template_values() -> None:
    body = "out[thread_position_in_grid.x] = T(N) + (FLAG ? 0.5f : 0.0f);"
    kernel = metal_kernel("k", [], ["out"], body)
    template = [("T", mx.float32), ("N", -3), ("FLAG", True)]
    assert run(kernel, [], template=template).tolist() == [-2.5] * 8


def test_initial_values_and_atomics() -> None:
    body = """
        uint i = thread_position_in_grid.x;
        atomic_fetch_add_explicit(&out[i % 4], a[i], memory_order_relaxed);
        atomic_fetch_max_explicit(&out[4], a[i], memory_order_relaxed);
    """
    kernel = metal_kernel("k", ["a"], ["out"], body, atomic_outputs=True)
    a = mx.arange(64, dtype=mx.float32)
    out = run(kernel, [a], grid=(64, 1, 1), threadgroup=(16, 1, 1), init_value=0)
    assert out.tolist() == [*a.reshape(16, 4).sum(0).tolist(), 63, 0, 0, 0]
    with pytest.raises(EmulatorError) as caught:
        run(kernel, [a], grid=(64, 1, 1), threadgroup=(16, 1, 1))
    assert caught.value.kind == "uninitialised"


def test_threadgroup_atomics_need_a_barrier_before_plain_reads() -> None:
    body = """
        uint i = thread_position_in_grid.x;
        threadgroup atomic_int count;
        if (i == 0) atomic_store_explicit(&count, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&count, 2, memory_order_relaxed);
        BARRIER;
        out[i] = *(threadgroup int*)&count;
    """
    good = body.replace("BARRIER", "threadgroup_barrier(mem_flags::mem_threadgroup)")
    assert run(metal_kernel("k", [], ["out"], good), []).tolist() == [16] * 8
    with pytest.raises(EmulatorError) as caught:
        run(metal_kernel("k", [], ["out"], body.replace("BARRIER", "")), [])
    assert caught.value.kind == "race"


STRIDES = """
    uint i = thread_position_in_grid.x;
    out[i] = a[(i / 4) * a_strides[0] + (i % 4) * a_strides[1]];
"""


@pytest.mark.parametrize("contiguous", [True, False])
def test_strided_inputs(contiguous: bool) -> None:
    base = mx.arange(40, dtype=mx.float32)
    kernel = metal_kernel("k", ["a"], ["out"], STRIDES, ensure_row_contiguous=contiguous)
    out = run(kernel, [Strided(base, (2, 4), (3, 7), 5)])
    assert out.tolist() == [5 + 3 * r + 7 * c for r in range(2) for c in range(4)]
    assert kernel.last.buffers["a"].size == (32 if contiguous else 140)


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": []},
        {"output_shapes": []},
        {"output_dtypes": []},
        {"grid": (0, 1, 1)},
        {"threadgroup": (8, 0, 1)},
    ],
)
def test_wrong_calls(wrong: dict[str, object]) -> None:
    kernel = metal_kernel("k", ["a"], ["out"], "out[thread_position_in_grid.x] = a[0];")
    with pytest.raises(ValueError, match="k:"):
        run(kernel, **({"inputs": [mx.ones(8)]} | wrong))


def test_wrong_construction() -> None:
    with pytest.raises(ValueError, match="output"):
        metal_kernel("k", ["a"], [], "")
    with pytest.raises(ValueError, match="math_mode"):
        metal_kernel("k", ["a"], ["out"], "", compile_options={"math_mode": "wrong"})


def test_more_buffers_than_metal_has() -> None:
    kernel = metal_kernel("k", [f"a{n}_" for n in range(31)], ["out"], "out[0] = 1;")
    with pytest.raises(EmulatorError) as caught:
        run(kernel, [mx.ones(8)] * 31)
    assert caught.value.kind == "limit"
