"""What the report counts is what the source does."""

import mlx.core as mx
from metal_emulator import EmulatedKernel, Report, metal_kernel

THREADS = 64


def counted(body: str, dtype: mx.Dtype = mx.float32, header: str = "") -> Report:
    kernel: EmulatedKernel = metal_kernel("counts", ["x"], ["out"], body, header, arithmetic=True)
    arguments = {
        "inputs": [mx.ones(THREADS).astype(dtype)],
        "template": [("T", dtype)],
        "grid": (THREADS, 1, 1),
        "threadgroup": (32, 1, 1),
        "output_shapes": [(THREADS,)],
        "output_dtypes": [dtype],
    }
    (out,) = kernel(**arguments)
    (plain,) = kernel.with_options(arithmetic=False)(**arguments)
    assert mx.array_equal(out, plain).item()
    return kernel.last


def operations(report: Report, kind: str) -> dict[str, int]:
    return {name: n // THREADS for name, n in report.arithmetic[kind].items() if n}


START = "uint i = thread_position_in_grid.x;\n"


def test_arithmetic_of_floats() -> None:
    report = counted(
        START + "float a = x[i], b = 0.5f * a + 1; if (a > .25) b -= a / 3.0f;\n"
        "b = fma(a, b, metal::exp(a)); out[i] = b + float(i) + max(a, 0.0f);"
    )
    assert operations(report, "float") == {
        "multiply": 1,
        "add": 4,
        "compare": 2,
        "divide": 1,
        "fma": 1,
        "function": 1,
        "convert": 1,
    }
    assert set(report.arithmetic) == {"float"}


def test_arithmetic_keeps_to_its_type() -> None:
    report = counted(START + "T a = x[i] * x[i]; out[i] = T(float(a) + 1.0f);", mx.bfloat16)
    assert operations(report, "bfloat") == {"multiply": 1, "convert": 1}
    assert operations(report, "float") == {"add": 1, "convert": 1}
    report = counted(START + "half2 v = half2(x[i], 2.0h); v *= v; out[i] = v.x;", mx.float16)
    assert operations(report, "half") == {"multiply": 2}


def test_sums_across_lanes_are_no_arithmetic_of_a_thread() -> None:
    report = counted(START + "out[i] = simd_sum(x[i]);")
    assert report.arithmetic == {}
    assert report.simd_ops == 2


def test_a_matrix_product_is_sixteen_fma_a_lane() -> None:
    report = counted(
        START + "simdgroup_matrix<float, 8, 8> a, b(2.0f);\n"
        "simdgroup_load(a, x); simdgroup_multiply(b, a, b);\n"
        "out[i] = b.thread_elements()[0];"
    )
    assert operations(report, "float") == {"fma": 16}


def test_traffic() -> None:
    report = counted(START + "out[i] = x[i] + x[0] + x[THIRD];", header="#define THIRD (i / 32)")
    x, out = report.buffers["x"], report.buffers["out"]
    assert (x.size, x.size_in_lines, x.lines) == (256, 4, 4)
    assert x.lines_loaded == 2 + 2 + 1  # each group its own two; the second also the first line
    assert x.bytes_loaded == 4 * x.loads
    assert (out.stores, out.bytes_stored, out.lines_stored, out.times_written) == (64, 256, 4, 1.0)
    assert (x.stores, out.loads) == (0, 0)


def test_threadgroup_memory_and_barriers() -> None:
    report = counted(
        START + "threadgroup T s[33]; threadgroup uchar c;\n"
        "s[i % 32] = x[i];\nthreadgroup_barrier(mem_flags::mem_threadgroup);\n"
        "out[i] = s[31 - i % 32];"
    )
    assert (report.group_stores, report.group_loads, report.barriers) == (64, 64, 2)
    assert report.threadgroup_bytes == 33 * 4 + 12 + 1
    assert report.threads == THREADS


def test_without_checks_nothing_is_counted() -> None:
    kernel = metal_kernel("fast", ["x"], ["out"], START + "out[i] = x[i];", check=False)
    (out,) = kernel(
        inputs=[mx.arange(8)],
        grid=(8, 1, 1),
        threadgroup=(8, 1, 1),
        output_shapes=[(8,)],
        output_dtypes=[mx.int32],
    )
    assert out.tolist() == list(range(8))
    assert kernel.last.buffers["x"].loads == 0
