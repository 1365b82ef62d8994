"""Files loaded with kernels to run on: what is in use is told, and drafting keeps the words."""

from pathlib import Path

import mlx.core as mx
import pytest
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from metal_kernels.choice import KERNELS, Kernels
from mlx_engine.engine import Engine
from mlx_engine.loading.load import load_model
from mlx_engine.values.model_description import KernelState
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

pytestmark = pytest.mark.usefixtures("rows_compared")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Heads of 32, which our attention does not take."""
    path = tmp_path_factory.mktemp("tiny") / "model"
    return write_tiny_qwen3_5(path, layout="mlx", bits=4, layers=4)


def loaded(folder: Path, kernels: Kernels) -> Engine:
    options = LoadOptions(check_heads=False)
    return Engine(load_model(folder, options, folder, kernels=kernels), options)


def states(engine: Engine) -> dict[str, KernelState]:
    return {state.name: state for state in engine.description.kernels}


def test_what_is_in_use_is_told(folder: Path) -> None:
    kernels = every_kernel(EmulatorLauncher(check=False), off={"gate-up": "it is wrong"})
    engine = loaded(folder, kernels)
    told = states(engine)
    assert {name for name, state in told.items() if state.is_in_use} == {
        *("products", "product-add", "attention", "delta", "delta-inputs", "mtp-input", "pick"),
        *("filtered-pick", "noise"),
    }
    assert "it is wrong" in told["gate-up"].details
    assert "Not needed by this model" in told["experts"].why_not
    assert engine.description.numerics == "exact"
    assert all(reason.code != "unpacked-for-cpu" for reason in engine.description.declined)
    engine.close()


def test_drafting_keeps_the_words(folder: Path) -> None:
    launcher = EmulatorLauncher(check=False)
    engine = loaded(folder, every_kernel(launcher))
    ways = [SamplingOptions(temperature=0), SamplingOptions(temperature=0.8, top_p=0.9, seed=5)]
    for sampling in ways:
        texts = [
            engine.generate("ab", 5, sampling, DraftOptions(depth=depth), ignore_eos=True).tokens
            for depth in (0, 2)
        ]
        assert texts[0] == texts[1]
    assert {"vocabulary_pick", "filtered_pick"} <= {report.kernel for report in launcher.reports}
    engine.close()


def test_without_metal_it_is_said(folder: Path) -> None:
    engine = mlx_engine.load(folder, kernel_verdict=folder / "kernels.json")
    if not mx.metal.is_available():
        assert {state.name for state in engine.description.kernels} == set(KERNELS)
        assert "no Metal" in engine.description.kernels[0].why_not
        assert not (folder / "kernels.json").exists()
    engine.close()
