"""Kernels that mlx-lm ships: right where theirs are, and one known race is found."""

from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from metal_emulator import EmulatedKernel, EmulatorError, metal_kernel
from mlx_lm.kernels.rms_norm_sigmoid_gate import _NORM_GATE_SOURCE
from mlx_lm.models import gated_delta
from mlx_lm.tuner import losses

EMULATED = SimpleNamespace(
    fast=SimpleNamespace(metal_kernel=metal_kernel),
    metal=SimpleNamespace(is_available=lambda: True),
)


def emulated(factory: Callable[..., object], *arguments: bool) -> EmulatedKernel:
    """What mlx-lm's factory makes of the emulator's `mx`; mlx-lm itself stays as it is."""
    seen = factory.__globals__ | {"mx": EMULATED, "can_run_metal": lambda: True}
    return FunctionType(factory.__code__, seen, argdefs=factory.__defaults__)(*arguments)


class Step(NamedTuple):
    q: mx.array
    k: mx.array
    v: mx.array
    g: mx.array
    beta: mx.array
    state: mx.array


def step(dtype: mx.Dtype, vector_gate: bool, size: int) -> Step:
    keys = iter(mx.random.split(mx.random.key(3), 6))
    tokens, k_heads, v_heads = 5, 1, 2
    shape = (1, tokens, k_heads, size)
    gate = (1, tokens, v_heads, size) if vector_gate else (1, tokens, v_heads)
    return Step(
        (mx.random.normal(shape, key=next(keys)) / size**0.5).astype(dtype),
        (mx.random.normal(shape, key=next(keys)) / size**0.5).astype(dtype),
        mx.random.normal((1, tokens, v_heads, 16), key=next(keys)).astype(dtype),
        mx.random.uniform(0.5, 1, gate, key=next(keys)),
        mx.random.uniform(0, 1, (1, tokens, v_heads), key=next(keys)).astype(dtype),
        mx.random.normal((1, v_heads, 16, size), key=next(keys)),
    )


def run_step(
    kernel: EmulatedKernel, x: Step, rows_a_simd_group: int, mask: mx.array | None
) -> list[mx.array]:
    size, width, v_heads = x.k.shape[-1], x.v.shape[-1], x.v.shape[2]
    return kernel(
        inputs=[*x, x.k.shape[1], *([] if mask is None else [mask])],
        template=[
            ("InT", x.q.dtype),
            ("StT", x.state.dtype),
            ("Dk", size),
            ("Dv", width),
            ("Hk", x.k.shape[2]),
            ("Hv", v_heads),
        ],
        grid=(32, width // rows_a_simd_group, v_heads),
        threadgroup=(32, 2, 1),
        output_shapes=[x.v.shape, x.state.shape],
        output_dtypes=[x.q.dtype, x.state.dtype],
    )


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
@pytest.mark.parametrize(("vector_gate", "masked"), [(False, False), (True, True), (False, True)])
def test_gated_delta(dtype: mx.Dtype, vector_gate: bool, masked: bool) -> None:
    x = step(dtype, vector_gate, 64)
    mask = mx.array([[True, True, False, True, True]]) if masked else None
    kernel = emulated(gated_delta._make_gated_delta_kernel, masked, vector_gate)
    y, state = run_step(kernel, x, 1, mask)
    y_ops, state_ops = gated_delta.gated_delta_ops(*x, mask)
    if masked:
        y, y_ops = (a * mask[:, :, None, None] for a in (y, y_ops))
    assert mx.abs(state - state_ops).max().item() < 2e-6
    tolerance = 2e-6 if dtype == mx.float32 else 2e-2
    assert mx.abs(y - y_ops).max().item() < tolerance
    assert kernel.last.buffers["state_in"].times_read == 1.0
    assert kernel.last.buffers["k"].times_read > 1


def test_packed_gated_delta_is_bit_identical() -> None:
    x = step(mx.bfloat16, False, 128)
    plain = emulated(gated_delta._make_gated_delta_kernel_xtree)
    packed = emulated(gated_delta._make_gated_delta_packed_kernel)
    for theirs, ours in zip(run_step(plain, x, 1, None), run_step(packed, x, 8, None), strict=True):
        assert mx.array_equal(theirs, ours).item()
    assert packed.last.buffers["k"].lines_loaded < plain.last.buffers["k"].lines_loaded


def test_a_gate_kernel_with_strides() -> None:
    x = mx.random.normal((1, 2, 3, 40), key=mx.random.key(1))
    gate = mx.random.normal((1, 3, 80), key=mx.random.key(2))
    kernel = metal_kernel("gate", ["x", "g", "eps"], ["out"], _NORM_GATE_SOURCE)
    (out,) = kernel(
        inputs=[x, gate, 1e-6],
        template=[("T", mx.float32), ("D", 40)],
        grid=(6 * 32, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[gate.shape],
        output_dtypes=[mx.float32],
    )
    normed = mx.fast.rms_norm(x, None, 1e-6).transpose(0, 2, 1, 3).reshape(1, 3, 80)
    assert mx.abs(out - normed * mx.sigmoid(gate)).max().item() < 2e-6


def divergence_of(kernel: EmulatedKernel, q: mx.array, p: mx.array) -> np.ndarray:
    (out,) = kernel(
        inputs=[q, p],
        template=[("T", mx.float32), ("V", q.shape[-1])],
        grid=(1024, q.shape[0], 1),
        threadgroup=(1024, 1, 1),
        output_shapes=[(q.shape[0],)],
        output_dtypes=[mx.float32],
    )
    return np.array(out)


def test_the_race_of_the_kl_kernel_is_found_and_a_barrier_mends_it() -> None:
    kernel = emulated(losses._make_kl_forward_kernel)
    q, p = (mx.random.normal((2, 500), key=mx.random.key(seed)) for seed in (1, 2))
    with pytest.raises(EmulatorError) as caught:
        divergence_of(kernel, q, p)
    assert (caught.value.kind, caught.value.place.buffer) == ("race", "shared")
    kernel.source = kernel.source.replace("mem_none", "mem_threadgroup").replace(
        "        // Share the sum_exp", "threadgroup_barrier(mem_flags::mem_threadgroup);\n//"
    )
    log_q, log_p = (np.array(a - mx.logsumexp(a, -1, keepdims=True)) for a in (q, p))
    truth = (np.exp(log_p.astype(np.float64)) * (log_p - log_q)).sum(-1)
    np.testing.assert_allclose(divergence_of(kernel, q, p), truth, rtol=1e-5)
