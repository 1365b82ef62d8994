import os
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf_files import SAMPLE, RawTensor, RawValue, gguf_bytes, survives
from hypothesis import given, settings
from hypothesis import strategies as st

from mlx_engine.loading.gguf.file import read_gguf
from mlx_engine.loading.gguf.header import block_types, map_file, read_gguf_header, release_pages
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

F32 = RawTensor("a.weight", 0, (2, 4), bytes(range(32)))
Q8 = RawTensor("b.weight", 8, (1, 64), bytes(range(68)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_the_types_are_those_of_the_gguf_package() -> None:
    sizes = {t.value: (t.name, *size) for t, size in gguf.GGML_QUANT_SIZES.items()}
    q2_0 = {42: ("Q2_0", 64, 18)}  # newer than some releases of the package
    assert {number: tuple(block) for number, block in block_types().items()} == q2_0 | sizes


@pytest.mark.parametrize("version", [2, 3])
def test_reads_metadata_of_every_kind(file: Path, version: int) -> None:
    values = {
        "u8": np.uint8(255),
        "i64": np.int64(-(2**62)),
        "f64": np.float64(0.1),
        "yes": True,
        "text": "Привет 🎉",
        "numbers": np.arange(5, dtype=np.int16),
        "texts": ["", "a", "\u0120b"],
        "nested": [["x"], ["y", "z"]],
        "empty": [],
        "future.key": 7,
    }
    file.write_bytes(gguf_bytes(values, [F32, Q8], version=version))
    header = read_gguf_header(file)
    numbers = header.metadata["numbers"]
    assert isinstance(numbers, np.ndarray)
    assert numbers.tolist() == [0, 1, 2, 3, 4]
    plain = {key: value for key, value in header.metadata.items() if key != "numbers"}
    assert plain == {key: value for key, value in values.items() if key != "numbers"}
    assert [*header.tensors] == ["a.weight", "b.weight"]
    tensor = header.tensors["b.weight"]
    assert (tensor.type.name, tensor.shape, tensor.nbytes) == ("Q8_0", (1, 64), 68)
    assert tensor.rows_as_bytes(map_file(file)).tobytes() == Q8.data


def test_what_the_gguf_package_writes_is_read(file: Path) -> None:
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_custom_alignment(64)
    writer.add_tensor("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_gguf_header(file)
    assert header.metadata["general.architecture"] == "llama"
    tensor = header.tensors["w"]
    assert tensor.rows_as_bytes(map_file(file)).view(np.float32).tolist()[2] == [8, 9, 10, 11]


def nested(depth: int) -> RawValue:
    inner = struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 8, 0)
    return RawValue(struct.pack("<I", 9) + inner)


def array(kind: int, count: int) -> RawValue:
    return RawValue(struct.pack("<IIQ", 9, kind, count))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"GG", "not a GGUF"),
        (b"GGML" + bytes(40), "not a GGUF"),
        (b"GGUF\x03\x00\x00\x00", "byte 8.*cut short"),
        (gguf_bytes({}, pair_count=2**63), "claims 9223372036854775808 metadata"),
        (gguf_bytes({"a": 1}, tensor_count=2**63), "claims 9223372036854775808 tensors"),
        (gguf_bytes({"a": 1}, [F32], tensor_count=2), "byte .*a tensor is named"),
        (gguf_bytes({b"\xff": 1}), "byte .*not UTF-8"),
        (gguf_bytes({"a": RawValue(struct.pack("<IQ", 8, 2**63))}), "text of 92233720368"),
        (
            gguf_bytes({"tokenizer.a": RawValue(struct.pack("<IQ2s", 8, 2, b"\xc3\x28"))}),
            "not UTF-8",
        ),
        (gguf_bytes({"a": RawValue(struct.pack("<I", 13))}), "unknown type 13"),
        (gguf_bytes({"a": array(4, 2**63)}), "array of 9223372036854775808 numbers"),
        (gguf_bytes({"a": array(8, 2**63)}), "array of 9223372036854775808 items"),
        (gguf_bytes({"a": array(9, 2**63)}), "array of 9223372036854775808 items"),
        (gguf_bytes({"a": array(99, 1)}), "array of the unknown type 99"),
        (gguf_bytes({"a": nested(40)}), "arrays inside arrays"),
        (gguf_bytes({"a": RawValue(struct.pack("<IB", 7, 2))}), "2 where 0 or 1"),
        (gguf_bytes({"a": 1, b"a": 2}), "'a' is there twice"),
        (gguf_bytes({"general.alignment": 0}, [F32]), "alignment is 0"),
        (gguf_bytes({"general.alignment": 48}, [F32]), "alignment is 48"),
        (gguf_bytes({"general.alignment": 2**31}, [F32]), "alignment is 2147483648"),
        (gguf_bytes({"general.alignment": "x"}, [F32]), "alignment is 'x'"),
        (gguf_bytes({}, [F32, F32]), "a.weight is there twice"),
        (gguf_bytes({}, [F32, Q8._replace(offset=0)]), "overlap"),
        (gguf_bytes({}, [F32._replace(offset=8)]), "a.weight begins at 8"),
        (gguf_bytes({}, [F32._replace(offset=2**63)]), "a.weight should end"),
        (gguf_bytes({}, [F32, Q8])[:-1], "b.weight should end.*cut short"),
        (gguf_bytes({}, [F32._replace(shape=(0, 4))]), "a.weight has the shape"),
        (gguf_bytes({}, [F32._replace(shape=())]), "a.weight has 0 dimensions"),
        (gguf_bytes({}, [F32._replace(shape=(1,) * 5)]), "a.weight has 5 dimensions"),
        (gguf_bytes({}, [F32._replace(shape=(2**62, 2**62))]), "a.weight has the shape"),
        (gguf_bytes({}, [Q8._replace(shape=(1, 48))]), "row of b.weight has 48"),
        (gguf_bytes({}, [F32._replace(name="")]), "named ''"),
        (gguf_bytes({}, [F32._replace(name="a\n")]), r"named 'a\\n'"),
        (gguf_bytes({}, [F32._replace(name=b"\xff")]), "not UTF-8"),
        (gguf_bytes({}, [F32._replace(name="n" * 301)]), "name of 301 bytes"),
    ],
)
def test_damage_is_named(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(BadModelFile, match=message) as caught:
        read_gguf(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gguf_bytes({}, version=1), "version 1"),
        (gguf_bytes({}, version=77), "version 77"),
        (gguf_bytes({}, version=3 << 24), "big-endian"),
        (gguf_bytes({}, [F32._replace(type=99)]), "a.weight is stored as type 99"),
        (gguf_bytes({}, [F32._replace(type=31)]), "a.weight .*abandoned type Q4_0_4_4"),
    ],
)
def test_what_is_sound_but_not_read_is_named(file: Path, content: bytes, message: str) -> None:
    file.write_bytes(content)
    with pytest.raises(UnsupportedModel, match=message) as caught:
        read_gguf(file)
    assert str(file) in str(caught.value)


