import json
import shutil
from pathlib import Path

import mlx.core as mx
import pytest
from model_edits import drop_tensors, edit_config, edit_tensors
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.loading.describe import inspect_model
from mlx_engine.values.errors import (
    BadModelFile,
    ModelNotFound,
    UnsafeModelFile,
    UnsupportedModel,
)
from mlx_engine.values.model_description import ModelDescription


def described(folder: Path, heads: Path | None = None) -> ModelDescription:
    return inspect_model(folder, folder, heads)


def why(folder: Path, heads: Path | None = None) -> tuple[str, str]:
    reason = described(folder, heads).mtp
    assert reason is not None
    return reason.code, reason.words


@pytest.mark.parametrize("where", ["inside", "beside", "sibling"])
@pytest.mark.parametrize("layout", ["hf", "mlx"])
def test_heads_are_found(tmp_path: Path, where: str, layout: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads=where, layout=layout)
    assert described(folder).mtp_heads == 1
    assert described(folder).mtp is None


@pytest.mark.parametrize("name", ["mtp/weights", "mtp_head/model", "heads", "drafting"])
def test_files_beside_by_any_name(tmp_path: Path, name: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="beside")
    place = folder / f"{name}.safetensors"
    place.parent.mkdir(exist_ok=True)
    (folder / "mtp.safetensors").rename(place)
    mx.save_safetensors(str(folder / "voice.safetensors"), {"audio.weight": mx.zeros((2, 2))})
    assert described(folder).mtp_heads == 1


@pytest.mark.parametrize("inner", ["", "mtp"])
def test_heads_in_shards_beside(tmp_path: Path, inner: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="beside")
    arrays = dict(mx.load(str(folder / "mtp.safetensors")))
    mx.eval(arrays)
    (folder / "mtp.safetensors").unlink()
    (folder / inner).mkdir(exist_ok=True)
    for place, names in enumerate((list(arrays)[:5], list(arrays)[5:]), 1):
        shard = {name: arrays[name] for name in names}
        mx.save_safetensors(str(folder / inner / f"mtp-0000{place}-of-00002.safetensors"), shard)
    assert described(folder).mtp_heads == 1


@pytest.mark.parametrize("place", ["m-4bit", "hub/models--us--m-4bit/snapshots/1"])
def test_heads_of_the_original_beside(tmp_path: Path, place: str) -> None:
    """A whole checkpoint of which this is a conversion; one without heads goes unmentioned."""
    source = place.replace("-4bit", "").replace("--us--", "--them--")
    original = write_tiny_qwen3_5(tmp_path / source)
    folder = tmp_path / place
    shutil.copytree(original, folder)
    edit_config(folder, mtp_num_hidden_layers=1)
    drop_tensors(folder, "mtp.")
    told = described(folder)
    assert told.mtp_heads == 1
    assert told.heads_from == str(original)
    assert described(original).heads_from == ""
    drop_tensors(original, "mtp.")
    assert why(folder)[0] == "heads-dropped"


NAMES = {
    "Q3.6-7B-Instruct-4bit": ("Q3.6-7B", False),
    "Q3.6-7B-Base": ("Q3.6-7B", False),
    "Q3.6-7B-2507-MLX-8bit": ("Q3.6-7B", False),
    "Q3.6-7B": ("Q3.6-7B-Instruct", False),
    "Q3.6-7B-4bit-DWQ": ("q3.6-7b", True),
    "Q3.6-7B-MXFP4": ("Q3.6-7B-6bit", True),
}


@pytest.mark.parametrize("name", NAMES)
def test_heads_of_the_same_model_by_its_name(tmp_path: Path, name: str) -> None:
    """Those that another training left behind would draft worse."""
    other, is_same = NAMES[name]
    write_tiny_qwen3_5(tmp_path / other)
    assert described(write_tiny_qwen3_5(tmp_path / name, heads="none")).mtp_heads == is_same


def test_a_sibling_of_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tiny_qwen3_5(tmp_path / "n", heads="sibling")
    monkeypatch.chdir(tmp_path / "n")
    assert described(Path()).mtp_heads == 1
    assert described(Path("../n")).mtp_heads == 1


