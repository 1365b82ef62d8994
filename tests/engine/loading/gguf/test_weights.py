"""Arrays of single GGUF tensors: a factor beside a tensor, and the memory that is written to."""

from pathlib import Path

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf.quants import dequantize, quantize
from gguf_blocks import put_halves, random_blocks
from gguf_files import RawTensor, gguf_bytes
from numpy.typing import NDArray

from mlx_engine.loading.gguf.file import Half
from mlx_engine.loading.gguf.header import read_gguf_header
from mlx_engine.loading.gguf.part import HfTensor, arrays_of_tensor
from mlx_engine.loading.gguf.weights import load_gguf_arrays
from mlx_engine.values.errors import BadModelFile

KINDS = gguf.GGMLQuantizationType
UNPACKED = ("Q2_K", "Q6_K", "IQ2_XS", "IQ2_S")
VALUES = np.random.default_rng(0).normal(0, 1, (6, 256)).astype(np.float32)


def blocks_of(kind: KINDS) -> NDArray[np.uint8]:
    """VALUES in blocks; for types the package does not write random ones."""
    if kind.name in UNPACKED:
        return random_blocks(kind.name, 6, 1, seed=2)
    if kind != KINDS.NVFP4:
        return quantize(VALUES, kind)
    blocks = np.random.default_rng(1).integers(0, 256, (24, 36), dtype=np.uint8)
    blocks[:, :4] = 0x30 + blocks[:, :4] % 16
    return blocks.reshape(6, 144)


def loaded(
    file: Path, kind: KINDS, place: HfTensor, factor: float | None = None
) -> NDArray[np.float32]:
    """What MLX makes of VALUES after a trip through a file, in float32."""
    tensors = [RawTensor("w.weight", kind.value, VALUES.shape, blocks_of(kind).tobytes())]
    if factor is not None:
        tensors.append(RawTensor("w.scale", 0, (1,), np.float32(factor).tobytes()))
    file.write_bytes(gguf_bytes({}, tensors))
    header = read_gguf_header(file)
    parts = arrays_of_tensor(
        header.tensors["w.weight"], place, header.tensors.get("w.scale"), "BF16"
    )
    arrays = load_gguf_arrays({part.name: part for part in parts}, None, None, mx.float32)
    if len(arrays) == 1:
        return np.array(arrays["w.weight"])
    packed = [arrays[f"w.{name}"] for name in ("weight", "scales", "biases")]
    bits, size = 32 * packed[0].shape[1] // 256, 256 // packed[1].shape[1]
    return np.array(mx.dequantize(*packed, group_size=size, bits=bits, dtype=mx.float32))


@pytest.mark.parametrize("name", UNPACKED)
def test_what_has_no_packed_form_keeps_its_values(tmp_path: Path, name: str) -> None:
    found = loaded(tmp_path / "m.gguf", KINDS[name], HfTensor("w.weight"))
    np.testing.assert_array_equal(found, dequantize(blocks_of(KINDS[name]), KINDS[name]))


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K", "F16", "BF16", "MXFP4"])
@pytest.mark.parametrize("half", ["F16", "BF16"])
def test_halves_on_a_gpu_are_the_nearest(tmp_path: Path, name: str, half: Half) -> None:
    """Scales and dense values; codes are as on a CPU, and so are scales that are bytes."""
    stored = (
        random_blocks(name, 6, 1, seed=4)
        if name in ("Q4_K", "Q6_K")
        else quantize(VALUES, KINDS[name])
    )
    file = tmp_path / "m.gguf"
    raw = RawTensor("w.weight", KINDS[name].value, VALUES.shape, stored.tobytes())
    file.write_bytes(gguf_bytes({}, [raw]))
    tensor = read_gguf_header(file).tensors["w.weight"]
    parts = {part.name: part for part in arrays_of_tensor(tensor, HfTensor("w.weight"), None, half)}
    wide = load_gguf_arrays(parts, None, None, mx.float32)
    kept = load_gguf_arrays(parts, None, None)
    wanted = mx.float16 if half == "F16" else mx.bfloat16
    for key, array in kept.items():
        is_float = wide[key].dtype == mx.float32
        assert array.dtype == (wanted if is_float else wide[key].dtype), key
        assert mx.array_equal(array, wide[key].astype(array.dtype)).item(), key
        assert parts[key].nbytes == array.nbytes, key


def test_a_number_too_large_for_float32(tmp_path: Path) -> None:
    file, values = tmp_path / "m.gguf", np.full((2, 32), 1e300)
    raw = RawTensor("w.weight", KINDS.F64.value, values.shape, values.tobytes())
    file.write_bytes(gguf_bytes({}, [raw]))
    tensor = read_gguf_header(file).tensors["w.weight"]
    parts = {
        part.name: part for part in arrays_of_tensor(tensor, HfTensor("w.weight"), None, "F16")
    }
    with pytest.raises(BadModelFile, match="not numbers"):
        load_gguf_arrays(parts, None, None, mx.float32)


def test_an_infinite_scale_of_what_is_unpacked(tmp_path: Path) -> None:
    blocks = random_blocks("Q6_K", 6, 1, seed=5)
    put_halves(blocks[2], "Q6_K", float("inf"))
    file = tmp_path / "m.gguf"
    raw = RawTensor("w.weight", KINDS.Q6_K.value, VALUES.shape, blocks.tobytes())
    file.write_bytes(gguf_bytes({}, [raw]))
    tensor = read_gguf_header(file).tensors["w.weight"]
    parts = {
        part.name: part for part in arrays_of_tensor(tensor, HfTensor("w.weight"), None, "F16")
    }
    with pytest.raises(BadModelFile, match="not numbers"):
        load_gguf_arrays(parts, None, None, mx.float32)


def test_a_factor_beside_nvfp4(tmp_path: Path) -> None:
    found = loaded(tmp_path / "m.gguf", KINDS.NVFP4, HfTensor("w.weight"), 0.37)
    wanted = dequantize(blocks_of(KINDS.NVFP4), KINDS.NVFP4) * np.float32(0.37)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", [KINDS.MXFP4, KINDS.Q8_0, KINDS.Q4_0])
def test_a_factor_beside_other_types(tmp_path: Path, kind: KINDS) -> None:
    found = loaded(tmp_path / "m.gguf", kind, HfTensor("w.weight"), 0.37)
    wanted = dequantize(blocks_of(kind), kind) * np.float32(0.37)
    assert np.abs(found - wanted).max() < 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("kind", [KINDS.F16, KINDS.F32])
def test_a_factor_beside_floats(tmp_path: Path, kind: KINDS) -> None:
    stored = VALUES.astype(np.float16 if kind == KINDS.F16 else np.float32)
    file = tmp_path / "m.gguf"
    factor = RawTensor("w.scale", 0, (1,), np.float32(0.37).tobytes())
    tensors = [RawTensor("w.weight", kind.value, VALUES.shape, stored.tobytes()), factor]
    file.write_bytes(gguf_bytes({}, tensors))
    header = read_gguf_header(file)
    factor_there = header.tensors["w.scale"]
    parts = arrays_of_tensor(header.tensors["w.weight"], HfTensor("w.weight"), factor_there, "F16")
    arrays = load_gguf_arrays({part.name: part for part in parts}, None, None, mx.float32)
    wanted = stored.astype(np.float32) * np.float32(0.37)
    np.testing.assert_allclose(arrays["w.weight"], wanted, rtol=6e-4)
