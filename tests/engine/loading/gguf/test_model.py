"""GGUF models as a whole: the same numbers as the folder, heads from everywhere, clear refusals."""

import contextlib
import math
import random
import re
from pathlib import Path
from typing import Literal

import gguf
import numpy as np
import pytest
from converted_metadata import converted_metadata
from gguf_files import RawTensor, gguf_bytes
from model_edits import all_logits, logits
from tiny_gguf import write_tiny_gguf
from tiny_qwen3_5 import tiny_config, write_tiny_qwen3_5

import mlx_engine
from mlx_engine import DraftOptions, LoadOptions, SamplingOptions
from mlx_engine.loading.gguf.file import GgufFile, read_gguf
from mlx_engine.loading.gguf.header import GgufTensor, block_types
from mlx_engine.loading.gguf.model import read_gguf_model
from mlx_engine.loading.gguf.part import HfTensor, arrays_of_tensor
from mlx_engine.loading.load import load_model
from mlx_engine.values.errors import (
    BadModelFile,
    EngineError,
    HeadsOnly,
    LoadStopped,
    UnsupportedModel,
)

TOKENS = [5, 9, 200, 31, 77, 8, 150, 2, 2, 64]
BESIDE_A_FOLDER = 1e-4
"""Of logits up to 3. A GGUF's value heads are summed in another order by out_proj, and 6e-8 of its
weights alone moves them by 3e-5.
"""


def test_the_numbers_are_those_of_the_folder(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "folder", seed=3)
    file = write_tiny_gguf(tmp_path / "model.gguf", seed=3)
    found, wanted = (all_logits(path, TOKENS) for path in (file, folder))
    np.testing.assert_allclose(found, wanted, atol=BESIDE_A_FOLDER)


def test_packed_rows_are_put_in_order_too(tmp_path: Path) -> None:
    packed = write_tiny_gguf(tmp_path / "packed.gguf", form="packed")
    plain = write_tiny_gguf(tmp_path / "plain.gguf", form="as packed")
    # a CPU sums products of packed rows in another order (test_cpu_layout.py: against float64)
    found, wanted = (all_logits(path, TOKENS) for path in (packed, plain))
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_a_conversation_works(tmp_path: Path) -> None:
    engine = mlx_engine.load(write_tiny_gguf(tmp_path / "model.gguf"))
    session = engine.session(sampling=SamplingOptions(temperature=0), draft=DraftOptions(depth=2))
    assert list(session.send("The dog"))
    assert session.stats.drafted > 0
    engine.close()


def test_heads_beside_and_given(tmp_path: Path) -> None:
    whole = write_tiny_gguf(tmp_path / "whole.gguf")
    wanted = all_logits(whole, TOKENS)
    other = tmp_path / "other"
    other.mkdir()
    trunk = write_tiny_gguf(other / "model.gguf", heads="none")
    described = mlx_engine.inspect(trunk)
    assert (described.mtp_heads, described.mtp and described.mtp.code) == (0, "heads-dropped")
    folder = write_tiny_qwen3_5(tmp_path / "folder")
    for heads in (whole, folder):
        np.testing.assert_allclose(all_logits(trunk, TOKENS, heads), wanted, atol=1e-5)
    bare = write_tiny_qwen3_5(tmp_path / "bare", heads="none")
    np.testing.assert_allclose(all_logits(bare, TOKENS, whole), wanted, atol=BESIDE_A_FOLDER)
    write_tiny_gguf(other / "mtp-model.gguf", heads="only")
    assert mlx_engine.inspect(trunk).mtp_heads == 1
    np.testing.assert_allclose(all_logits(trunk, TOKENS), wanted, atol=1e-5)


