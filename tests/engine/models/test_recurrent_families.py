"""Families with recurrent layers: transformers' logits, rows that are taken back, shared passes."""

import itertools
import json
import re
import shutil
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
import tiny_ling
from compared import relative
from dialled_draft import DialledDraft
from in_step import assert_layers_in_step
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from mlx_lm.utils import dequantize_model, quantize_model, save_model
from mlx_lm.utils import load_model as open_in_mlx_lm
from model_edits import edit_config, edit_tensors, logits
from plain_run import run
from session_runs import PICKS, listen, session_of
from tiny_ling import LING_2_5, LING_3
from tiny_published import VOCABULARY, publish

import mlx_engine
from metal_kernels.choice import MOST_ROWS
from mlx_engine import UnsupportedModel
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.engine import Engine
from mlx_engine.loading.load import load_model
from mlx_engine.values.options import DraftOptions, LoadOptions, SamplingOptions

CONV, FULL = "conv", "full_attention"
MIXED = ["mamba", "attention", "mamba"]
"""Layers of Granite 4 as it was published and as mlx-lm has them."""

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}


FACTORLESS = dict.fromkeys(
    [f"{name}_multiplier" for name in ("embedding", "lm_head", "key", "ssm_in", "ssm_out")]
    + ["attention_in_multiplier", "attention_out_multiplier", "ssm_multipliers", "mlp_multipliers"]
)
"""Keys of Falcon-H1 that are taken out."""


class Case(NamedTuple):
    """A tiny model: its type, what its config gets, and what is done to config.json afterwards."""

    kind: str
    changes: Mapping[str, object] = {}
    edits: Mapping[str, object] = {}


