"""DeepSeek-V4: trunk and head against transformers; rows compressed, selected and taken back."""

import re
import shutil
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
import tiny_deepseek4
import torch
from compared import relative
from converted_gguf import convert
from family_checks import (
    TEXTS,
    assert_goes_back_to_any_count,
    assert_same_bits_in_blocks,
    assert_same_words_drafted,
    opening,
)
from model_edits import all_logits, edit_config, edit_tensors
from safetensors.torch import save_file
from session_runs import PICKS, PLAIN
from tiny_deepseek4 import HEAVY, SIZES, SLIDING, SPARSE
from tiny_nextn import assert_as_published

import mlx_engine
from mlx_engine.cache.prompt_format import CacheState, FileContents, collect_arrays, fill_caches
from mlx_engine.loading.draft_model import build_drafter, read_drafter
from mlx_engine.loading.folder import model_files_at
from mlx_engine.loading.headers import read_headers
from mlx_engine.models.drafters.deepseek4_dspark import dspark_name
from mlx_engine.models.families.deepseek_v4 import DeepseekV4
from mlx_engine.models.registry import family_for
from mlx_engine.models.tensor_names import rename_tensor
from mlx_engine.values.options import CacheOptions, DraftOptions, LoadOptions

YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 16,
}
USUAL, ODD, WIDE = "sparse and heavy", "odd sizes, YaRN, tables everywhere", "published ratios"
VARIANTS = {
    USUAL: {},
    ODD: {
        "layer_types": [HEAVY, SLIDING, SPARSE],
        "compress_rates": {SPARSE: 3, HEAVY: 5},
        "mlp_layer_types": ["hash_moe", "hash_moe", "moe"],
        "rope_parameters": YARN,
        "hc_mult": 3,
        "hc_sinkhorn_iters": 3,
        "hc_eps": 0.01,
        "swiglu_limit": 0.4,
        "routed_scaling_factor": 2.7,
        "index_topk": 2,
        "o_groups": 4,
        "sliding_window": 3,
        "rms_norm_eps": 0.02,
        "compress_rope_theta": 700.0,
        "partial_rotary_factor": 0.5,
    },
    WIDE: {
        "layer_types": [SPARSE, HEAVY, SLIDING],
        "compress_rates": {SPARSE: 4, HEAVY: 128},
        "mlp_layer_types": ["hash_moe", "moe", "moe"],
        "rope_parameters": YARN,
        "scoring_func": "sigmoid",
        "hc_mult": 2,
        "hc_sinkhorn_iters": 20,
        "index_topk": 64,
        "sliding_window": 16,
    },
}
NAMES = ("layer_types", "compress_rates", "mlp_layer_types", "rope_parameters")
PUBLISHED = {
    **dict.fromkeys((*NAMES, "partial_rotary_factor")),
    "compress_ratios": [4, 128, 0, 0],
    "num_hash_layers": 1,
    "qk_rope_head_dim": 8,
    "rope_scaling": {"type" if name == "rope_type" else name: v for name, v in YARN.items()},
    "rope_theta": 10000.0,
    "compress_rope_theta": 160000.0,
}
"""What WIDE's fields are called in DeepSeek's own config.json; None for those not there."""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each variant once."""

    def publish(name):
        place = tmp_path_factory.mktemp("compressed") / "m"
        tiny = tiny_deepseek4.publish(place, head_number=int(name == ODD), **VARIANTS[name])
        if name == WIDE:
            edit_config(place, **PUBLISHED)
        return tiny

    with opening(publish) as get:
        yield get


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_draft_logits_are_those_of_transformers(opened, name):
    tiny, engine = opened(name)
    assert_as_published(engine, tiny)


@pytest.mark.parametrize("name", VARIANTS)
def test_rows_are_the_same_bits_in_blocks_of_any_size(opened, name):
    assert_same_bits_in_blocks(opened(name), 21)


@pytest.mark.parametrize("name", [USUAL, ODD])
def test_a_round_goes_back_to_any_number_of_its_rows(opened, name):
    """Told by the host, or known to the device alone; on and around the ends of entries."""
    assert_goes_back_to_any_count(opened(name), (14,), 29)


@pytest.mark.parametrize(("name", "temperature"), [(USUAL, 0), (ODD, 0.8)])
def test_words_with_the_head_are_those_without(opened, name, temperature):
    """Of three chats alone and in shared passes."""
    assert_same_words_drafted(opened(name).engine, temperature)


SPARKS = {
    "spark": {},
    "narrow spark": {
        "sliding_window": 3,
        "hc_mult": 3,
        "o_groups": 4,
        "partial_rotary_factor": 0.5,
        "rms_norm_eps": 0.02,
        "swiglu_limit": 0.4,
    },
    "spark of one stage": {"stages": 1, "drafts": 6, "scoring_func": "sigmoid", "hc_mult": 2},
}


@pytest.fixture(scope="module")
def sparks(tmp_path_factory):
    """Each folder once."""
    place = tmp_path_factory.mktemp("spark")
    return cache(lambda name: tiny_deepseek4.publish_spark(place / name, **SPARKS[name]))


class Block(NamedTuple):
    """What the stages draft: logits of rows, and greedy tokens."""

    logits: np.ndarray
    drafted: list[int]


def drafted_block(tiny, model):
    """Read in two parts, the second of which is longer than the window."""
    drafter = build_drafter(read_drafter(model_files_at(tiny.folder)), model)
    target, caches = drafter.target, drafter.make_caches()
    features = target.features(target.forward(mx.array([tiny.tokens[:-1]]), target.make_caches()))
    drafter.append_features(features[:, :9], caches)
    drafter.append_features(features[:, 9:], caches)
    newest, picked = mx.array(tiny.tokens[-1:]), []
    found = drafter.logits(drafter.draft_block_states(newest, caches))[0]

    def pick(logits, _):
        picked.append(mx.argmax(logits, axis=-1).astype(mx.int32))
        return picked[-1]

    drafter.draft(newest, None, caches, len(tiny.drafted), pick)
    return Block(np.array(found), [token.item() for token in picked])


@pytest.mark.parametrize("name", SPARKS)
def test_blocks_of_the_stages_are_those_of_pytorch(sparks, name):
    tiny = sparks(name)
    engine = mlx_engine.load(tiny.folder)
    assert engine.description.draft_models == (str(tiny.folder),)
    assert "a draft model" in str(engine.description.groups[-1].why_not)
    found = drafted_block(tiny, engine.parts.model)
    assert relative(found.logits, tiny.logits) < 1e-4
    assert found.drafted == tiny.drafted
    engine.close()


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_words_with_the_stages_are_those_without(sparks, temperature):
    """Of a chat alone, and of three in shared passes."""
    folder, texts = sparks("spark").folder, TEXTS if temperature else TEXTS[:1]
    engine = mlx_engine.load(folder, options=LoadOptions(draft_model=folder))
    asked = {"max_tokens": 6, "ignore_eos": True}
    asked["sampling"] = replace(PICKS, temperature=temperature)
    truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in texts]
    answers = engine.generate_many(texts, draft=DraftOptions(depth=3, source="model"), **asked)
    assert [answer.tokens for answer in answers] == truth
    assert all(answer.stats.drafted for answer in answers)
    engine.close()


@pytest.mark.parametrize(
    ("names", "ours"),
    [
        (("layers.1.attn.compressor.ape", "layers.1.self_attn.compressor.position_bias"),
         "layers.1.self_attn.compressor.position_bias"),
        (("layers.1.attn.indexer.compressor.wgate.weight",
          "layers.1.self_attn.compressor.indexer.gate_proj.weight"),
         "layers.1.self_attn.indexer.compressor.gate_proj.weight"),
        (("layers.1.attn.indexer.weights_proj.weight",
          "layers.1.self_attn.compressor.indexer.scorer.weights_proj.weight"),
         "layers.1.self_attn.indexer.weights_proj.weight"),
        (("layers.1.hc_ffn_fn", "layers.1.ffn_hc.fn"),
         "layers.1.mlp_hyper_connection.mix.weight"),
        (("hc_head_scale", "hc_head.hc_scale", "hc_head.scale"), "hyper_connection_mixer.scale"),
        (("layers.1.attn_norm.weight", "layers.1.input_layernorm.weight"),
         "layers.1.attn_hyper_connection.norm.weight"),
        (("embed.weight", "embed_tokens.weight"), "embed_tokens.weight"),
    ],
)  # fmt: skip
def test_names_of_other_conversions(names, ours):
    """DeepSeek's first, then those of transformers and mlx-vlm."""
    assert {rename_tensor(name, DeepseekV4.renames) for name in names} == {ours}


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("stages.1.attn_hc.fn", "layers.1.attn_hyper_connection.mix.weight"),
        ("stages.2.ffn.switch_mlp.up_proj.scales", "layers.2.mlp.switch_mlp.up_proj.scales"),
        ("stages.2.hc_head.base", "hyper_connection_mixer.base"),
        ("stages.2.norm.weight", "hyper_connection_mixer.norm.weight"),
        ("stages.0.main_proj.weight", "main_proj.weight"),
        ("markov_head.markov_w1.weight", "markov_head.markov_w1.weight"),
        ("mtp.2.confidence_head.proj.weight", None),
        ("mtp.2.ffn.gate.bias_vl", None),
        ("layers.0.attn.wq_a.weight", None),
    ],
)
def test_names_of_stages(name, ours):
    """As mlx-vlm splits them off, and what a draft model has no use for."""
    assert dspark_name(name) == ours


