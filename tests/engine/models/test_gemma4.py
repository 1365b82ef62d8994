"""Gemma 4 in every form its files have, against transformers and, packed, against mlx-lm."""

import itertools
import json
import shutil
from functools import cache
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from dialled_draft import DialledDraft
from mlx_lm.utils import load_model as open_in_mlx_lm
from mlx_lm.utils import quantize_model, save_model
from model_edits import edit_config, edit_tensors, logits
from plain_run import run
from tiny_published import VOCABULARY, WINDOW, publish, sizes_of

import mlx_engine
from mlx_engine import BadModelFile, UnsupportedModel
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.models.decoder import Decoder

SLIDING, FULL = "sliding_attention", "full_attention"
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}
KEYS_AS_VALUES = {"attention_k_eq_v": True, "num_global_key_value_heads": 1}
ALONE = {"hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}
EXPERTS = {
    "enable_moe_block": True,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 32,
}
CASES = {
    "small": {"use_double_wide_mlp": True, "hidden_size_per_layer_input": 32},
    "large": ALONE | KEYS_AS_VALUES,
    "with experts": ALONE | KEYS_AS_VALUES | EXPERTS,
    "with everything": EXPERTS | {"top_k_experts": 1, "attention_k_eq_v": True},
    "with odd options": {
        "attention_bias": True,
        "hidden_activation": "silu",
        "rms_norm_eps": 0.1,
        "num_key_value_heads": 1,
        "rope_parameters": {FULL: YARN, SLIDING: LINEAR},
        "layer_types": [FULL, SLIDING] * 3,
    },
    "of few words": {
        "layer_types": None,
        "num_hidden_layers": 11,  # so that keys of per_layer_config have two digits
        "num_kv_shared_layers": 0,
        "final_logit_softcapping": None,
        "rope_parameters": None,
    },
}
EDITS = {"with odd options": {"layer_types": [FULL, SLIDING] * 3}}
"""Of config.json: transformers has made the last layer a full one, and does so again."""

CONVERTED = ("small", "large", "with experts")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each case once, opened on first need: the folder and its engine."""

    @cache
    def get(name):
        folder = tmp_path_factory.mktemp("tiny") / "m"
        tiny = publish("gemma4_text", folder, changes=CASES[name], edits=EDITS.get(name))
        return tiny, mlx_engine.load(tiny.folder)

    return get


def sizes_told_once(folder: Path) -> None:
    """As configs had the sizes of full layers before transformers 5.23, which mlx-lm reads."""
    config = json.loads((folder / "config.json").read_text())
    full = next(iter(config["per_layer_config"].values()))
    heads = full.get("num_key_value_heads")
    edit_config(
        folder,
        per_layer_config=None,
        global_head_dim=full["head_dim"],
        num_global_key_value_heads=heads,
    )


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(made, name):
    """And are the same bits row by row, also behind the windows."""
    tiny, engine = made(name)
    found, model = engine.logits(tiny.tokens), engine.parts.model
    assert relative(found, tiny.logits) < 1e-5
    assert isinstance(model, Decoder)
    caches, rows = model.make_caches(), []
    for token in tiny.tokens:
        rows.append(np.array(model.logits(model.forward(mx.array([[token]]), caches))[0]))
        caches.commit(1)
    assert np.array_equal(np.concatenate(rows), found)
    assert engine.description.numerics == "exact"


@pytest.mark.parametrize("name", CASES)
def test_description_counts_what_is_really_held(made, name):
    tiny, engine = made(name)
    told, model = engine.description, engine.parts.model
    caches = model.make_caches()
    model.forward(mx.array([tiny.tokens[:1]]), caches)
    values = sum(array.nbytes // array.shape[2] for array in caches.arrays())
    assert told.cache_bytes_per_token + told.state_bytes // WINDOW == values
    stored = mx.load(str(tiny.folder / "model.safetensors"))
    assert told.parameters == sum(array.size for array in stored.values())


PREFIXES = {
    "published": ("model.language_model.", "model."),
    "mlx": ("language_model.model.", "model."),
}


@pytest.mark.parametrize(
    ("form", "kind"),
    [("published", "gemma4"), ("mlx", "gemma4"), ("published", "gemma4_unified")],
)
def test_the_text_part_of_a_whole(tmp_path, made, form, kind):
    """With keys of layers that read those of others, which published files have."""
    tiny, _ = made("small")
    folder = shutil.copytree(tiny.folder, tmp_path / "m")
    sizes_told_once(folder)
    text = json.loads((folder / "config.json").read_text()) | {"model_type": f"{kind}_text"}
    outer = {"model_type": kind, "text_config": text, "vision_config": {}, "audio_config": {}}
    (folder / "config.json").write_text(json.dumps(outer))
    after, before = PREFIXES[form]
    first, last = (f"{after}layers.{number}.self_attn." for number in (0, 4))
    names = ("k_proj.weight", "v_proj.weight", "k_norm.weight")

    def wrapped(arrays):
        arrays = {after + name.removeprefix(before): array for name, array in arrays.items()}
        arrays |= {last + name: arrays[first + name] for name in names}
        parts = ("vision_tower", "audio_tower", "embed_vision", "embed_audio", "vision_embedder")
        arrays |= {f"model.{part}.x.weight": mx.zeros((2, 2)) for part in parts}
        return arrays | {f"{first}q_proj.input_max": mx.array(3.0)}

    edit_tensors(folder, wrapped)
    assert relative(logits(folder, tiny.tokens), tiny.logits) < 1e-5
    told = mlx_engine.inspect(folder).groups
    skipped = {group.why_not: group.tensors for group in told if group.why_not}
    assert skipped == {
        "for pictures, which are not read": 1,  # the other kind's
        "for pictures, read with the first one": 2,
        "for sound, which is not read": 2,
        "keys of layers that read those of earlier ones": 3,
        "limits of rounding that is not done": 1,
    }


@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize("name", CONVERTED)
def test_folders_of_mlx_lm(made, tmp_path, name, bits):
    """Its names and stacks, dense and packed; packed ones against its own logits."""
    tiny, dense = made(name)
    folder = shutil.copytree(tiny.folder, tmp_path / "converted")
    sizes_told_once(folder)
    model, config = open_in_mlx_lm(folder)
    if bits is not None:
        model, config = quantize_model(model, config, 32, bits)
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    engine, tokens = mlx_engine.load(folder), tiny.tokens[:WINDOW]
    wanted = np.array(model(mx.array([tokens]))[0])
    assert relative(engine.logits(tokens), wanted) < 1e-5
    assert engine.description.parameters == dense.description.parameters
    engine.close()


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("name", ["small", "with experts"])
def test_drafts_keep_the_words(made, name, depth):
    """Every number of accepted tokens occurs, before and after the windows have filled."""
    tiny, engine = made(name)
    model, prompt = engine.parts.model, tiny.tokens[:9]
    truth = run(model, prompt, NoDraft(), 0, max_tokens=3 * WINDOW).tokens
    source = DialledDraft([*prompt, *truth], itertools.cycle(range(depth + 1)), VOCABULARY)
    ran = run(model, prompt, source, depth, max_tokens=3 * WINDOW)
    assert ran.tokens == truth
    assert 0 < ran.stats.accepted < ran.stats.drafted


BAD = {
    "num_kv_shared_layers": (5, BadModelFile, "leaves a layer of each kind its own keys"),
    "use_bidirectional_attention": ("all", UnsupportedModel, "use_bidirectional_attention"),
    "vocab_size_per_layer_input": (20, BadModelFile, "at least vocab_size"),
    "rope_parameters": ({FULL: YARN}, BadModelFile, "an object for each kind of layer"),
    "per_layer_config": (7, BadModelFile, "per_layer_config=7, where an object"),
}


@pytest.mark.parametrize("key", BAD)
def test_what_does_not_go_together_is_told(made, tmp_path, key):
    value, error, words = BAD[key]
    folder = shutil.copytree(made("small")[0].folder, tmp_path / "m")
    edit_config(folder, **{key: value})
    with pytest.raises(error, match=words):
        mlx_engine.load(folder)


def test_a_window_as_long_as_the_context(tmp_path):
    """Both kinds of layers then see all, and shared layers still read those of their own kind."""
    same = {"global_head_dim": sizes_of("gemma4_text")["head_dim"], "sliding_window": 512}
    tiny = publish("gemma4_text", tmp_path / "m", changes=same)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5
