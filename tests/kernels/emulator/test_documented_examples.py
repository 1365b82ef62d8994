"""The kernels of MLX's documentation run as documented."""

import mlx.core as mx
import numpy as np
import pytest
from metal_emulator import EmulatorLauncher, metal_kernel

from metal_kernels.kernel import KernelSource, Launch, Parameter, pipeline

EXP = """
    uint elem = thread_position_in_grid.x;
    T tmp = inp[elem];
    out[elem] = metal::exp(tmp);
"""


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_exp(dtype: mx.Dtype) -> None:
    a = mx.random.normal((4, 16), key=mx.random.key(1)).astype(dtype)
    kernel = metal_kernel("myexp", ["inp"], ["out"], EXP)
    (out,) = kernel(
        inputs=[a],
        template=[("T", dtype)],
        grid=(a.size, 1, 1),
        threadgroup=(256, 1, 1),
        output_shapes=[a.shape],
        output_dtypes=[dtype],
    )
    truth = np.exp(np.array(a.astype(mx.float32)).astype(np.float64))
    rounding = {mx.float32: 2e-7, mx.float16: 5e-4, mx.bfloat16: 4e-3}[dtype]
    np.testing.assert_allclose(np.array(out.astype(mx.float32)), truth, rtol=rounding)
    assert kernel.last.buffers["inp"].times_read == 1.0


def test_a_source_of_ours_through_the_launcher() -> None:
    source = KernelSource("twice", ("inp",), ("out",), EXP.replace("metal::exp(tmp)", "T(tmp * 2)"))
    a = mx.arange(40, dtype=mx.float32)
    launcher = EmulatorLauncher()
    made = pipeline(source, (Parameter("T", mx.float32),))
    launch = Launch(made, (a.shape,), (a.dtype,), (40, 1, 1), (32, 1, 1))
    assert mx.array_equal(launcher.run(launch, [a])[0], 2 * a).item()
    assert launcher.last.threads == 40
