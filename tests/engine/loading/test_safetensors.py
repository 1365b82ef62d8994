import json
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlx_engine.loading.safetensors import load_arrays, merge_headers, read_header
from mlx_engine.values.errors import BadModelFile, EngineError, UnsupportedModel


def safetensors(header: object, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(dtype: str = "F32", shape: object = (2, 3), offsets: object = (0, 24)) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


SOUND = {
    "__metadata__": {"format": "pt"},
    "layers.0.weight": entry(),
    "b": entry("BF16", (4,), (24, 32)),
    "c": entry("U32", (1, 1), (32, 36)),
}
DATA = bytes(range(36))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_reads_names_types_shapes_and_sizes(file: Path) -> None:
    file.write_bytes(safetensors(SOUND, DATA))
    infos = {info.name: info for info in read_header(file)}
    assert infos.keys() == {"layers.0.weight", "b", "c"}
    weight = infos["layers.0.weight"]
    assert (weight.dtype, weight.shape, weight.nbytes, weight.file) == ("F32", (2, 3), 24, file)
    arrays = load_arrays(infos)
    assert bytes(memoryview(arrays["c"])) == DATA[32:36]


def test_what_mlx_writes_is_read(file: Path) -> None:
    mx.save_safetensors(str(file), {"a": mx.zeros((3, 2), mx.bfloat16), "b": mx.array(1.0)})
    assert {info.name: info.shape for info in read_header(file)} == {"a": (3, 2), "b": ()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "too small"),
        (b"1234567", "too small"),
        (safetensors(SOUND, DATA, length=2**63), "too large"),
        (safetensors(SOUND, DATA, length=100_000_001), "too large"),
        (safetensors(SOUND, DATA)[:40], "header"),
        (safetensors(SOUND, DATA[:-1]), "not fully covered"),
        (safetensors(b"[1]"), "invalid JSON"),
        (safetensors(b"\xff\xfe{}"), "header"),
        (safetensors(b"[" * 100_000), "invalid JSON"),
        (safetensors(b'{"a":' * 50_000), "invalid JSON"),
        (safetensors({"__metadata__": {"x": 1}}), "invalid JSON"),
        (safetensors({"a": 1}), "invalid JSON"),
        (safetensors({"a": entry(offsets=(-4, 20))}, DATA[:24]), "invalid JSON"),
        (safetensors({"a": entry(offsets=(24, 0))}, DATA[:24]), "invalid offset"),
        (safetensors({"a": entry(shape=(2, 4))}, DATA[:24]), "header"),
        (safetensors({"a": entry(shape=(1,) * 9, offsets=(0, 4))}, DATA[:4]), "9 dimensions"),
        (safetensors({"a": entry(shape=(2**62, 2**62, 2**62))}, DATA), "overflow"),
        (safetensors({"a": entry("X7")}, DATA), "X7"),
        (safetensors({"a": entry(), "b": entry(offsets=(12, 36))}, DATA), "invalid offset"),
        (safetensors({"\ud800": entry()}, DATA), "invalid JSON"),
        (safetensors({"n" * 301: entry()}, DATA[:24]), "tensor named 'nnn"),
        (safetensors({"a\n": entry()}, DATA[:24]), r"tensor named 'a\\n"),
        (
            safetensors({str(n): entry("U8", (0,), (0, 0)) for n in range(2**18 + 1)}),
            "262145 tensors, more than",
        ),
    ],
)
def test_damage_is_named(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(BadModelFile, match=message) as caught:
        read_header(file)
    assert str(file) in str(caught.value)
    str(caught.value).encode()


def test_types_of_other_machines_are_sound_but_not_run(file: Path) -> None:
    file.write_bytes(safetensors({"a": entry("F8_E5M2", (24,))}, DATA[:24]))
    with pytest.raises(UnsupportedModel, match="F8_E5M2"):
        read_header(file)


def test_one_tensor_in_two_shards(tmp_path: Path) -> None:
    for name in ("one", "two"):
        header = {name: entry(), "x": entry("F32", (0,), (0, 0))}
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors(header, DATA[:24]))
    with pytest.raises(BadModelFile, match=r"two\.safetensors: x is also in one"):
        merge_headers([tmp_path / "one.safetensors", tmp_path / "two.safetensors"])


FUZZ = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def can_retry(file: Path, content: bytes) -> None:
    """Reads or refuses; what the header check lets pass MLX must open and evaluate."""
    file.write_bytes(content)
    try:
        arrays = load_arrays({info.name: info for info in read_header(file)})
    except EngineError:
        return
    assert sum(array.nbytes for array in arrays.values()) <= len(content)
    mx.eval(list(arrays.values()))


def test_every_flipped_bit_and_every_cut(file: Path) -> None:
    sound = safetensors(SOUND, DATA)
    for bit in range((len(sound) - len(DATA)) * 8):
        changed = bytearray(sound)
        changed[bit // 8] ^= 1 << bit % 8
        can_retry(file, bytes(changed))
    for cut in range(len(sound)):
        can_retry(file, sound[:cut])


@FUZZ
@given(st.dictionaries(st.integers(0, len(safetensors(SOUND)) - 1), st.integers(0, 255)))
def test_overwritten_bytes(file: Path, changes: dict[int, int]) -> None:
    content = bytearray(safetensors(SOUND, DATA))
    for place, byte in changes.items():
        content[place] = byte
    can_retry(file, bytes(content))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
NEAR_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from(["F32", "BF16", "BOOL", "C64", "U8", "F8_E5M2", "?"]) | ANYTHING,
        "shape": st.lists(st.integers(0, 6) | ANYTHING, max_size=3),
        "data_offsets": st.lists(st.integers(0, 40), min_size=2, max_size=2) | ANYTHING,
    },
)


@FUZZ
@given(st.dictionaries(st.text(max_size=4), NEAR_ENTRY | ANYTHING, max_size=4) | ANYTHING)
def test_other_headers(file: Path, header: object) -> None:
    can_retry(file, safetensors(header, DATA))


def test_files_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(BadModelFile, match="a broken link"):
        read_header(file)
    file.mkdir()
    with pytest.raises(BadModelFile, match="a folder, a pipe or a device"):
        read_header(file)
