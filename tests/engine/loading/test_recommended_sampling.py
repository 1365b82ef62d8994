"""Sampling that a GGUF's metadata recommend; a folder's is tested with its description."""

from pathlib import Path

import numpy as np
import pytest
from tiny_gguf import write_tiny_gguf

from mlx_engine.loading.describe import inspect_model, recommendation_from_gguf
from mlx_engine.values.options import SamplingOptions


def test_all_keys_are_read_by_inspect(tmp_path: Path) -> None:
    keys = {"temp": 1.0, "top_k": np.int32(64), "top_p": 0.95, "min_p": 0.0, "penalty_repeat": 1.5}
    changes = {f"general.sampling.{key}": value for key, value in keys.items()}
    described = inspect_model(write_tiny_gguf(tmp_path / "a.gguf", changes=changes), tmp_path)
    found = described.sampling
    assert (found.temperature, found.top_k, found.min_p) == (1.0, 64, 0.0)
    assert found.top_p == pytest.approx(0.95)
    assert found.repetition_penalty == 1.5


def test_without_keys_the_usual() -> None:
    assert recommendation_from_gguf({}, Path("a.gguf")).sampling == SamplingOptions()


@pytest.mark.parametrize("bad", ["hot", float("nan"), -1.0, True])
def test_bad_advice_is_passed_over_and_told(bad: object) -> None:
    found = recommendation_from_gguf({"general.sampling.temp": bad}, Path("a.gguf"))
    assert found.sampling == SamplingOptions()
    assert found.ignored is not None
    assert "a.gguf: general.sampling.*: temperature=" in found.ignored.words
