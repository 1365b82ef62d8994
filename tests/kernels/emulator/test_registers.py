"""Registers and instructions are counted near Apple's; threads that do not fit are told."""

import mlx.core as mx
import pytest
from metal_emulator import EmulatorError, Registers, metal_kernel
from metal_emulator import stock_kernels as stock

START = "uint i = thread_position_in_grid.x;\n"


def registers(body: str, dtype: mx.Dtype = mx.float32) -> Registers:
    kernel = metal_kernel("counted", ["a"], ["out"], START + body)
    return kernel.registers([mx.ones(64).astype(dtype)], [dtype], [("T", dtype)])


def summed(count: int) -> str:
    """Loads `count` numbers before it adds any."""
    return f"""
        float v[{count}];
        for (int n = 0; n < {count}; n++) v[n] = a[i * {count} + n];
        threadgroup_barrier(mem_flags::mem_device);
        float sum = 0;
        for (int n = 0; n < {count}; n++) sum += metal::exp(v[n]) * v[{count} - 1 - n];
        out[i] = sum;
    """


@pytest.mark.parametrize("count", [8, 32, 96])
def test_a_live_value_is_a_register(count: int) -> None:
    need = registers(summed(count))
    assert count <= need.count <= count + 12
    assert need.in_memory == 0


def test_more_than_a_thread_can_have_lie_in_memory() -> None:
    need = registers(summed(160))
    assert need.count > 120
    assert need.in_memory >= 4 * (160 - 128)


def test_an_array_with_an_index_not_known_lies_in_memory() -> None:
    body = "float v[16];\nfor (int n = 0; n < 16; n++) v[n] = a[n];\nout[i] = v[int(a[i]) & 15];"
    assert registers(body).in_memory >= 64


def test_what_all_threads_share_costs_nothing() -> None:
    shared = " + ".join(f"a[{n}]" for n in range(32))
    assert registers(f"out[i] = a[i] * ({shared});").count < 16


def test_instructions_are_counted_by_loop() -> None:
    """Of an outer trip a load, an inner one's two products, one with its sum, and shifts."""
    outside, outer, inner = registers("""
        float sum = 0;
        for (int n = 0; n < int(a[0]); n++) {
            uint bits = as_type<uint>(a[i + n * 64]);
            for (int k = 0; k < int(a[1]); k++) {
                sum = fma(float(bits & 15), 0.37f * float(k), sum);
                bits >>= 4;
            }
        }
        out[i] = sum;
    """).loops
    assert outside.stores == 1
    assert (outer.loads, outer.fused, outer.stores) == (1, 0, 0)
    assert (inner.loads, inner.fused, inner.floats) == (0, 1, 1)
    assert inner.conversions == 2 and inner.shifts == 1 and inner.integers >= 2
    assert inner.total == sum(inner) - inner.moves


def test_threads_by_registers() -> None:
    """Mesa's table at its steps; none of them from M3 on."""
    threads = [Registers(n, 0).most_threads(13) for n in (1, 52, 53, 64, 65, 104, 128)]
    assert threads == [1024, 1024, 896, 832, 768, 512, 384]
    assert Registers(128, 0).most_threads(15) == 1024


@pytest.mark.parametrize(("size", "threads"), [(64, 1024), (128, 1024), (256, 1024), (512, 832)])
def test_as_a_chip_was_seen_to_take_them(size: int, threads: int) -> None:
    """MLX's attention kernel on an M1 Max (MLX issue 3885)."""
    q, k = mx.zeros((1, 2, 1, size), mx.bfloat16), mx.zeros((1, 1, 40, size), mx.bfloat16)
    if threads == 1024:
        stock.sdpa_vector(q, k, k, scale=1.0, lint=True)
        return
    with pytest.raises(EmulatorError, match=f"1024 threads .* {threads} fit before M3") as caught:
        stock.sdpa_vector(q, k, k, scale=1.0, lint=True)
    assert caught.value.kind == "limit"
