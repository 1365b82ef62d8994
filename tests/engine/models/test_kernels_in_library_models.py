"""Linear layers of mlx-lm's classes on our kernel: the same numbers, told as in use."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.quantized import QuantizedLinear
from tiny_published import publish

import mlx_engine
from metal_kernels.choice import NO_KERNELS
from mlx_engine.engine import Engine
from mlx_engine.loading.load import load_model
from mlx_engine.models.library.layer_exchange import use_kernels
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_keeps_its_parameters_and_its_numbers(is_packed: bool, bias: bool) -> None:
    made: Linear | QuantizedLinear = Linear(64, 24, bias=bias)
    if is_packed:
        made = QuantizedLinear.from_linear(made, 32, 4)
    parent = Linear(8, 8)
    parent.inner = made
    launcher = EmulatorLauncher(check=False)
    use_kernels(parent, every_kernel(launcher))
    ours = parent.inner
    assert isinstance(ours, type(made))
    assert ours is not made
    assert {*ours} == {*made}
    for rows in (1, 9, 10):
        x = mx.random.normal((1, rows, 64), key=mx.random.key(rows))
        assert mx.allclose(ours(x), made(x), rtol=1e-4, atol=1e-5).item()
    adding = [report for report in launcher.reports if "matvec_add" in report.kernel]
    assert len(adding) == (2 if bias else 0)
    assert len(launcher.reports) == 2  # ten rows are multiplied by stock MLX


def test_without_kernels_nothing_is_exchanged() -> None:
    parent = Linear(8, 8)
    parent.inner = made = Linear(8, 8)
    use_kernels(parent, NO_KERNELS)
    assert parent.inner is made


def test_a_model_of_the_library(tmp_path: Path) -> None:
    tiny = publish("hunyuan_v1_dense", tmp_path / "m")
    options = LoadOptions(check_heads=False)
    kernels = every_kernel(EmulatorLauncher(check=False))
    engine = Engine(load_model(tiny.folder, options, tiny.folder, kernels=kernels), options)
    stock = mlx_engine.load(tiny.folder)
    tokens = tiny.tokens[:8]
    assert np.allclose(engine.logits(tokens), stock.logits(tokens), rtol=1e-3, atol=1e-4)
    told = {state.name: state for state in engine.description.kernels}
    assert told["products"].is_in_use
    assert "Not needed by this model" in told["attention"].why_not
    draft = DraftOptions(source="prompt-lookup", depth=2)
    texts = [
        engine.generate(
            list(tokens) * 2, 4, SamplingOptions(temperature=0), way, ignore_eos=True
        ).tokens
        for way in (DraftOptions(source="none"), draft)
    ]
    assert texts[0] == texts[1]
    for one in (engine, stock):
        one.close()