FUZZ = settings(max_examples=250)
HEAD = len(SAMPLE) - 320


def test_every_flipped_bit_and_every_cut() -> None:
    for bit in range(HEAD * 8):
        changed = bytearray(SAMPLE)
        changed[bit // 8] ^= 1 << bit % 8
        survives(bytes(changed))
    for cut in range(1, len(SAMPLE)):
        survives(SAMPLE[:cut])


@FUZZ
@given(st.dictionaries(st.integers(0, HEAD - 1), st.integers(0, 255), max_size=8))
def test_overwritten_bytes(changes: dict[int, int]) -> None:
    content = bytearray(SAMPLE)
    for place, byte in changes.items():
        content[place] = byte
    survives(bytes(content))


@FUZZ
@given(
    st.integers(0, HEAD - 8),
    st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32, 2**61, 2**63 - 1, 2**63, 2**64 - 1]),
)
def test_wild_numbers_anywhere(place: int, number: int) -> None:
    wild = SAMPLE[:place] + struct.pack("<Q", number) + SAMPLE[place + 8 :]
    survives(wild)


def test_a_name_that_is_no_utf_8_harms_nothing(tmp_path: Path) -> None:
    """As in files whose author or licence was written in Latin-1."""
    latin = "Müller".encode("latin-1")
    text = struct.pack("<IQ", 8, len(latin)) + latin
    several = struct.pack("<IIQQ", 9, 8, 1, len(latin)) + latin
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf_bytes({"general.author": RawValue(text), "general.tags": RawValue(several)})
    )
    metadata = read_gguf_header(path).metadata
    assert metadata == {"general.author": "M\ufffdller", "general.tags": ["M\ufffdller"]}


def test_what_is_forgotten_can_be_read_again(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(40, 1000)).astype(np.float32)
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf_bytes({}, [RawTensor("w", 0, values.shape, values.tobytes())]))
    tensor, data = read_gguf_header(path).tensors["w"], map_file(path)
    for _ in range(2):
        assert tensor.rows_as_bytes(data).tobytes() == values.tobytes()
        release_pages(data, tensor)


def test_a_file_that_may_not_be_read_is_not_to_be_downloaded_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    file.touch()
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(BadModelFile, match="Allow reading it"):
        map_file(file)


KEY = struct.pack("<Q", 1) + b"k"


@pytest.mark.parametrize(
    ("pairs", "rest"),
    [
        (1, KEY + struct.pack("<IQ", 8, 2**38)),  # a text of 256 GB of zeros
        (1, struct.pack("<Q", 2**38)),
        (1, KEY + struct.pack("<IIQ", 9, 6, 2**37)),  # as many numbers
        (1, KEY + struct.pack("<IIQ", 9, 8, 2**22 + 1)),  # empty texts
        (1, KEY + struct.pack("<IIQ", 9, 9, 2**22 + 1)),
        (2**16 + 1, b""),
    ],
)
def test_a_file_of_zeros_without_an_end_fills_no_memory(
    tmp_path: Path, pairs: int, rest: bytes
) -> None:
    """A sparse file is as long as it says and takes no room."""
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, pairs) + rest)
    os.truncate(file, 2**40)
    with pytest.raises(BadModelFile, match="damaged at byte"):
        read_gguf_header(file)