CASES: dict[str, Case] = {
    "lfm2": Case("lfm2"),
    "lfm2, biases": Case("lfm2", {"conv_bias": True, "conv_L_cache": 4}),
    "lfm2, one tap, stretched": Case("lfm2", {"conv_L_cache": 1, "rope_parameters": LLAMA3}),
    "lfm2, not tied, width as told": Case(
        "lfm2",
        {"tie_word_embeddings": False, "block_auto_adjust_ff_dim": False},
        {"tie_word_embeddings": True, "tie_embedding": False, "conv_L_cache": None},
    ),
    "lfm2, older keys": Case(
        "lfm2",
        {"block_multiple_of": 24, "block_ffn_dim_multiplier": 1.5, "intermediate_size": 100},
        {
            **{"layer_types": None, "full_attn_idxs": [1], "intermediate_size": None},
            **{"block_ff_dim": 100, "rope_parameters": None, "rope_theta": 10000.0},
        },
    ),
    "lfm2_moe": Case("lfm2_moe"),
    "lfm2_moe, biases": Case(
        "lfm2_moe", {"conv_bias": True, "routed_scaling_factor": 2.5, "num_dense_layers": 0}
    ),
    "lfm2_moe, plain choice": Case(
        "lfm2_moe",
        {"use_expert_bias": False, "norm_topk_prob": False, "layer_types": [FULL, CONV, CONV]},
    ),
}
CASES |= {
    "granite 4": Case("granitemoehybrid", {}, {"layer_types": MIXED}),
    "granite 4, two groups, biases": Case(
        "granitemoehybrid",
        {
            **{"mamba_n_groups": 2, "mamba_proj_bias": True, "mamba_conv_bias": False},
            **{"attention_bias": True, "attention_multiplier": 0.3, "embedding_multiplier": 1.7},
            **{"tie_word_embeddings": True, "mamba_d_conv": 2},
        },
    ),
    "granite 4, no experts, clipped steps": Case(
        "granitemoehybrid",
        {"num_local_experts": 0, "time_step_limit": (0.3, 0.9), "mamba_d_head": "auto"},
        {"layer_types": MIXED},
    ),
    "granite 4, stretched": Case(
        "granitemoehybrid", {"position_embedding_type": "rope", "rope_parameters": LLAMA3}
    ),
    "granite 4, endless steps": Case(
        "granitemoehybrid", {}, {"time_step_limit": [0.1, {"__float__": "Infinity"}]}
    ),
    "granite 3 with experts": Case("granitemoe", {"hidden_act": "gelu", "attention_bias": True}),
    "granite 3, shared": Case("granitemoeshared", {"num_local_experts": 4}),
}
BIASED = dict.fromkeys(
    ("attention_bias", "mlp_bias", "projectors_bias", "mamba_proj_bias", "mamba_rms_norm"), True
)
CASES |= {
    "falcon_h1": Case("falcon_h1"),
    "falcon_h1, all factors 1": Case("falcon_h1", {}, FACTORLESS),
    "falcon_h1, one tap": Case("falcon_h1", {"mamba_d_conv": 1}),
    "falcon_h1, two groups, biases": Case("falcon_h1", BIASED | {"mamba_n_groups": 2}),
    "falcon_h1, norm behind the gate, clipped steps": Case(
        "falcon_h1",
        {
            **{"mamba_rms_norm": True, "mamba_norm_before_gate": False, "mamba_n_groups": 4},
            **{"time_step_limit": (0.3, 0.9), "mamba_d_ssm": None, "mamba_conv_bias": False},
            **{"tie_word_embeddings": True, "rope_parameters": LLAMA3},
        },
    ),
}
NEMOTRON = ["mamba", "attention", "moe", "mamba", "mlp", "moe"]
CASES |= {
    "nemotron_h": Case("nemotron_h"),
    "nemotron_h, latent experts, groups": Case(
        "nemotron_h",
        {
            **{"layers_block_type": NEMOTRON, "moe_latent_size": 32, "n_routed_experts": 8},
            **{"n_group": 4, "topk_group": 2, "norm_topk_prob": False},
        },
    ),
    "nemotron_h, dense, biases, pattern": Case(
        "nemotron_h",
        {
            **{"layers_block_type": ["mamba", "mlp", "attention", "mlp"], "mlp_bias": True},
            **{"use_bias": True, "use_conv_bias": False, "n_groups": 4},
        },
        {
            **{"layers_block_type": None, "hybrid_override_pattern": "M-*-"},
            **{"mamba_proj_bias": True},  # which mlx-lm looks for
        },
    ),
}
CASES |= {
    "kimi linear": Case(
        "kimi_linear",
        {
            **{"layer_types": ["linear_attention", FULL, FULL], "linear_conv_kernel_dim": 2},
            "mlp_layer_types": ["sparse"] * 3,
        },
        {
            **dict.fromkeys(("layer_types", "linear_head_dim", "linear_num_heads")),
            **{"linear_conv_kernel_dim": None, "mlp_layer_types": None, "first_k_dense_replace": 0},
            "linear_attn_config": {  # as published
                **{"full_attn_layers": [2, 3], "kda_layers": [1], "head_dim": 16},
                **{"num_heads": 4, "short_conv_kernel_size": 2},
            },
        },
    ),
    "kimi linear, groups, biases": Case(
        "kimi_linear",
        {
            **{"linear_head_dim": 32, "linear_num_heads": 2, "num_local_experts": 8},
            **{"n_group": 4, "topk_group": 2, "norm_topk_prob": False, "attention_bias": True},
            "mlp_layer_types": ["sparse", "dense", "sparse"],
        },
    ),
}
CASES |= {
    "olmo hybrid": Case("olmo_hybrid"),
    "olmo hybrid, no positions, more value heads": Case(
        "olmo_hybrid",
        {
            **{"linear_num_key_heads": 4, "linear_num_value_heads": 8, "num_hidden_layers": 3},
            **{"linear_key_head_dim": 16, "linear_value_head_dim": 8, "attention_bias": True},
            **{"linear_allow_neg_eigval": False, "linear_conv_kernel_dim": 2},
            **{"layer_types": ["linear_attention", "linear_attention", FULL]},
            "rope_parameters": {"rope_type": "default", "rope_theta": None},
        },
        {"layer_types": None},
    ),
}
LING = {"ling 2.5": LING_2_5, "ling 3": LING_3}
CONVERTED = ("lfm2, biases", "lfm2_moe", "granite 4", "granite 4, no experts, clipped steps")
CONVERTED += ("nemotron_h, latent experts, groups", "nemotron_h, dense, biases, pattern")
CONVERTED += (*LING, "kimi linear", "olmo hybrid")
DRAFTED = ("lfm2", "lfm2_moe", "granite 4", "falcon_h1", "nemotron_h, latent experts, groups")
DRAFTED += ("ling 2.5", "ling 3", "olmo hybrid")