def test_a_stage_that_reads_what_the_trunk_reads_is_right(tmp_path):
    """Where layers add nothing, the block's first row is the trunk's."""
    small = {"num_hidden_layers": 3, "mlp_layer_types": ["moe"] * 3, "stages": 1}
    place = tiny_deepseek4.publish_spark(tmp_path / "m", **small).folder

    def arrange(arrays):
        made = {n: a * 0 if n.endswith(SILENT) else a for n, a in arrays.items()}
        return made | {f"mtp.0.{part}": made[part] for part in ENDS}

    edit_tensors(place, arrange)
    engine = mlx_engine.load(place, options=LoadOptions(draft_model=place))
    asked = {"max_tokens": 10, "sampling": PICKS, "ignore_eos": True}
    drafted = engine.generate(TEXTS[0], draft=DraftOptions(depth=1, source="model"), **asked)
    assert drafted.tokens == engine.generate(TEXTS[0], draft=PLAIN, **asked).tokens
    assert drafted.stats.accepted == drafted.stats.drafted > 3
    engine.close()


SILENT = ("wo_b.weight", "w2.weight")
"""Names of what a layer adds, and of Markov heads."""
ENDS = ("hc_head_fn", "hc_head_base", "hc_head_scale", "norm.weight")


def test_a_head_that_reads_what_the_trunk_reads_is_right(tmp_path):
    """Where blocks add nothing, the next token follows from one alone, for trunk and head alike."""
    small = {"num_hidden_layers": 1, "layer_types": [SPARSE], "mlp_layer_types": ["moe"]}
    place = tiny_deepseek4.publish(tmp_path / "m", **small).folder

    def arrange(arrays):
        made = {n: a * 0 if n.endswith(SILENT) else a for n, a in arrays.items()}
        made |= {f"mtp.0.{part}": made[part] for part in ENDS}
        made["mtp.0.e_proj.weight"] = mx.eye(len(made["mtp.0.e_proj.weight"]))
        made["mtp.0.enorm.weight"] = mx.ones_like(made["mtp.0.enorm.weight"])
        return made | {"mtp.0.h_proj.weight": made["mtp.0.h_proj.weight"] * 0}

    edit_tensors(place, arrange)
    engine = mlx_engine.load(place)
    asked = {"max_tokens": 12, "sampling": PICKS, "ignore_eos": True}
    drafted = engine.generate(TEXTS[0], draft=DraftOptions(depth=2), **asked)
    assert drafted.tokens == engine.generate(TEXTS[0], draft=PLAIN, **asked).tokens
    assert drafted.stats.accepted > 0.8 * drafted.stats.drafted > 5
    engine.close()


