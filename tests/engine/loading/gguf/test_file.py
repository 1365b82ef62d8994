from pathlib import Path

import numpy as np
import pytest
from gguf_files import RawTensor, gguf_bytes

from mlx_engine.loading.gguf.file import read_gguf
from mlx_engine.values.errors import BadModelFile


def parts(folder: Path, numbers: list[int], count: int = 3, total: int = 3) -> list[Path]:
    """One tensor in each part; numbers: what the parts say of themselves."""
    paths = []
    for place, number in enumerate(numbers):
        split = {
            "split.no": np.uint16(number),
            "split.count": np.uint16(count),
            "split.tensors.count": np.int32(total),
        }
        own = {"general.architecture": "llama", **split} if place == 0 else split
        path = folder / f"m-{place + 1:05}-of-{len(numbers):05}.gguf"
        path.write_bytes(gguf_bytes(own, [RawTensor(f"t{number}", 0, (2, 4), bytes(32))]))
        paths.append(path)
    return paths


def test_parts_are_put_together_whichever_is_opened(tmp_path: Path) -> None:
    for path in parts(tmp_path, [0, 1, 2]):
        file = read_gguf(path)
        assert file.metadata["general.architecture"] == "llama"
        assert {name: tensor.file.name for name, tensor in file.tensors.items()} == {
            f"t{n}": f"m-{n + 1:05}-of-00003.gguf" for n in range(3)
        }


def test_wrong_parts_are_refused(tmp_path: Path) -> None:
    paths = parts(tmp_path, [0, 1, 1])
    with pytest.raises(BadModelFile, match="part 2 of 3, its name says part 3"):
        read_gguf(paths[0])
    paths = parts(tmp_path, [0, 1, 2], total=4)
    with pytest.raises(BadModelFile, match="3 tensors where 4"):
        read_gguf(paths[1])
    paths[2].unlink()
    with pytest.raises(BadModelFile, match=r"m-00003-of-00003\.gguf: missing"):
        read_gguf(paths[0])
    renamed = paths[0].rename(tmp_path / "other.gguf")
    with pytest.raises(BadModelFile, match="one of 3 parts, but is not named so"):
        read_gguf(renamed)


def test_a_wild_split_count_ends_at_once(tmp_path: Path) -> None:
    named = tmp_path / "m-00001-of-99999.gguf"
    named.write_bytes(gguf_bytes({"split.count": 99999}))
    with pytest.raises(BadModelFile, match=r"m-00002-of-99999\.gguf: missing"):
        read_gguf(named)
