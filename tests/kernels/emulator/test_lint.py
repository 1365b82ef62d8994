"""Address spaces are checked."""

import mlx.core as mx
import pytest
from metal_emulator import EmulatorError, metal_kernel


def lint(body: str, header: str = "", dtype: mx.Dtype = mx.float32) -> None:
    kernel = metal_kernel("checked", ["a"], ["out"], body, header, lint=True)
    kernel(
        inputs=[mx.ones(32).astype(dtype)],
        template=[("T", dtype)],
        grid=(32, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(32,)],
        output_dtypes=[dtype],
    )


START = "uint i = thread_index_in_simdgroup;\n"
FINE = {
    "a sum in shared memory": "threadgroup T s[32], t;\ns[i] = simd_sum(a[i]);\nt = s[i];\n"
    "threadgroup_barrier(mem_flags::mem_threadgroup);\nout[i] = s[31 - i];",
    "vectors": "float4 v = float4(float(a[i]), 1, 2, 3);\nv.xy += v.zw * 2;\n"
    "float2 p = *(const device float2*)(a + i / 2 * 2);\nout[i] = T(dot(v, v) + p.x);",
    "a helper": "out[i] = twice(a + i);",
    "a table": "out[i] = T(TABLE[i % 4]);",
    "a matrix": "simdgroup_matrix<T, 8, 8> m(T(1));\nsimdgroup_multiply(m, m, m);\n"
    "out[i] = m.thread_elements()[0];",
}
HEADER = """
template <typename T> T twice(const device T* p) { return *p + *p; }
constant float TABLE[4] = {1, 2, 3, 4};
template <typename T> T sum(threadgroup T* p) { return p[0]; }
"""
WRONG = {
    "a pointer without a space": "const T* p = a;\nout[i] = p[i];",
    "a helper of another space": "threadgroup T s[32];\ns[i] = a[i];\nout[i] = twice(&s[i]);",
    "a cast that loses the space": "out[i] = *reinterpret_cast<const T*>(a + i);",
    "a private array as a threadgroup's": "T s[32];\ns[0] = a[i];\nout[i] = sum(s);",
    "double": "double d = a[i];\nout[i] = d;",
    "a sum of 64 bits": "out[i] = T(simd_sum(ulong(i)));",
    "a write through const": "a[i] = 1;\nout[i] = 1;",
}


@pytest.mark.parametrize("name", FINE)
def test_what_metal_takes_passes(name: str) -> None:
    lint(START + FINE[name], HEADER)


@pytest.mark.parametrize("name", WRONG)
def test_what_metal_refuses_is_reported(name: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        lint(START + WRONG[name], HEADER)
    assert caught.value.kind == "lint", caught.value
    assert "checked:" in str(caught.value)
