"""GGUFs of models whose layers differ from one another: the numbers of the folders they are of."""

import re

import gguf
import pytest
from compared import relative
from converted_gguf import Storage, convert
from model_edits import edit_config, edit_tensors, logits
from tiny_published import publish, sizes_of

import mlx_engine
from mlx_engine.loading.gguf.llama import GRANITE_KEYS

DENSE = {"num_local_experts": 0}
EXPERTS = {
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
    "attention_k_eq_v": True,
    "num_global_key_value_heads": 1,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
    "use_double_wide_mlp": False,
}
PACKED = re.compile(
    r"(ffn_(up|down|gate)(_\w*exps?)?|attn_[qv]|ssm_out|token_embd|output|altup_proj)\.weight"
)
KINDS = {
    "lfm2": ("lfm2", {}),
    "lfm2_moe": ("lfm2_moe", {}),
    "gemma4": ("gemma4_text", {}),
    "gemma4, experts": ("gemma4_text", EXPERTS),
    "granite 4": ("granitemoehybrid", {}),
    "granite 4, no experts": ("granitemoehybrid", DENSE),
    "nemotron_h": ("nemotron_h", {}),
    "falcon_h1": ("falcon_h1", {}),
}
BY_FILE_ALONE = ("granitemoe", "kimi_linear", "hunyuan_v1_moe", "gemma3n_text")

LONG = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0 + 0.1 * step for step in range(8)],
    "long_factor": [1.5 + 0.5 * step for step in range(8)],
    "original_max_position_embeddings": 512,
}


@pytest.mark.parametrize("rope", [{"rope_type": "default", "rope_theta": 1e4}, LONG])
def test_minicpm(tmp_path, rope):
    """Which is Granite with other factors; older files leave them out, folders tell them
    otherwise.
    """
    factors = {
        "attention_multiplier": 0.25,
        "embedding_multiplier": 12.0,
        "logits_scaling": 0.25,
        "residual_multiplier": 1.4 / 3**0.5,
    }
    tiny = publish("granite", tmp_path / "m", changes=factors | {"rope_parameters": rope})
    left_out = {f"minicpm.{key}": None for key in GRANITE_KEYS}
    for changes in ({}, left_out):
        file = convert(tiny.folder, tmp_path / "m.gguf", architecture="minicpm", changes=changes)
        assert relative(logits(file, tiny.tokens), tiny.logits) < 1e-4
    own = {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "model_type": "minicpm"}
    edit_config(tiny.folder, **own, **dict.fromkeys(factors))
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-4


def with_unused_keys(arrays):
    """Published files have them in layers that read other layers' keys; transformers does not."""
    first = ".layers.0.self_attn."
    names = [name for name in arrays if first in name and re.search(r"\.[kv]_(proj|norm)", name)]
    return arrays | {name.replace(first, ".layers.4.self_attn."): arrays[name] for name in names}


@pytest.mark.parametrize("kind", BY_FILE_ALONE)
def test_logits_of_the_file(tmp_path, kind):
    """Plain and packed, of families whose folders are not looked at here."""
    tiny = publish(kind, tmp_path / "m")
    if kind == "gemma3n_text":
        edit_tensors(tiny.folder, with_unused_keys)
    file = convert(tiny.folder, tmp_path / "m.gguf")
    assert relative(logits(file, tiny.tokens), tiny.logits) < 1e-4
    told = mlx_engine.inspect(file)
    assert (told.context_length, told.vocabulary) == (512, 300)
    packed = Storage(lambda one: gguf.GGMLQuantizationType.Q8_0 if PACKED.search(one) else None)
    small = convert(tiny.folder, tmp_path / "p.gguf", storage=packed)
    same = convert(tiny.folder, tmp_path / "u.gguf", storage=packed._replace(unpacked=True))
    assert relative(logits(small, tiny.tokens), logits(same, tiny.tokens)) < 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_logits(tmp_path, kind):
    """Of the folder and of its GGUF, plain and packed."""
    name, changes = KINDS[kind]
    tiny = publish(name, tmp_path / "m", changes=changes)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-4
    folder = mlx_engine.inspect(tiny.folder)
    for key in ("layers_block_type", "layer_types"):
        if key in sizes_of(name) and "mamba" in sizes_of(name)[key]:
            edit_config(tiny.folder, **{key: sizes_of(name)[key]})
    file = convert(tiny.folder, tmp_path / "m.gguf")
    assert relative(logits(file, tiny.tokens), tiny.logits) < 1e-4
    told = mlx_engine.inspect(file)
    assert told.parameters == folder.parameters
    assert told.context_length == folder.context_length
    packed = Storage(lambda one: gguf.GGMLQuantizationType.Q8_0 if PACKED.search(one) else None)
    small = convert(tiny.folder, tmp_path / "p.gguf", storage=packed)
    same = convert(tiny.folder, tmp_path / "u.gguf", storage=packed._replace(unpacked=True))
    assert relative(logits(small, tiny.tokens), logits(same, tiny.tokens)) < 1e-4
