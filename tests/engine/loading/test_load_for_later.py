"""Heads of a GGUF are repacked once and take no memory before they are used."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from tiny_gguf import write_tiny_gguf

import mlx_engine
from mlx_engine import DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.loading.find import locate_model
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.loading.headers import read_headers
from mlx_engine.loading.load_tensors import load_deferred
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.values.errors import BadModelFile


def tensors_of(path: Path) -> dict[str, TensorInfo]:
    return dict(read_headers(locate_model(path, path.parent)).heads.tensors)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Fills the disk."""
    usage = shutil.disk_usage("/")
    return lambda: monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("form", ["packed", "dense"])
def test_the_same_arrays_later(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    full: Callable[[], None],
    form: str,
    on_gpu: bool,
    room: bool,
) -> None:
    monkeypatch.setattr("mlx_engine.loading.arrays.computes_on_gpu", lambda: on_gpu)
    if not room:
        full()
    tensors = tensors_of(write_tiny_gguf(tmp_path / "m.gguf", form=form))  # type: ignore[arg-type]
    later = load_deferred(tensors, mx.float32)
    parts = {key: info for key, info in tensors.items() if isinstance(info, GgufPart)}
    wanted = load_gguf_arrays(parts, None, None, mx.float32)
    assert set(later) == set(wanted)
    for key, array in wanted.items():
        assert (later[key].dtype, later[key].shape) == (array.dtype, array.shape)
        assert mx.all(later[key] == array).item(), key


def test_nothing_is_taken_before(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    tensors = tensors_of(path)
    mx.clear_cache()
    before, whole = mx.get_active_memory(), sum(info.nbytes for info in tensors.values())
    later = load_deferred(tensors, mx.float32)
    mx.eval([array for array in later.values() if array.ndim == 1])
    assert mx.get_active_memory() - before < 0.1 * whole
    engine = mlx_engine.load(path, options=LoadOptions(check_heads=False))
    plain = engine.generate([5, 9, 3], 12, SamplingOptions(temperature=0), DraftOptions("none"))
    loaded = mx.get_active_memory()  # with the tables of a first pass, without what drafts
    drafted = engine.generate([5, 9, 3], 12, SamplingOptions(temperature=0), DraftOptions(depth=2))
    assert mx.get_active_memory() - loaded > 0.9 * whole
    assert drafted.tokens == plain.tokens
    assert drafted.stats.drafted > 0
    engine.close()


def test_draft_logits_are_those_of_heads_in_memory(
    tmp_path: Path, full: Callable[[], None]
) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    found = []
    for has_room in (True, False):
        if not has_room:
            full()
        engine = mlx_engine.load(path, options=LoadOptions(head_bits=4, check_heads=False))
        found.append(engine.draft_logits([5, 9, 200, 31]))
        engine.close()
    np.testing.assert_array_equal(*found)


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def await_open_files(expected: int) -> int:
    """Files open now, after at most a minute of waiting for the `expected` number.

    MLX lets go of a file in the thread that read it, a moment after `eval` has returned.
    """
    deadline = time.monotonic() + 60
    while open_files() != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return open_files()


def test_nothing_is_left_behind(tmp_path: Path, folder: Path) -> None:
    tensors, before = tensors_of(write_tiny_gguf(tmp_path / "m.gguf")), open_files()
    dropped = load_deferred(tensors, mx.float32)
    assert list(folder.iterdir()) == []
    assert open_files() > before
    del dropped
    assert open_files() == before
    read = load_deferred(tensors, mx.float32)
    mx.eval(list(read.values()))
    assert await_open_files(before) == before


def test_no_place_for_a_temporary_file(tmp_path: Path, folder: Path) -> None:
    tensors = tensors_of(write_tiny_gguf(tmp_path / "m.gguf", form="packed"))
    folder.rmdir()
    assert set(load_deferred(tensors, mx.float32)) == set(tensors)


def test_damage_is_found(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    tensors, content = tensors_of(path), bytearray(path.read_bytes())
    stored = next(
        info.stored
        for info in tensors.values()
        if isinstance(info, GgufPart) and info.stored.type.name == "Q8_0"
    )
    content[stored.offset : stored.offset + 2] = b"\xff\xff"
    path.write_bytes(content)
    with pytest.raises(BadModelFile, match=r"m\.gguf: .*not numbers"):
        load_deferred(tensors, mx.float32)