def with_tensors(file: Path, *more: RawTensor, without: str = "") -> Path:
    """The same file with these tensors too."""
    raw = [
        RawTensor(t.name, int(t.tensor_type), tuple(map(int, t.shape[::-1])), t.data.tobytes())
        for t in gguf.GGUFReader(file).tensors
        if t.name != without
    ]
    content = gguf_bytes(dict(read_gguf(file).metadata), [*raw, *more])
    file.write_bytes(content)
    return file


def zeros(name: str, *shape: int, kind: int = 0) -> RawTensor:
    """Of F32, or of I64."""
    return RawTensor(name, kind, shape, bytes((8 if kind else 4) * math.prod(shape)))


def test_a_matrix_may_have_a_scale_of_its_own(tmp_path: Path) -> None:
    """As llama.cpp writes NVFP4: `.scale` is a factor of `.weight`, `.input_scale` is not used."""
    file = write_tiny_gguf(tmp_path / "m.gguf")
    wanted = all_logits(file, TOKENS)
    up = next(t for t in gguf.GGUFReader(file).tensors if t.name == "blk.0.ffn_up.weight")
    halved = RawTensor(up.name, 0, tuple(map(int, up.shape[::-1])), (up.data / 2).tobytes())
    two, unused = (
        RawTensor(f"blk.0.ffn_up.{kind}", 0, (1,), np.float32(number).tobytes())
        for kind, number in (("scale", 2), ("input_scale", 9))
    )
    with_tensors(file, halved, two, unused, without=up.name)
    np.testing.assert_array_equal(all_logits(file, TOKENS), wanted)


def test_a_sidecar_may_share_the_embedding_of_the_model(tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "m.gguf", heads="none")
    beside = write_tiny_gguf(tmp_path / "mtp-m.gguf", heads="only")
    wanted = all_logits(model, TOKENS)
    with_tensors(beside, zeros("blk.4.nextn.shared_head_head.weight", 100, 64), zeros("d2t", 100,
                 kind=27), without="token_embd.weight")  # fmt: skip
    np.testing.assert_array_equal(all_logits(model, TOKENS), wanted)
    (remark,) = [r for r in mlx_engine.inspect(model).declined if "trimmed" in r.code]
    assert "mtp-m.gguf have an output matrix for fewer tokens" in remark.words


def test_tensors_for_other_senses_are_left_out(tmp_path: Path) -> None:
    """As Ollama puts them into the file of the text model, in any form."""
    file = write_tiny_gguf(tmp_path / "m.gguf")
    wanted, names = all_logits(file, TOKENS), ("v.blk.0.attn_q.weight", "mm.0.weight", "a.conv")
    with_tensors(file, *(zeros(name, 2, 3, 5, 7) for name in names), zeros("v.ids", 3, kind=27))
    np.testing.assert_array_equal(all_logits(file, TOKENS), wanted)
    skipped = [group for group in mlx_engine.inspect(file).groups if group.why_not]
    assert [group.tensors for group in skipped] == [3, 1]


@pytest.mark.parametrize(
    ("name", "shape", "heads"),
    [
        ("embed_tokens", (300, 64), 1),
        ("shared_head_head", (300, 64), 1),
        ("shared_head_head", (100, 64), 1),
        ("embed_tokens", (100, 64), 0),
        ("mystery", (64,), 0),
    ],
)
def test_heads_of_their_own_kind(
    tmp_path: Path, name: str, shape: tuple[int, ...], heads: int
) -> None:
    """The model loads in any case; its heads are used with what fits, or a reason is told."""
    file = write_tiny_gguf(tmp_path / "m.gguf")
    with_tensors(file, zeros(f"blk.4.nextn.{name}.weight", *shape))
    with mlx_engine.load(file) as engine:
        told = engine.description
        assert (told.mtp_heads, told.mtp is None) == (heads, heads == 1)
        assert engine.generate([1, 2, 3], max_tokens=2, ignore_eos=True).tokens


