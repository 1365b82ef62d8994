"""Repacked GGUF weights that are kept: used again, never trusted blindly, never in the way."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from numpy.typing import NDArray
from tiny_gguf import write_tiny_gguf

import mlx_engine
from mlx_engine import LoadOptions
from mlx_engine.loading import load_tensors as rooms
from mlx_engine.values.model_description import ModelDescription

TOKENS = [5, 9, 200, 31, 77]


class Loads:
    """Loads a file with a cache, and counts how often weights were repacked."""

    def __init__(self, folder: Path) -> None:
        self.options = LoadOptions(repack_cache=folder, check_heads=False)
        self.repacked = 0
        self.described: ModelDescription | None = None
        self.steps: list[tuple[int, int]] = []

    def logits(self, path: Path) -> NDArray[np.float32]:
        self.steps.clear()
        engine = mlx_engine.load(
            path, options=self.options, on_progress=lambda *step: self.steps.append(step)
        )
        self.described = engine.description
        found = engine.logits(TOKENS) + engine.draft_logits(TOKENS).sum()
        engine.close()
        return found

    def codes(self) -> list[str]:
        assert self.described is not None
        return [reason.code for reason in self.described.declined if "cache" in reason.code]


@pytest.fixture
def loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loads]:
    made, repack = Loads(tmp_path / "kept" / "here"), rooms.load_gguf_arrays

    def counted(*given: object, **named: object) -> dict[str, mx.array]:
        made.repacked += 1
        return repack(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(rooms, "load_gguf_arrays", counted)
    yield made


def kept_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "kept" / "here").iterdir())


def test_the_second_load_does_not_repack(tmp_path: Path, loads: Loads) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    first = loads.logits(file)
    assert loads.repacked == 2  # trunk and heads
    assert loads.described is not None
    assert "are kept in" in (loads.described.repack_cache or "")
    np.testing.assert_array_equal(loads.logits(file), first)
    assert loads.repacked == 2
    assert "were read from" in (loads.described.repack_cache or "")
    assert str(tmp_path / "kept" / "here") in (loads.described.repack_cache or "")
    assert loads.steps[-1][0] == loads.steps[-1][1] > 0
    assert loads.codes() == []
    assert len(kept_files(tmp_path)) == 2


def test_another_place_is_the_same_file(tmp_path: Path, loads: Loads) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    first = loads.logits(file)
    (tmp_path / "other").mkdir()
    moved = shutil.move(file, tmp_path / "other" / "n.gguf")
    np.testing.assert_array_equal(loads.logits(moved), first)
    assert loads.repacked == 2


def test_a_changed_file_is_another(tmp_path: Path, loads: Loads) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    first = loads.logits(file)
    write_tiny_gguf(file, form="packed", seed=5)
    assert not np.array_equal(loads.logits(file), first)
    assert loads.repacked == 4


@pytest.mark.parametrize("damage", ["cut", "empty", "no header", "foreign"])
def test_damaged_and_foreign_ones_are_made_anew(tmp_path: Path, loads: Loads, damage: str) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    first = loads.logits(file)
    for kept in kept_files(tmp_path):
        whole = kept.read_bytes()
        if damage == "foreign":
            mx.save_safetensors(str(kept), {"a": mx.ones((3,))})
        else:
            kept.write_bytes(
                {"cut": whole[:-9], "empty": b"", "no header": b"\xff" * len(whole)}[damage]
            )
    np.testing.assert_array_equal(loads.logits(file), first)
    assert loads.codes() == ["repack-cache-ignored"] * 2
    assert loads.repacked == 4
    np.testing.assert_array_equal(loads.logits(file), first)
    assert (loads.codes(), loads.repacked) == ([], 4)


def test_a_folder_that_cannot_be(tmp_path: Path, loads: Loads) -> None:
    (tmp_path / "kept").write_text("a file")
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    assert np.isfinite(loads.logits(file)).all()
    assert loads.codes() == ["repack-cache-not-written"] * 2
    assert loads.described is not None
    assert not loads.described.repack_cache


FULL = """
import sys, resource, signal
from pathlib import Path
import mlx_engine
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
options = mlx_engine.LoadOptions(repack_cache=Path(sys.argv[2]), check_heads=False)
engine = mlx_engine.load(sys.argv[1], options=options)
print([reason.code for reason in engine.description.declined])
"""


def test_a_disk_that_is_full_while_writing(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    folder = tmp_path / "kept"
    ran = subprocess.run(
        [sys.executable, "-c", FULL, str(file), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(mlx_engine.__file__).parents[1],
    )
    assert ran.stdout.count("repack-cache-not-written") == 2
    assert list(folder.iterdir()) == []
