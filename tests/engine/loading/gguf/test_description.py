"""What is told of a GGUF: sizes as it is held in memory, and reasons in the file's own words."""

import gc
from pathlib import Path
from typing import Literal

import mlx.core as mx
import pytest
from tiny_gguf import write_tiny_gguf

import mlx_engine
from mlx_engine.loading.describe import describe
from mlx_engine.loading.find import locate_model
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.loading.headers import ModelHeaders, read_headers
from mlx_engine.values.options import LoadOptions


def headers_of(path: Path) -> ModelHeaders:
    return read_headers(locate_model(path, path.parent))


@pytest.mark.parametrize("form", ["dense", "packed"])
def test_sizes_are_those_of_the_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Literal["dense", "packed"]
) -> None:
    headers = headers_of(write_tiny_gguf(tmp_path / "m.gguf", form=form))
    parts = {**headers.parts.trunk, **{f"head.{k}": v for k, v in headers.heads.tensors.items()}}
    arrays = load_gguf_arrays(parts, None, None)
    held = sum(array.nbytes for array in arrays.values())
    assert describe(headers, LoadOptions(), has_metal=True).nbytes == held
    unpacked = describe(headers, LoadOptions(), has_metal=False, stays_packed=False)
    in_floats = 4 * unpacked.parameters
    assert (
        unpacked.nbytes == in_floats if form == "dense" else 0.3 < unpacked.nbytes / in_floats < 0.4
    )
    assert sum(group.nbytes for group in unpacked.groups) == unpacked.nbytes
    assert held < 2 * unpacked.nbytes


@pytest.mark.skipif(mx.metal.is_available(), reason="sizes with Metal are those of inspect")
def test_a_loaded_model_tells_what_it_holds(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    mlx_engine.load(path).close()  # what products of these shapes share stays
    gc.collect()
    before = mx.get_active_memory()
    model = mlx_engine.load(path)
    in_use = mx.get_active_memory() - before
    told = model.description
    model.close()
    inspected = mlx_engine.inspect(path)
    assert told.nbytes > inspected.nbytes
    assert inspected.without_metal is not None
    here = inspected.with_machine(has_metal=False)
    assert told.memory_needed(9) == here.memory_needed(9)
    assert (told.quantisation, told.groups) == (here.quantisation, here.groups)
    assert {reason.code for reason in here.declined} <= {reason.code for reason in told.declined}
    assert "unpacked-for-cpu" in {reason.code for reason in here.declined}
    trunk = [group for group in told.groups if group.name != "MTP head"]
    small_arrays = 0.05 * sum(4 * group.parameters for group in trunk)
    assert abs(in_use - sum(group.nbytes for group in trunk)) < small_arrays


def test_dropped_heads_are_told_in_the_words_of_the_file(tmp_path: Path) -> None:
    why = mlx_engine.inspect(write_tiny_gguf(tmp_path / "m.gguf", heads="none")).mtp
    assert why is not None
    assert "with 1 drafting head (nextn_predict_layers in m.gguf)" in why.words
    assert "mtp." not in why.words
    assert "config" not in why.words
