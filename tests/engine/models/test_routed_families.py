"""GLM-4.7-Flash, DeepSeek-V3, MiMo-V2: latents, groups of experts, windows, joined projections."""

import json

import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from mlx_lm.utils import load_model, quantize_model, save_model
from model_edits import edit_config, edit_tensors, logits
from tiny_published import WINDOW, publish, published_logits

import mlx_engine
from mlx_engine.models.tensor_recipes import fused_rows


def test_packed_files_equal_mlx_lm(tmp_path):
    """Stacked experts and the halves of kv_b_proj, as mlx-lm converts them."""
    tiny = publish("deepseek_v3", tmp_path / "m")
    edit_config(tiny.folder, rope_theta=10000.0, rope_parameters=None)
    model, config = quantize_model(*load_model(tiny.folder), 32, 8)
    (tiny.folder / "model.safetensors").unlink()
    save_model(tiny.folder, model)
    (tiny.folder / "config.json").write_text(json.dumps(config))
    wanted = np.array(model(mx.array([tiny.tokens]))[0])
    assert relative(logits(tiny.folder, tiny.tokens), wanted) < 1e-5


@pytest.mark.parametrize("name", ["glm4_moe_lite", "deepseek_v3"])
def test_norms_of_latents_have_an_eps_of_their_own(tmp_path, name):
    """Latents so small that 1e-5 in the place of 1e-6 halves them."""
    tiny = publish(name, tmp_path / "m", changes={"rms_norm_eps": 1e-5})

    def with_small_latents(arrays):
        small = ("q_a_proj.weight", "kv_a_proj_with_mqa.weight")
        return {n: a * 3e-3 if n.endswith(small) else a for n, a in arrays.items()}

    edit_tensors(tiny.folder, with_small_latents)
    wanted = published_logits(tiny.folder, tiny.tokens)
    assert relative(wanted, tiny.logits) > 1e-2
    assert relative(logits(tiny.folder, tiny.tokens), wanted) < 1e-4


def test_experts_of_groups_left_out_are_never_chosen(tmp_path):
    """Corrected scores below zero, where a mask of zeros would let them in."""
    tiny = publish("deepseek_v3", tmp_path / "m")
    end = "e_score_correction_bias"
    edit_tensors(tiny.folder, lambda a: {n: v - 3 if n.endswith(end) else v for n, v in a.items()})
    wanted = published_logits(tiny.folder, tiny.tokens)
    assert relative(logits(tiny.folder, tiny.tokens), wanted) < 1e-4


def test_the_window_of_mimo_counts_as_transformers_does(tmp_path):
    """`sliding_window_size` leaves the row itself out."""
    tiny = publish("mimo_v2_flash", tmp_path / "m")
    edit_config(tiny.folder, sliding_window=None, sliding_window_size=WINDOW)
    wider = published_logits(tiny.folder, tiny.tokens)
    assert relative(wider, tiny.logits) > 1e-2
    assert relative(logits(tiny.folder, tiny.tokens), wider) < 1e-4


def in_blocks(arrays, blocks):
    """Projections as MiMo-V2.5 publishes them: blocks of queries, keys and values."""
    made = dict(arrays)
    for name in arrays:
        if name.endswith(".q_proj.weight"):
            base = name.removesuffix("q_proj.weight")
            parts = [mx.split(made.pop(f"{base}{part}_proj.weight"), blocks) for part in "qkv"]
            joined = [mx.concatenate(shares) for shares in zip(*parts, strict=True)]
            made[f"{base}qkv_proj.weight"] = mx.concatenate(joined)
    return made


def test_projections_joined_in_blocks(tmp_path):
    tiny = publish("mimo_v2_flash", tmp_path / "m")
    edit_tensors(tiny.folder, lambda arrays: in_blocks(arrays, 2))
    edit_config(tiny.folder, attention_projection_layout="fused_qkv")
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-4


@pytest.mark.parametrize("name", ["num_attention_heads", "swa_v_head_dim"])
def test_a_wild_size_is_refused_before_rows_are_listed(tmp_path, name):
    tiny = publish("mimo_v2_flash", tmp_path / "m")
    edit_tensors(tiny.folder, lambda arrays: in_blocks(arrays, 2))
    edit_config(tiny.folder, attention_projection_layout="fused_qkv", **{name: 2**30})
    with pytest.raises(mlx_engine.EngineError, match=name):
        mlx_engine.inspect(tiny.folder)


def test_rows_of_joined_projections():
    """Two blocks of 2 x 3 rows of queries, 1 x 3 of keys and 1 x 2 of values."""
    rows = fused_rows([("q", 6), ("k", 3), ("v", 2)], 2)
    assert rows["q"] == (*range(6), *range(11, 17))
    assert rows["k"] == (6, 7, 8, 17, 18, 19)
    assert rows["v"] == (9, 10, 20, 21)