def test_stale_claims_of_heads(tmp_path: Path) -> None:
    metadata = {"qwen35.block_count": 4, "qwen35.nextn_predict_layers": 1}
    trunk = write_tiny_gguf(tmp_path / "m.gguf", heads="none", changes=metadata)
    described = mlx_engine.inspect(trunk)
    assert (described.layers, described.mtp_heads) == (4, 0)
    none = write_tiny_gguf(tmp_path / "n.gguf", heads="none", claimed_heads=0)
    reason = mlx_engine.inspect(none).mtp
    assert reason is not None
    assert reason.code == "no-heads"


def test_heads_that_are_not_whole(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", without="blk.4.attn_q.weight")
    reason = mlx_engine.inspect(file).mtp
    assert reason is not None
    assert reason.code == "heads-incomplete"
    assert logits(file, TOKENS).shape == (len(TOKENS), 300)


def test_inspect_tells_types_and_bytes(tmp_path: Path) -> None:
    described = mlx_engine.inspect(write_tiny_gguf(tmp_path / "m.gguf", form="packed"))
    embedding = next(group for group in described.groups if group.name == "embedding")
    assert embedding.storage == "Q8_0 as 8-bit affine, groups of 32"
    assert embedding.file_nbytes == 300 * 2 * 34
    assert embedding.nbytes == 300 * (64 + 2 * 4)
    assert (described.name, described.architecture) == ("m", "qwen35")
    assert described.context_length == 512
    assert described.declined == ()


@pytest.mark.parametrize(
    ("changes", "without", "kind", "message"),
    [
        ({"general.architecture": "mamba"}, "", UnsupportedModel, "'mamba', which this version"),
        ({"general.architecture": "clip"}, "", UnsupportedModel, "vision part"),
        ({"general.type": "adapter"}, "", UnsupportedModel, "a LoRA adapter and no model"),
        ({"general.architecture": 5}, "", BadModelFile, r"general\.architecture is 5"),
        ({"qwen35.ssm.group_count": 0}, "", BadModelFile, "4 value heads for 0 key heads"),
        ({"qwen35.ssm.inner_size": 2**31 - 4}, "", BadModelFile, "in a width of 2147483644"),
        ({"qwen35.embedding_length": "x"}, "", BadModelFile, "embedding_length is 'x'"),
        ({"qwen35.embedding_length": 32}, "", BadModelFile, r"token_embd\.weight has the shape"),
        ({"qwen35.attention.head_count": 0}, "", BadModelFile, "no heads in block 0 .*head_count"),
        ({"qwen35.rope.scaling.type": "yarn"}, "", UnsupportedModel, "rope scaling 'yarn'"),
        (
            {"qwen35.rope.dimension_count": 34},
            "",
            BadModelFile,
            "34 rotated elements in heads of 32",
        ),
        ({"qwen35.rope.dimension_count": 7}, "", BadModelFile, "7 rotated"),
        ({"qwen35.ssm.state_size": 8}, "", EngineError, "attn_qkv.*shape|order cannot"),
        ({}, "token_embd.weight", BadModelFile, r"token_embd\.weight is missing"),
        ({}, "blk.1.ffn_up.weight", BadModelFile, r"layers\.1\.mlp\.up_proj"),
        ({"tokenizer.ggml.pre": "new"}, "", EngineError, "pre-tokenizer 'new'"),
    ],
)
def test_what_cannot_run_is_named(
    tmp_path: Path, changes: dict[str, object], without: str, kind: type, message: str
) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", changes=changes, without=without)
    with pytest.raises(kind, match=message) as caught:
        mlx_engine.load(file)
    assert str(file) in str(caught.value)


WILD = [2**31 - 1, np.uint64(2**63), 0, np.zeros(0, np.uint32), np.array([2.0] * 4, np.float32)]


@pytest.mark.parametrize("heads", ["inside", "only"])
@pytest.mark.parametrize(
    "key",
    ["block_count", "attention.head_count", "attention.head_count_kv", "attention.key_length",
     "attention.value_length", "ssm.inner_size", "ssm.time_step_rank", "ssm.group_count"],
)  # fmt: skip
def test_wild_numbers_are_bounded_before_anything_is_listed(
    tmp_path: Path, key: str, heads: Literal["inside", "only"]
) -> None:
    """Also where heads in a file of their own tell of no block that could contradict them."""
    for number, value in enumerate(WILD):
        file = tmp_path / f"{number}.gguf"
        write_tiny_gguf(file, heads=heads, changes={f"qwen35.{key}": value})
        with contextlib.suppress(EngineError):
            told = mlx_engine.inspect(file)
            assert (told.layers, told.vocabulary) == (4, 300)


def test_many_tensors_are_read_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes through all of them is asked a few times, however many there are."""
    file, asked, half = write_tiny_gguf(tmp_path / "m.gguf"), list[None](), GgufFile.half_type.fget
    with_tensors(file, *(zeros(f"blk.1.odd{number}.weight", 1) for number in range(300)))
    monkeypatch.setattr(
        GgufFile, "half_type", property(lambda file: asked.append(None) or half(file))
    )
    assert len(read_gguf_model(file).tensors) > 300
    assert len(asked) < 5


def test_a_packed_vector_is_refused(tmp_path: Path) -> None:
    stored = GgufTensor("blk.0.attn_norm.weight", block_types()[8], (64,), 68, tmp_path, 0)
    with pytest.raises(UnsupportedModel, match=r"attn_norm\.weight .*no matrix"):
        list(arrays_of_tensor(stored, HfTensor("layers.0.input_layernorm.weight"), None, "BF16"))


def test_one_tensor_under_two_names_is_refused(tmp_path: Path) -> None:
    vector = np.zeros(64, np.float32).tobytes()
    names = ("token_embd.weight", "blk.0.ffn_norm.weight", "blk.0.post_attention_norm.weight")
    metadata = converted_metadata("qwen35", tiny_config(layers=1)["text_config"], 1)
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf_bytes(metadata, [RawTensor(name, 0, (64,), vector) for name in names]))
    with pytest.raises(BadModelFile, match=r"m\.gguf: .*ffn_norm\.weight are the same tensor"):
        read_gguf_model(file)


def test_mutated_metadata_never_crash(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    sound, draw = file.read_bytes(), random.Random(1)
    places = [match.start() for match in re.finditer(rb"qwen35\.", sound)]
    for _ in range(150):
        changed = bytearray(sound)
        start = draw.choice(places) + draw.randrange(60)
        number = draw.choice([0, 1, 3, 7, 34, 2**15, 2**31, 2**32 - 1])
        changed[start : start + 4] = number.to_bytes(4, "little")
        file.write_bytes(changed)
        with contextlib.suppress(EngineError):
            mlx_engine.inspect(file)


def test_heads_alone_are_no_model(tmp_path: Path) -> None:
    with pytest.raises(HeadsOnly, match="drafting heads only"):
        mlx_engine.load(write_tiny_gguf(tmp_path / "mtp-m.gguf", heads="only"))


def test_values_that_are_not_numbers(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    content = bytearray(file.read_bytes())
    content[-40 * 34 :: 34] = b"\xff" * len(content[-40 * 34 :: 34])
    content[-40 * 34 + 1 :: 34] = b"\xff" * len(content[-40 * 34 + 1 :: 34])
    file.write_bytes(bytes(content))
    with pytest.raises(BadModelFile, match="not numbers"):
        mlx_engine.load(file)


def test_progress_and_stopping(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "m.gguf", form="packed")
    seen: list[tuple[int, int]] = []
    mlx_engine.load(file, on_progress=lambda done, total: seen.append((done, total))).close()
    assert seen[0][0] == 0
    assert seen[-1][0] == seen[-1][1] > 0
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    with pytest.raises(LoadStopped):
        load_model(file, LoadOptions(), tmp_path, stop=lambda: True)
