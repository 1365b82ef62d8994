"""Folders as other tools leave them: leftover indexes, tensors that no text needs."""

import json
import os
import shutil

import mlx.core as mx
import numpy as np
import pytest
from model_edits import drop_tensors, edit_tensors, logits
from tiny_published import publish
from tiny_qwen3_5 import write_tiny_qwen3_5

import mlx_engine
from mlx_engine.values.errors import BadModelFile, EngineError, UnsupportedModel

Q = "model.layers.0.self_attn.q_proj.weight"
INDEX = "model.safetensors.index.json"
ATTENTION = "model.layers.1.self_attn."


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A tiny Llama, and its logits here."""
    published = publish("llama", tmp_path_factory.mktemp("tiny") / "llama")
    return published, logits(published.folder, published.tokens)


@pytest.fixture
def folder(sound, tmp_path):
    return shutil.copytree(sound[0].folder, tmp_path / "m")


def write_index(folder, **files):
    """A tensor -> the file that the index says it lies in."""
    table = {name.replace("__", "."): file for name, file in files.items()}
    (folder / INDEX).write_text(json.dumps({"weight_map": table}))


def test_a_leftover_index_changes_nothing(sound, folder):
    write_index(folder, model__norm__weight="model-00001-of-00002.safetensors")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    assert np.array_equal(logits(folder, sound[0].tokens), sound[1])


@pytest.mark.parametrize("how", ["index", "numbers"])
def test_a_shard_that_is_missing_is_named_where_a_tensor_is(folder, how):
    drop_tensors(folder, Q)
    missing = "model-00002-of-00002.safetensors"
    if how == "index":
        write_index(folder, **{Q.replace(".", "__"): missing})
    else:
        (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    with pytest.raises(BadModelFile, match=f"{missing}: missing, though model"):
        mlx_engine.inspect(folder)


NAMES = [
    *(f"{ATTENTION}{name}_scale" for name in ("k", "v", "kv", "attn.k", "k_proj.k", "prob_output")),
    f"{ATTENTION}v_zero_point",
    f"{ATTENTION}rotary_emb.inv_freq",
    "model.rotary_emb.original_inv_freq",
    f"{ATTENTION}rotary_emb.cos_cached",
    "d2t",
    "vision_tower.blocks.0.proj.weight",
    "model.vision_model.encoder.layers.0.mlp.fc1.weight",
    "language_model.model.visual.blocks.0.attn.proj.weight",
    "model.language_model.multi_modal_projector.norm.weight",
    "thinker.audio_tower.layers.0.fc1.weight",
    "mm.0.weight",
    "v.blk.0.attn_q.weight",
]


def test_tensors_that_no_text_needs_are_left_out_with_a_reason(sound, folder):
    edit_tensors(folder, lambda arrays: arrays | {name: mx.ones((4, 4)) for name in NAMES})
    assert np.array_equal(logits(folder, sound[0].tokens), sound[1])
    skipped = [group for group in mlx_engine.inspect(folder).groups if group.why_not]
    assert sum(group.tensors for group in skipped) == len(NAMES) and len(skipped) == 5


@pytest.mark.parametrize(
    "name",
    [f"{ATTENTION}q_norm.weight", f"{ATTENTION}sinks", "model.layers.0.vision_gate.weight",
     "model.layers.0.mlp.gate_scale", "model.visible.weight"],
)  # fmt: skip
def test_others_are_refused_by_name(folder, name):
    edit_tensors(folder, lambda arrays: arrays | {name: mx.ones((16,))})
    with pytest.raises(BadModelFile, match=f"no place for .*{name.split('.')[-2][-7:]}"):
        mlx_engine.load(folder)


MLX, OTHER = {"group_size": 32, "bits": 4}, {"quant_method": "gptq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    "keys",
    [
        {"quantization": MLX, "quantization_config": MLX},
        {"quantization": None, "quantization_config": MLX},
        {"quantization": MLX, "quantization_config": OTHER},
        {"quantization": {}, "quantization_config": {"quant_method": "fp8", "group_size": 64}},
        {"quantization": {"group_size": 64, "bits": 8}, "quantization_config": MLX},
    ],
)
def test_a_packed_model_is_what_its_tensors_are(sound, tmp_path, keys):
    """Whatever its config says of the packing, or kept of the original's."""
    folder = write_tiny_qwen3_5(tmp_path / "m", bits=4)
    wanted = logits(folder, sound[0].tokens)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | keys))
    assert np.array_equal(logits(folder, sound[0].tokens), wanted)


def test_weights_that_others_packed_are_refused_by_their_method(folder):
    config = json.loads((folder / "config.json").read_text())
    for key in ("quantization_config", "compression_config"):
        (folder / "config.json").write_text(json.dumps(config | {key: OTHER}))
        with pytest.raises(UnsupportedModel, match="packed by 'gptq'"):
            mlx_engine.inspect(folder)


def test_strange_files_beside_a_model_are_not_waited_for(sound, folder):
    """Pipes and loops where files are looked at by chance; a header of gigabytes of zeros."""
    for name in ("x.safetensors", "mtp.safetensors", "mtp-m.gguf"):
        os.mkfifo(folder / name)
    (folder / "loop.safetensors").symlink_to("loop.safetensors")
    huge = folder / "huge.safetensors"
    huge.write_bytes((10**8).to_bytes(8, "little"))
    os.truncate(huge, 2**40)
    assert np.array_equal(logits(folder, sound[0].tokens), sound[1])


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", INDEX])
def test_a_pipe_in_the_place_of_a_file_is_refused_by_name(folder, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    if name == INDEX:
        drop_tensors(folder, Q)
    with pytest.raises(EngineError, match=f"{name}: a folder, a pipe or a device"):
        mlx_engine.load(folder)


def test_classes_of_mlx_lm_get_no_such_tensors_either(tmp_path):
    tiny = publish("mamba2", tmp_path / "m")
    wanted = logits(tiny.folder, tiny.tokens)
    edit_tensors(tiny.folder, lambda arrays: arrays | {name: mx.ones((4, 4)) for name in NAMES})
    assert np.array_equal(logits(tiny.folder, tiny.tokens), wanted)
