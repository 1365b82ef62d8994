"""Files that are something else than their name says are told by what they are."""

import numpy as np
import pytest
from converted_gguf import convert
from gguf import GGUFWriter
from model_edits import edit_config
from safetensors.numpy import load_file, save_file
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 4000000000\n"
STARTS = [
    (POINTER, "a git-lfs pointer"),
    (b"\n<!DOCTYPE html><html>404</html>" * 9, "a web page"),
    (b"PK\3\4" + bytes(99), "a ZIP archive"),
    (bytes(4096), "empty where it should begin"),
    (b"tjgg" + bytes(99), "a model in llama.cpp"),
]


def refused(place, message, error=BadModelFile):
    for attempt in (mlx_engine.inspect, mlx_engine.load):
        with pytest.raises(error, match=message) as told:
            attempt(place)
        assert str(told.value).startswith(str(place))


@pytest.mark.parametrize(("start", "what"), [*STARTS, (b"GGUF\3" + bytes(99), "a GGUF by its")])
def test_in_place_of_safetensors(tmp_path, start, what):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(start)
    refused(folder, rf"model\.safetensors: damaged, it is {what}")


@pytest.mark.parametrize(("start", "what"), STARTS)
def test_in_place_of_a_gguf(tmp_path, start, what):
    file = tmp_path / "m.gguf"
    file.write_bytes(start)
    refused(file, f"no GGUF but {what}")


def test_safetensors_named_gguf(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    file = (folder / "model.safetensors").rename(tmp_path / "m.gguf")
    refused(file, "no GGUF but safetensors by its content")


@pytest.mark.parametrize(
    ("architecture", "what"),
    [
        ("clip", "the vision part of a model"),
        ("imatrix", "an importance matrix"),
        ("controlvector", "a control vector"),
        ("eagle3", r"a draft model \(eagle3\).*give this as its draft model"),
        ("gemma4-assistant", "give this as its draft model"),
        ("bert", "'bert', which writes no text"),
        ("wavtokenizer-dec", "which writes no text"),
        ("llama4", "'llama4', which this version does not run"),
    ],
)
def test_gguf_files_of_other_kinds(tmp_path, architecture, what):
    file = tmp_path / "m.gguf"
    writer = GGUFWriter(str(file), architecture)
    writer.add_tensor("v.blk.0.weight", np.ones((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    refused(file, what, UnsupportedModel)


OTHERS = {
    "model.onnx": "in the format of ONNX",
    "weights.npz": "in the format of NumPy",
    "m.gguf.part": "the download is not complete",
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_that_are_not_opened(tmp_path, name):
    """By themselves, and where a folder has nothing else."""
    file, error = tmp_path / name, BadModelFile if name.endswith("part") else UnsupportedModel
    file.write_bytes(b"\x08\x01" * 99)
    refused(file, OTHERS[name], error)
    with pytest.raises(error, match=OTHERS[name]):
        mlx_engine.load(tmp_path)


def test_an_adapter_under_a_models_name(tmp_path):
    folder = publish("llama", tmp_path / "m").folder
    save_file({"base_model.model.lora_A.weight": np.ones((2, 2))}, folder / "model.safetensors")
    refused(folder, "a LoRA adapter", UnsupportedModel)


def test_a_link_to_nothing(tmp_path):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(tmp_path / "gone")
    refused(folder, r"model\.safetensors: a broken link")


@pytest.mark.parametrize("kind", ["llama", "cohere", "glm4_moe", "qwen3"])
def test_more_layers_than_the_config_asks_for(tmp_path, kind):
    """Are not taken for heads that are not run, nor left out."""
    folder = publish(kind, tmp_path / "m").folder
    edit_config(folder, num_hidden_layers=2, layer_types=None)
    with pytest.raises(BadModelFile, match=r"no place for .*layers\.2\."):
        mlx_engine.load(folder)


def test_more_blocks_than_the_metadata_ask_for(tmp_path):
    folder = publish("llama", tmp_path / "m").folder
    file = convert(folder, tmp_path / "m.gguf", changes={"llama.block_count": 1})
    refused(file, r"no place for layers\.1\..*asks for 1 layers")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda value: value.T.copy(), r"up_proj\.weight has the shape \[64, 96\]"),
        (lambda value: value.astype(np.int32), r"up_proj\.weight holds I32"),
    ],
)
def test_weights_that_cannot_be_are_seen_before_loading(tmp_path, change, what):
    folder = write_tiny_qwen3_5(tmp_path / "m")
    file, name = folder / "model.safetensors", "model.language_model.layers.0.mlp.up_proj.weight"
    arrays = load_file(file)
    save_file(arrays | {name: change(arrays[name])}, file)
    refused(folder, what)
