"""On a Mac: every kernel against its reference, and models on them with exact rows, on the GPU."""

import mlx.core as mx
import pytest
from kernel_models import Kind, every_kernel, kernel_model

from metal_kernels.kernel import MetalLauncher
from mlx_engine.self_check.kernel_trials import TRIALS, Trial, check_kernel
from mlx_engine.self_check.numerics import compare_row_counts

if not mx.metal.is_available():
    pytest.skip("no Metal here", allow_module_level=True)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.name)
def test_a_kernel(trial: Trial, dtype: mx.Dtype) -> None:
    assert check_kernel(trial, MetalLauncher(), dtype) == ""


@pytest.mark.usefixtures("rows_compared")
@pytest.mark.parametrize("kind", ["dense", "experts"])
def test_a_model(kind: Kind) -> None:
    mine, plain = kernel_model(kind, every_kernel(MetalLauncher())), kernel_model(kind)
    tokens = mx.array([[5, 1, 30, 17, 2]])
    logits = [model.logits(model.forward(tokens, model.make_caches())) for model in (mine, plain)]
    assert mx.allclose(*logits, rtol=1e-3, atol=1e-3).item()
    assert set(compare_row_counts(mine, 10_000)) == {""}
