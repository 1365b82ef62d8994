"""Heads of a GGUF take neither memory nor repacking before they are used."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from tiny_gguf import write_tiny_gguf

import mlx_engine
from mlx_engine import DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.loading import heads_for_later
from mlx_engine.loading.gguf import weights
from mlx_engine.loading.gguf.part import GgufPart
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.loading.heads_for_later import HeadsForLater
from mlx_engine.loading.locate_model import locate_model
from mlx_engine.loading.model_headers import read_headers
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.values.errors import BadModelFile, OutOfMemory


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heads_for_later, "_SMALL", 300)


@pytest.fixture
def repacked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Tensors repacked so far."""
    seen: list[str] = []
    repack = weights.repack

    def seeing(rows, kind, *rest):  # type: ignore[no-untyped-def]
        seen.append(kind.name)
        return repack(rows, kind, *rest)

    monkeypatch.setattr(weights, "repack", seeing)
    yield seen


def tensors_of(path: Path) -> dict[str, TensorInfo]:
    return dict(read_headers(locate_model(path, path.parent)).heads.tensors)


@pytest.mark.parametrize("metal", [False, True])
@pytest.mark.parametrize("form", ["packed", "dense"])
def test_the_same_arrays_later(tmp_path: Path, form: str, metal: bool) -> None:
    tensors = tensors_of(write_tiny_gguf(tmp_path / "m.gguf", form=form))  # type: ignore[arg-type]
    later = HeadsForLater(tensors, metal=metal)
    parts = {key: info for key, info in tensors.items() if isinstance(info, GgufPart)}
    wanted = load_gguf_arrays(parts, metal, None, None)
    assert set(later.arrays) == set(wanted)
    later.fill()
    later.fill()
    for key, array in wanted.items():
        found = later.arrays[key]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert mx.all(found == array).item(), key


def test_nothing_is_taken_before(tmp_path: Path, repacked: list[str]) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    tensors = tensors_of(path)
    mx.clear_cache()
    before = mx.get_active_memory()
    later = HeadsForLater(tensors, metal=False)
    mx.eval([array for array in later.arrays.values() if array.ndim == 1])
    assert not repacked
    assert mx.get_active_memory() - before < 0.1 * sum(info.nbytes for info in tensors.values())
    engine = mlx_engine.load(path)
    trunk = len(repacked)
    plain = engine.generate([5, 9, 3], 12, SamplingOptions(temperature=0), DraftOptions("none"))
    assert len(repacked) == trunk
    drafted = engine.generate([5, 9, 3], 12, SamplingOptions(temperature=0), DraftOptions(depth=2))
    assert len(repacked) > trunk
    assert drafted.tokens == plain.tokens
    assert drafted.stats.drafted > 0
    engine.close()


def test_draft_logits_are_those_of_heads_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    found = []
    for small in (300, 2**40):
        monkeypatch.setattr(heads_for_later, "_SMALL", small)
        engine = mlx_engine.load(path, options=LoadOptions(head_bits=4, check_heads=False))
        found.append(engine.draft_logits([5, 9, 200, 31]))
        engine.close()
    np.testing.assert_array_equal(*found)


def test_evaluated_too_soon_is_an_error_and_no_garbage(tmp_path: Path) -> None:
    later = HeadsForLater(tensors_of(write_tiny_gguf(tmp_path / "m.gguf")), metal=False)
    with pytest.raises(RuntimeError):
        mx.eval([array + 0 for array in later.arrays.values()])


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    tensors, before = tensors_of(write_tiny_gguf(tmp_path / "m.gguf")), open_files()
    dropped = HeadsForLater(tensors, metal=False)
    assert open_files() > before
    del dropped
    filled = HeadsForLater(tensors, metal=False)
    assert list(folder.iterdir()) == []
    filled.fill()
    mx.eval(list(filled.arrays.values()))
    assert open_files() == before


def test_damage_is_found_when_they_are_read(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    later = HeadsForLater(tensors_of(path), metal=False)
    content = bytearray(path.read_bytes())
    stored = next(
        info.stored
        for info in tensors_of(path).values()
        if isinstance(info, GgufPart) and info.stored.type.name == "Q8_0"
    )
    content[stored.offset : stored.offset + 2] = b"\xff\xff"
    path.write_bytes(content)
    with pytest.raises(BadModelFile, match="not numbers"):
        later.fill()


def test_no_room_for_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later = HeadsForLater(tensors_of(write_tiny_gguf(tmp_path / "m.gguf")), metal=False)

    def full(file: int, data: memoryview, place: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutOfMemory, match=r"MTP heads need room in .*No space left"):
        later.fill()
