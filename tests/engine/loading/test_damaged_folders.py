"""Whatever stands in a model's files, loading it succeeds or ends in an EngineError."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_qwen3_5 import write_tiny_qwen3_5

from mlx_engine.loading.describe import inspect_model
from mlx_engine.loading.load import load_model
from mlx_engine.values.errors import EngineError
from mlx_engine.values.options import LoadOptions

ODD = [None, "", "x" * 500, -1, 0, 1, 3, 2**31 - 1, 2**70, 1.5, 1e308, True, [], [[]], {}, {"a": 1}]
NAN = float("nan")


def loads_or_refuses(folder: Path) -> None:
    for attempt in (
        inspect_model,
        lambda path, built_in: load_model(path, LoadOptions(), built_in),
    ):
        try:
            attempt(folder, folder)
        except EngineError as error:
            str(error).encode()
            assert len(str(error)) < 2000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_qwen3_5(tmp_path_factory.mktemp("models") / "m", bits=4, layers=2)


def test_odd_values_in_the_config(folder: Path) -> None:
    """Each value at every third key of each object: each key has a third of the values."""
    sound = json.loads((folder / "config.json").read_text())
    text = sound["text_config"]
    for first, value in zip(itertools.cycle(range(3)), [*ODD, NAN], strict=False):
        for key in (*sound, "quantization_config", "dtype", "num_experts")[first::3]:
            (folder / "config.json").write_text(json.dumps(sound | {key: value}))
            loads_or_refuses(folder)
        for key in (*text, "layer_types", "dtype")[first::3]:
            changed = sound | {"text_config": text | {key: value}}
            (folder / "config.json").write_text(json.dumps(changed))
            loads_or_refuses(folder)
        for key in (*text["rope_parameters"], "num_hidden_layers")[first::3]:
            rope = text["rope_parameters"] | {key: value}
            changed = sound | {"text_config": text | {"rope_parameters": rope}}
            (folder / "config.json").write_text(json.dumps(changed))
            loads_or_refuses(folder)
    (folder / "config.json").write_text(json.dumps(sound))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    name=st.sampled_from(["config.json", "model.safetensors", "tokenizer_config.json"]),
)
def test_overwritten_bytes(folder: Path, place: float, byte: int, name: str) -> None:
    """Any byte of the small files, and of the header of the weights."""
    sound = (folder / name).read_bytes()
    end = int.from_bytes(sound[:8], "little") + 8 if name == "model.safetensors" else len(sound)
    changed = bytearray(sound)
    changed[int(place * end)] = byte
    try:
        (folder / name).write_bytes(changed)
        loads_or_refuses(folder)
    finally:
        (folder / name).write_bytes(sound)
