"""Models that run through mlx-lm's classes have the logits that transformers has."""

import itertools
import json
import shutil
from importlib import import_module

import mlx.core as mx
import numpy as np
import pytest
import transformers as hf
from compared import relative
from dialled_draft import DialledDraft
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import dequantize_model, quantize_model, save_model
from mlx_lm.utils import load_model as open_in_mlx_lm
from model_edits import edit_config, edit_tensors, logits
from plain_run import run
from tiny_published import VOCABULARY, WINDOW, publish, published_logits
from tiny_tokenizer import make_tiny_tokenizer

import mlx_engine
from mlx_engine import PromptTooLong
from mlx_engine.drafting.drafter import NoDraft

YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

CASES = {
    "gemma4 without a cap": ("gemma4_text", {"final_logit_softcapping": None}),
    "hunyuan moe": (
        "hunyuan_v1_moe",
        {
            "rope_parameters": {
                "rope_type": "dynamic",
                "rope_theta": 1e4,
                "factor": 1.0,
                "alpha": 5.0,
            }
        },
    ),
    "gemma3n": ("gemma3n_text", {"altup_coef_clip": 0.5, "num_kv_shared_layers": 2}),
    "jamba": ("jamba", {}),
    "llama4 without experts": ("llama4_text", {}),
    "mamba 2 of two groups": ("mamba2", {}),
    "mamba 2 of one group": ("mamba2", {"n_groups": 1}),
    "jamba, all experts": ("jamba", {"num_experts_per_tok": 4}),
    "laguna": ("laguna", {}),
    "helium with YaRN": ("helium", {"rope_parameters": YARN | {"truncate": False}}),
    "llama4 with YaRN": ("llama4_text", {"rope_parameters": YARN}),
    "hunyuan moe without scaling": ("hunyuan_v1_moe", {}),
    "jamba without experts": ("jamba", {"num_experts": 1, "num_experts_per_tok": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_logits_equal_transformers(tmp_path, name):
    kind, changes = CASES[name]
    tiny = publish(kind, tmp_path / "m", changes=changes)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 2e-5


@pytest.mark.parametrize("kind", ["granitemoe"])
def test_scaling_beside_other_rope_parameters_wins_and_a_base_may_be_left_out(tmp_path, kind):
    plain = publish(kind, tmp_path / "m").folder
    rope = json.loads((plain / "config.json").read_text())["rope_parameters"]
    rope.pop("rope_theta")
    edit_config(plain, rope_scaling={**rope, **YARN, "rope_theta": 5000.0})
    tokens = list(range(1, 40))
    assert relative(logits(plain, tokens), published_logits(plain, tokens)) < 1e-5
    edit_config(plain, rope_scaling=None, rope_parameters=rope)
    assert relative(logits(plain, tokens), published_logits(plain, tokens)) < 1e-5
    edit_config(plain, rope_parameters=None)
    assert relative(logits(plain, tokens), published_logits(plain, tokens)) < 1e-5


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("phimoe", "sliding_window"),
        ("llama4_text", "attention_chunk_size"),
    ],
)
def test_a_model_reaches_as_far_as_a_window_its_class_does_not_know(tmp_path, kind, key):
    tiny = publish(kind, tmp_path / "m", changes={key: WINDOW})
    start = tiny.tokens[: WINDOW - 1]
    assert relative(logits(tiny.folder, start), published_logits(tiny.folder, start)) < 1e-5
    with pytest.raises(PromptTooLong, match=f"the context holds {WINDOW}"):
        logits(tiny.folder, tiny.tokens)


def test_long_and_short_texts_are_rotated_by_their_own_lists(tmp_path):
    """As in arXiv 2402.13753; transformers has the short list for both, so the long one is told."""
    tiny = publish("phimoe", tmp_path / "m")
    short = published_logits(tiny.folder, tiny.tokens[:16])
    engine = mlx_engine.load(tiny.folder)
    found, caches = engine.logits(tiny.tokens), engine.parts.model.make_caches()
    for token, wanted in zip(tiny.tokens, found, strict=True):
        hidden = engine.parts.model.forward(mx.array([[token]]), caches)
        caches.commit(1)
        assert np.array_equal(engine.parts.model.logits(hidden)[0, 0], wanted)
    assert relative(found[:16], short) < 1e-5
    rope = json.loads((tiny.folder / "config.json").read_text())["rope_parameters"]
    edit_config(tiny.folder, rope_parameters=rope | {"short_factor": rope["long_factor"]})
    assert relative(found[16:], published_logits(tiny.folder, tiny.tokens)[16:]) < 1e-5
    engine.close()


@pytest.mark.parametrize("kind", ["laguna", "phimoe"])
def test_experts_stacked_as_transformers_has_them(tmp_path, kind):
    tiny = publish(kind, tmp_path / "m")
    model = hf.AutoModelForCausalLM.from_pretrained(tiny.folder)
    model.save_pretrained(tiny.folder, save_original_format=False)
    edit_config(tiny.folder, max_position_embeddings=512)
    tokens = tiny.tokens[:16]
    assert relative(logits(tiny.folder, tokens), published_logits(tiny.folder, tokens)) < 2e-5


UNKNOWN_TO_TRANSFORMERS = {
    "afm7": {
        "hidden_dim": 64,
        "num_layers": 3,
        "num_kv_reuse_layers": 1,
        "num_heads": 4,
        "num_kv_heads": 2,
        "hidden_dim_scale_factor": 2.0,
    },
    "openelm": {
        **{"head_dim": 16, "num_transformer_layers": 2, "model_dim": 64, "ffn_dim_divisor": 8},
        **{"num_query_heads": [4, 8], "num_kv_heads": [2, 4], "ffn_multipliers": [2.0, 3.0]},
    },
    "plamo3": {  # a row sees one token more than its window
        **{"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "head_dim": 16},
        **{"num_attention_heads": 4, "num_key_value_heads": 2},
        **{"window_size": 8, "sliding_window_pattern": 2},
    },
}


@pytest.mark.parametrize("kind", UNKNOWN_TO_TRANSFORMERS)
def test_logits_equal_the_class_alone(tmp_path, kind):
    module = import_module(f"mlx_lm.models.{kind}")
    config = {"model_type": kind, "vocab_size": 300, **UNKNOWN_TO_TRANSFORMERS[kind]}
    stock = module.Model(module.ModelArgs.from_dict(config))
    save_model(tmp_path, stock)
    (tmp_path / "config.json").write_text(json.dumps(config))
    make_tiny_tokenizer(tmp_path, 300)
    tokens = list(range(1, 30))
    alone = stock(mx.array([tokens]), cache=make_prompt_cache(stock))[0].astype(mx.float32)
    assert relative(logits(tmp_path, tokens), np.array(alone)) < 1e-5


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("minicpm3", {"dim_model_base": 16, "tie_word_embeddings": True}),
        ("laguna", {"rope_parameters": {"full_attention": YARN, "sliding_attention": LINEAR}}),
    ],
)
def test_options_that_classes_lose(tmp_path, kind, changes):
    tiny = publish(kind, tmp_path / "m", changes=changes)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5