_OF_OLMO = re.compile(r"(attention|feedforward)_layer_norm")


def _olmo(found):
    """As transformers and mlx-lm call a norm that is published otherwise."""
    return {"attention": "input_layernorm", "feedforward": "post_attention_layernorm"}[found[1]]


PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]
WAYS = {
    "greedy": SamplingOptions(temperature=0),
    "hot": SamplingOptions(temperature=1.1, repetition_penalty=1.2),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each case once, opened on first need: the folder and its engine."""

    @cache
    def get(name):
        folder = tmp_path_factory.mktemp("tiny") / "m"
        if name in LING:
            tiny = tiny_ling.publish(folder, LING[name])
            return tiny, mlx_engine.load(tiny.folder)
        case = CASES[name]
        tiny = publish(case.kind, folder, changes=case.changes, edits=case.edits)
        return tiny, mlx_engine.load(tiny.folder)

    return get


def row_by_row(model, tokens):
    """Logits of cached decoding."""
    caches, rows = model.make_caches(), []
    for token in tokens:
        hidden = model.forward(mx.array([[token]]), caches)
        caches.commit(1)
        rows.append(np.array(model.logits(hidden)[0]))
    return np.concatenate(rows)


@pytest.mark.parametrize("name", [*LING, *CASES])
def test_logits_equal_transformers(made, name):
    """As few rows do, which are the same bits row by row; what the description counts is held."""
    tiny, engine = made(name)
    model, told = engine.parts.model, engine.description
    assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-5
    found = engine.logits(tiny.tokens[:MOST_ROWS])
    assert relative(found, tiny.logits[:MOST_ROWS]) < 1e-5
    assert np.array_equal(row_by_row(model, tiny.tokens[:MOST_ROWS]), found)
    layers = model.make_caches().layers
    assert told.state_bytes == sum(c.nbytes for c in layers if isinstance(c, RecurrentCache))
    assert told.cache_bytes_per_token > 0
    stored = mx.load(str(tiny.folder / "model.safetensors"))
    assert told.parameters == sum(array.size for array in stored.values())


def test_wider_values_and_silent_sizes_of_olmo_hybrid(tmp_path):
    """Transformers 5.23 saves convolutions in three equal parts, whatever they belong to."""
    sizes = {"linear_num_key_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 24}
    tiny = publish("olmo_hybrid", tmp_path / "m", changes=sizes)

    def cut(arrays):
        made = dict(arrays)
        for name in [name for name in arrays if ".q_conv1d." in name]:
            names = [name.replace(".q_", f".{part}_") for part in "qkv"]
            whole = mx.concatenate([arrays[other] for other in names])
            made |= dict(zip(names, mx.split(whole, [48, 96]), strict=True))
        return made

    edit_tensors(tiny.folder, cut)
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5
    edit_config(tiny.folder, **dict.fromkeys([*sizes, "linear_num_value_heads"]))
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < 1e-5


@pytest.mark.parametrize("name", CONVERTED)
def test_folders_of_mlx_lm(made, tmp_path, name):
    """Its names, stacks and turned convolutions; packed ones are as the same values unpacked."""
    tiny, _ = made(name)
    edit_config(tiny.folder, rope_theta=10000.0, block_dim=64)  # which mlx-lm looks for
    source = tiny.folder
    if name == "olmo hybrid":  # of which its class knows no published names
        source = shutil.copytree(tiny.folder, tmp_path / "renamed")
        edit_tensors(source, lambda arrays: {_OF_OLMO.sub(_olmo, n): a for n, a in arrays.items()})

    def saved(model, config, to):
        folder = shutil.copytree(tiny.folder, tmp_path / to)
        save_model(folder, model)
        (folder / "config.json").write_text(json.dumps(config))
        return logits(folder, tiny.tokens)

    assert relative(saved(*open_in_mlx_lm(source), "dense"), tiny.logits) < 1e-5
    model, config = quantize_model(*open_in_mlx_lm(source), 32, 8)
    packed = saved(model, config, "packed")
    del config["quantization"], config["quantization_config"]
    assert relative(packed, saved(dequantize_model(model), config, "unpacked")) < 3e-5
    assert relative(packed, tiny.logits) > 1e-3


@pytest.mark.parametrize("name", DRAFTED)
def test_any_prefix_of_a_block_is_kept(made, name):
    """Rows that are not kept are wrong tokens; kept rows are bit for bit those of one pass."""
    tiny, engine = made(name)
    model, rng = engine.parts.model, np.random.default_rng(0)
    parts, caches = [], model.make_caches()
    for token in tiny.tokens:
        parts.append(np.array(model.forward(mx.array([[token]]), caches))[0])
        caches.commit(1)
    truth, caches = np.concatenate(parts), model.make_caches()
    while (at := caches.length) < len(tiny.tokens) - 9:
        rows = int(rng.integers(1, 10))
        keep = int(rng.integers(0, rows + 1))
        block = np.array(tiny.tokens[at : at + rows])
        block[keep:] = (block[keep:] + 7) % VOCABULARY
        boundary = caches.snapshot()
        for _ in range(2):  # as after an edit
            caches.restore(boundary)
            hidden = np.array(model.forward(mx.array(block[None]), caches))[0]
            assert np.array_equal(hidden[:keep], truth[at : at + keep])
            caches.commit(keep)
        assert_layers_in_step(caches)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DRAFTED)
def test_drafts_keep_the_words(made, name, way, ahead):
    """Every number of accepted tokens occurs; ahead: it is known to the device alone at first."""
    model, options, length = made(name)[1].parts.model, WAYS[way], 24
    truth = run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=length).tokens
    for depth in (1, 4):
        right = itertools.cycle([*range(depth + 1)])
        source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
        more = {"options": options, "max_tokens": length, "looks_ahead": ahead}
        ran = run(model, PROMPT, source, depth, **more)
        assert ran.tokens == truth
        assert 0 < ran.stats.accepted < ran.stats.drafted


TEXTS = ("the fox and the fox and the fox", "abc abc abc abc", "1 2 3 1 2 3 1 2 3 1")


@pytest.mark.parametrize("name", DRAFTED)
def test_several_in_one_pass_say_what_each_says_alone(made, name):
    """With copies of the prompt as drafts."""
    engine = made(name)[1]
    asked = {"max_tokens": 12, "sampling": PICKS, "ignore_eos": True}
    plain = DraftOptions(source="none")
    truth = [engine.generate(text, draft=plain, **asked).tokens for text in TEXTS]
    copies = DraftOptions(source="prompt-lookup", depth=3)
    assert [one.tokens for one in engine.generate_many(TEXTS, draft=copies, **asked)] == truth


@pytest.mark.parametrize("name", DRAFTED)
def test_what_was_read_is_taken_up_from_a_file(made, tmp_path, name):
    options, texts = LoadOptions(prompt_files=tmp_path), ("the fox " * 20, "And then?")
    said = []
    for _ in range(2):
        engine = mlx_engine.load(made(name)[0].folder, options=options)
        chat = session_of(engine, PICKS)
        said.append([listen(chat, chat.send(text)) for text in texts])
        engine.parts.prompts.files.wait()
        engine.close()
    assert [one.tokens for one in said[0]] == [one.tokens for one in said[1]]
    assert said[1][0].finished.stats.reused_tokens > 60


@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize("tied", [False, True])
def test_falcon_h1_as_mlx_lm_converts_it(tmp_path, tied, bits):
    """Its converter multiplies all factors but two into the matrices, and turns convolutions."""
    changes = {"hidden_size": 128, "tie_word_embeddings": tied}
    tiny = publish("falcon_h1", tmp_path / "m", changes=changes)
    model, config = open_in_mlx_lm(tiny.folder)
    if bits:
        model, config = quantize_model(model, config, 32, bits)
    save_model(tiny.folder, model)
    (tiny.folder / "config.json").write_text(json.dumps(config))
    most = {None: 1e-5, 8: 0.05, 4: 0.6}[bits]
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < most


@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize("tied", [False, True])
def test_falcon_h1_with_nothing_but_its_convolutions_turned(tmp_path, tied, bits):
    """As other converters leave it; packed or not, the factors come out of the config."""
    changes = {"hidden_size": 128, "tie_word_embeddings": tied}
    tiny = publish("falcon_h1", tmp_path / "m", changes=changes)

    def packed(name, array):
        if "conv1d.weight" in name:
            return {name: array.swapaxes(1, 2)}
        if bits is None or array.ndim != 2:
            return {name: array}
        parts = mx.quantize(array, 32, bits)
        base = name.removesuffix(".weight")
        return dict(zip([name, f"{base}.scales", f"{base}.biases"], parts, strict=True))

    edit_tensors(tiny.folder, lambda arrays: {
        new: made for name, array in arrays.items() for new, made in packed(name, array).items()
    })  # fmt: skip
    most = {None: 1e-5, 8: 0.05, 4: 0.6}[bits]
    assert relative(logits(tiny.folder, tiny.tokens), tiny.logits) < most


def test_factors_do_not_go_into_a_packing_of_powers_of_two(tmp_path):
    tiny = publish("falcon_h1", tmp_path / "m")

    def packed(arrays):
        name = "model.layers.0.mamba.in_proj"
        codes, scales = mx.quantize(arrays[f"{name}.weight"], 32, 4, "mxfp4")
        return arrays | {f"{name}.weight": codes, f"{name}.scales": scales}

    edit_tensors(tiny.folder, packed)
    with pytest.raises(UnsupportedModel, match=r"layers.0.mamba.in_proj is quantised in a form"):
        logits(tiny.folder, tiny.tokens)


@pytest.mark.parametrize("name", ["ling 3", "granite 4, two groups, biases", "falcon_h1"])
def test_the_delta_rules_kernel_runs_state_spaces(made, name):
    """In the emulator: the numbers, and rows that are kept are those of one pass."""
    tiny, options = made(name)[0], LoadOptions(check_heads=False)
    kernels = every_kernel(EmulatorLauncher(check=False))
    engine = Engine(load_model(tiny.folder, options, tiny.folder, kernels=kernels), options)
    model, found = engine.parts.model, []
    caches = model.make_caches()
    for start, kept in ((0, 3), (3, 1), (4, 4)):
        hidden = model.forward(mx.array([tiny.tokens[start : start + 4]]), caches)
        found.append(np.array(model.logits(hidden)[0, :kept]))
        caches.commit(kept)
    assert relative(np.concatenate(found), tiny.logits[:8]) < 1e-5
    assert {state.name for state in engine.description.kernels if state.is_in_use} >= {"delta"}
    engine.close()