FP4 = re.compile(r".*\.experts\.\d+\.w[123]\.weight")
FP8 = re.compile(r".*\.(w(q_a|q_b|kv|o_a|o_b|[123])|[eh]_proj)\.weight")


def packed(name, value):
    """As DeepSeek stores a matrix: bytes and scales, powers of two; and what they are."""
    if FP4.fullmatch(name):
        words, scales = mx.quantize(value, group_size=32, bits=4, mode="mxfp4")
        whole = mx.dequantize(words, scales, group_size=32, bits=4, mode="mxfp4", dtype=mx.float32)
        codes = torch.tensor(np.array(words.view(mx.uint8))).view(torch.int8)
        return codes, torch.tensor(np.array(scales)).view(torch.float8_e8m0fnu), whole
    rows, columns = value.shape
    padded = mx.pad(value, [(0, -rows % 64), (0, -columns % 64)])
    blocks = padded.reshape(padded.shape[0] // 64, 64, -1, 64)
    powers = mx.ceil(mx.log2(mx.abs(blocks).max(axis=(1, 3), keepdims=True) / 448))
    codes = mx.to_fp8(blocks / 2**powers)
    whole = (mx.from_fp8(codes, mx.float32) * 2**powers).reshape(padded.shape)[:rows, :columns]
    codes = np.array(codes.reshape(padded.shape)[:rows, :columns])
    scales = torch.tensor(np.array((powers.squeeze((1, 3)) + 127).astype(mx.uint8)))
    return torch.tensor(codes).view(torch.float8_e4m3fn), scales.view(torch.float8_e8m0fnu), whole


def test_published_fp8_and_fp4_stay_packed(opened, tmp_path):
    """Scales of blocks of 64 by 64, of which some are cut short, and of 32 columns of experts."""
    tiny, stored, whole = opened(USUAL).tiny, {}, {}
    for folder in (tmp_path / "packed", tmp_path / "twin"):
        shutil.copytree(tiny.folder, folder)
    for name, value in mx.load(str(tiny.folder / "model.safetensors")).items():
        whole[name] = value
        if value.shape[-1:] and not value.shape[-1] % 32 and FP8.fullmatch(name):
            codes, scales, whole[name] = packed(name, value)
            stored |= {name: codes, f"{name.removesuffix('weight')}scale": scales}
        else:
            stored[name] = torch.tensor(np.array(value))
    save_file(stored, tmp_path / "packed" / "model.safetensors")
    packing = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [64, 64]}
    edit_config(tmp_path / "packed", quantization_config=packing)
    edit_tensors(tmp_path / "twin", lambda _: whole)
    headers = read_headers(model_files_at(tmp_path / "packed"))
    matrix = headers.parts.trunk["layers.1.mlp.switch_mlp.up_proj.weight"]
    assert (matrix.dtype, matrix.shape) == ("U32", (8, 32, 8))
    found = all_logits(tmp_path / "packed", tiny.tokens)
    assert relative(found, all_logits(tmp_path / "twin", tiny.tokens)) < 1e-5
    name = next(name for name in stored if name.startswith("layers.0") and name.endswith(".scale"))
    save_file(stored | {name: stored[name][:0]}, tmp_path / "packed/model.safetensors")
    with pytest.raises(mlx_engine.EngineError, match="scales"):
        mlx_engine.inspect(tmp_path / "packed")