def test_packed_experts_of_jamba(tmp_path):
    """As mlx-lm packs them, router and all; compared with the same values unpacked."""
    tiny = publish("jamba", tmp_path / "dense")
    packed = shutil.copytree(tiny.folder, tmp_path / "packed")
    model, config = open_in_mlx_lm(tiny.folder)
    model, config = quantize_model(model, config, 32, 4)
    save_model(packed, model)
    (packed / "config.json").write_text(json.dumps(config))
    save_model(tiny.folder, dequantize_model(model))
    wanted = logits(tiny.folder, tiny.tokens)
    assert relative(logits(packed, tiny.tokens), wanted) < 1e-5
    assert relative(wanted, tiny.logits) > 1e-3


@pytest.fixture(scope="module")
def gemma3n(tmp_path_factory):
    return publish("gemma3n_text", tmp_path_factory.mktemp("tiny") / "m")


def as_whole(tiny, folder, prefix):
    """A copy as the text part of a model with eyes and ears, all its tensors after this prefix."""
    shutil.copytree(tiny.folder, folder)
    text = json.loads((folder / "config.json").read_text())
    outer = {"model_type": "gemma3n", "text_config": text, "vision_config": {}, "audio_config": {}}
    (folder / "config.json").write_text(json.dumps(outer))
    first = "layers.0.self_attn."
    unused = {f"layers.4.self_attn.{part}": f"{first}{part}" for part in UNUSED}

    def wrapped(arrays):
        bare = {name.removeprefix("model."): array for name, array in arrays.items()}
        bare |= {name: bare[twin] for name, twin in unused.items()}
        return {f"{prefix}{name}": array for name, array in bare.items()}

    edit_tensors(folder, wrapped)
    return folder


UNUSED = ("k_proj.weight", "v_proj.weight", "k_norm.weight")
"""Of layers that read others' keys, which published files have and transformers does not write."""


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
def test_gemma3n_as_published_and_as_mlx_has_it(tmp_path, gemma3n, prefix):
    folder = as_whole(gemma3n, tmp_path / "m", prefix)
    others = {
        f"model.{part}.x.weight": mx.zeros((2, 2))
        for part in ("vision_tower", "audio_tower", "embed_vision", "embed_audio")
    }
    edit_tensors(folder, lambda arrays: arrays | others)
    assert relative(logits(folder, gemma3n.tokens), gemma3n.logits) < 1e-5


def test_gemma3n_as_mlx_lm_packs_it(tmp_path, gemma3n):
    folder = as_whole(gemma3n, tmp_path / "m", "model.language_model.")
    edit_config(folder, rope_theta=1e6, rope_local_base_freq=1e4)
    model, config = quantize_model(*open_in_mlx_lm(folder), 32, 4)
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(config))
    tokens = gemma3n.tokens[:WINDOW]
    wanted = np.array(model(mx.array([tokens]), cache=model.make_cache())[0])
    assert relative(logits(folder, tokens), wanted) < 1e-5


@pytest.mark.parametrize("depth", [1, 4])
def test_drafts_keep_the_words_of_gemma3n(gemma3n, depth):
    """Its last layers read the keys of earlier ones, behind a window too."""
    engine, prompt = mlx_engine.load(gemma3n.folder), gemma3n.tokens[:9]
    model, length = engine.parts.model, 3 * WINDOW
    truth = run(model, prompt, NoDraft(), 0, max_tokens=length).tokens
    source = DialledDraft([*prompt, *truth], itertools.cycle(range(depth + 1)), VOCABULARY)
    ran = run(model, prompt, source, depth, max_tokens=length)
    assert ran.tokens == truth
    assert 0 < ran.stats.accepted < ran.stats.drafted
    engine.close()