def test_heads_that_an_index_lists_and_nobody_delivered(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", shards=2, heads="none")
    index = folder / "model.safetensors.index.json"
    table = json.loads(index.read_text())
    table["weight_map"]["mtp.fc.weight"] = "mtp.safetensors"
    index.write_text(json.dumps(table))
    assert why(folder)[0] == "heads-missing" and "are in mtp.safetensors" in why(folder)[1]
    table["weight_map"] |= {"model.language_model.norm.weight": "gone.safetensors"}
    index.write_text(json.dumps(table))
    assert why(folder)[0] == "heads-missing"
    drop_tensors(folder / "model-00002-of-00002.safetensors", "norm.weight")
    with pytest.raises(BadModelFile, match=r"gone\.safetensors: missing"):
        described(folder)


@pytest.mark.parametrize("where", ["inside", "beside"])
@pytest.mark.parametrize(
    "name",
    ["embed_tokens.weight", "lm_head.weight", "shared_head.head.weight", "d2t", "odd.weight"],
)
def test_heads_bring_more_than_is_known(tmp_path: Path, where: str, name: str) -> None:
    """An embedding and an output head of their own are used; with others they are not."""
    folder = write_tiny_qwen3_5(tmp_path / "m", heads=where)
    place = folder / ("model.safetensors" if where == "inside" else "mtp.safetensors")
    edit_tensors(place, lambda arrays: arrays | {f"mtp.{name}": mx.ones((300, 64))})
    mlx_engine.load(folder).close()
    if name != "odd.weight":
        assert described(folder).mtp_heads == 1
    else:
        assert why(folder)[0] == "heads-do-not-fit" and "odd.weight" in why(folder)[1]


def test_heads_are_found_without_a_promise(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    edit_config(folder, mtp_num_hidden_layers=None)
    assert described(folder).mtp_heads == 1


def test_a_broken_promise(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    code, words = why(folder)
    assert code == "heads-dropped"
    assert "has none (no mtp.* tensor" in words
    assert described(folder).mtp_heads == 0


def test_no_promise_no_heads(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    edit_config(folder, mtp_num_hidden_layers=0)
    assert why(folder)[0] == "no-heads"


@pytest.mark.parametrize("bits", [None, 4])
@pytest.mark.parametrize("part", ["fc.weight", "layers.0.self_attn.k_norm.weight"])
def test_incomplete_heads_name_what_is_missing(tmp_path: Path, bits: int, part: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="beside", bits=bits)
    drop_tensors(folder / "mtp.safetensors", f"mtp.{part}")
    code, words = why(folder)
    assert code == "heads-incomplete"
    assert part in words


@pytest.mark.parametrize("part", ["fc.scales", "layers.0.mlp.up_proj.biases"])
def test_packed_heads_need_scales_and_biases(tmp_path: Path, part: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", bits=8)
    drop_tensors(folder / "model.safetensors", f"mtp.{part}")
    assert why(folder)[0] == "heads-incomplete"
    assert part in why(folder)[1]


def test_incomplete_heads_inside_give_way_to_whole_ones_beside(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    whole = write_tiny_qwen3_5(tmp_path / "w", heads="beside")
    drop_tensors(folder / "model.safetensors", "mtp.fc")
    (whole / "mtp.safetensors").rename(folder / "mtp.safetensors")
    assert described(folder).mtp is None


@pytest.mark.parametrize("given", ["w", "w/model.safetensors", "v-MTP", "v-MTP/model.safetensors"])
def test_heads_the_user_gives(tmp_path: Path, given: str) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    write_tiny_qwen3_5(tmp_path / "w", heads="inside")
    write_tiny_qwen3_5(tmp_path / "v", heads="sibling")
    assert described(folder, tmp_path / given).mtp_heads == 1


def test_the_users_choice_is_taken_instead_of_those_inside(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="inside")
    write_tiny_qwen3_5(tmp_path / "v", heads="sibling", bits=8)
    storage = {g.name: g.storage for g in described(folder, tmp_path / "v-MTP").groups}
    assert "8-bit" in storage["MTP head"]
    assert storage["mlp"] == "float32"


def test_heads_of_another_model(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="none")
    other = write_tiny_qwen3_5(tmp_path / "m-MTP", heads="inside", hidden=128)
    code, words = why(folder)
    assert code == "heads-do-not-fit"
    assert str(other) in words
    with pytest.raises(BadModelFile, match="another model"):
        described(folder, other)


def test_heads_given_that_are_none(tmp_path: Path) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadModelFile, match="no drafting heads"):
        described(folder, tmp_path / "empty")
    (tmp_path / "mtp.bin").touch()
    with pytest.raises(UnsafeModelFile):
        described(folder, tmp_path / "mtp.bin")
    with pytest.raises(UnsupportedModel, match=r"config\.json"):
        described(folder, folder / "config.json")
    with pytest.raises(ModelNotFound, match="nowhere"):
        described(folder, tmp_path / "nowhere")


@pytest.mark.parametrize("place", ["m/mtp.safetensors", "m-MTP/model.safetensors"])
def test_damaged_heads_beside_do_not_keep_the_model_from_loading(
    tmp_path: Path, place: str
) -> None:
    folder = write_tiny_qwen3_5(tmp_path / "m", heads="sibling")
    (tmp_path / "m-MTP" / "model.safetensors").unlink()
    (tmp_path / place).write_bytes(b"half a file")
    code, words = why(folder)
    assert code == "heads-unreadable"
    assert place in words
    with pytest.raises(BadModelFile, match="damaged"):
        described(folder, tmp_path / place)