def publish_for_gguf(folder, seed=0):
    """With what llama.cpp's converter takes: published ratios, and one score of experts."""
    changes = VARIANTS[WIDE] | {"scoring_func": "sqrtsoftplus", "hc_sinkhorn_iters": 5}
    tiny = tiny_deepseek4.publish(folder, seed, **changes)
    edit_config(tiny.folder, **PUBLISHED)
    return tiny


def test_a_gguf_and_its_head_in_another(tmp_path):
    """As llama.cpp's converter writes both."""
    tiny = publish_for_gguf(tmp_path / "m")
    trunk = convert(tiny.folder, tmp_path / "trunk.gguf", heads="dropped")
    assert mlx_engine.inspect(trunk).mtp_heads == 0
    heads = convert(tiny.folder, tmp_path / "mtp.gguf", heads="only")
    engine = mlx_engine.load(trunk, heads=heads)
    assert_as_published(engine, tiny)
    engine.close()


def test_saved_prompts_hold_entries(opened):
    """Of an earlier place in the text than the cache has come to."""
    tiny, engine = opened(ODD)
    model, start = engine.parts.model, 22
    whole, filled = model.make_caches(), model.make_caches()
    model.forward(mx.array([tiny.tokens[:start]]), whole)
    whole.commit(start)
    state = CacheState(start, (whole.snapshot(),), None)
    rest = mx.array([tiny.tokens[start:]])
    wanted = model.forward(rest, whole)
    whole.commit(len(tiny.tokens) - start)
    rows, others = collect_arrays([whole], state, 0)
    fill_caches([filled], [FileContents(rows | others, {"lengths": f"[{start}]"})])
    assert mx.array_equal(model.forward(rest, filled), wanted)
    with pytest.raises(ValueError, match="number of entries"):
        filled.layers[0].replace_entries(whole.layers[0].entries(3))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layer_types": None, "compress_ratios": [4, 128]}, "compress_ratios"),
        ({"layer_types": None, "compress_ratios": [4, 128, 7]}, "compress_ratios"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types"),
        ({"o_groups": 3}, "o_groups"),
        ({"scoring_func": "tanh"}, "scoring_func"),
        ({"hc_mult": 9}, "hc_mult"),
        ({"qk_rope_head_dim": 7}, "qk_rope_head_dim"),
        ({"index_head_dim": 4}, "index_head_dim"),
    ],
)
def test_impossible_configs_are_refused_by_name(changes, named):
    with pytest.raises(mlx_engine.EngineError, match=named):
        family_for("deepseek_v4", SIZES | changes, "tiny").compute_sizes()


def test_chat_memory_stays_in_16_bits(opened):
    with pytest.raises(mlx_engine.EngineError, match="one entry for several tokens"):
        opened(USUAL).engine.generate("abc", cache=CacheOptions(bits=8, head_bits=8))
    assert family_for("deepseek_v4", SIZES, "tiny").compute_sizes().packed_cache.code == (
        "cache-compressed"
    )
