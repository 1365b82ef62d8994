"""DeepSeek-V3.2, GLM-5, 5.3 and Hy4: what an indexer selects, trunk and head as transformers."""

import json
import re
from functools import partial
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
import tiny_glm5_next
import tiny_hy4
import tiny_sparse
import transformers as hf
from compared import normal, relative
from converted_gguf import convert
from family_checks import (
    assert_compiled_for_any_length,
    assert_goes_back_to_any_count,
    assert_same_bits_in_blocks,
    assert_same_words_drafted,
    opening,
)
from mlx_lm.utils import load_model as open_in_mlx_lm
from mlx_lm.utils import save_model
from model_edits import edit_config, logits
from tiny_nextn import LAYER, assert_as_published
from tiny_sparse import SIZES

import mlx_engine
from mlx_engine.cache.attention import AttentionCache
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.nextn import Deepseek32Gguf
from mlx_engine.models import latent_attention
from mlx_engine.models.indexer import Indexer
from mlx_engine.models.layer_specs import IndexerSpec, LatentAttentionSpec, RopeSpec
from mlx_engine.models.registry import family_for
from mlx_engine.models.weights import Part, WeightTable

YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 16,
    "mscale": 0.7,
    "mscale_all_dim": 0.9,
}
VARIANTS = {
    "3.2": ("deepseek_v32", {"qk_rope_head_dim": 32}),
    "3.2 with YaRN, biases, few tokens": (
        "deepseek_v32",
        {"rope_parameters": YARN, "attention_bias": True, "index_topk": 7},
    ),
    "5": ("glm_moe_dsa", {"norm_topk_prob": False, "mlp_layer_types": ["sparse"] * 3}),
    "5.2, layers that share": (
        "glm_moe_dsa",
        {
            "indexer_types": ["full", "shared", "full"],
            "index_head_dim": 48,
            "n_group": 1,
            "qk_rope_head_dim": 32,
        },
    ),
    "Hy4": ("hy_v4", {"qk_rope_head_dim": 32}),
    "Hy4, three streams, a low limit, few tokens": (
        "hy_v4",
        {
            "hc_mult": 3,
            "hc_magnitude": 1.3,
            "hc_eps": 0.01,
            "swiglu_limit": 0.4,
            "learnable_sink_init": 1.0,
            "index_topk": 7,
            "index_head_dim": 48,
            "indexer_types": ["full", "full", "shared"],
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "attention_bias": True,
            "rms_norm_eps": 0.3,
            "rope_parameters": YARN,
        },
    ),
    "Hy4, two streams, indexers rotated whole": (
        "hy_v4",
        {
            "hc_mult": 2,
            "index_head_dim": 16,
            "indexer_types": None,
            "norm_topk_prob": False,
            "n_shared_experts": 2,
            "v_head_dim": 16,
            "mlp_layer_types": ["sparse"] * 3,
        },
    ),
    "5.3": ("glm5_next", {}),
    "5.3, three streams, free decays, pools of three": (
        "glm5_next",
        {
            "hc_mult": 3,
            "hc_eps": 0.02,
            "hc_sinkhorn_iters": 1,
            "linear_lower_bound": None,
            "index_kpool": 3,
            "index_topk": 9,
            "indexer_types": ["full", "full", "shared"],
            "attention_bias": True,
            "rms_norm_eps": 0.3,
            "tie_word_embeddings": True,
            "norm_topk_prob": False,
            "n_routed_experts": 8,
            "n_group": 2,
        },
    ),
    "5.3, two streams, pools of one": (
        "glm5_next",
        {
            "hc_mult": 2,
            "hc_sinkhorn_iters": 20,
            "index_kpool": 1,
            "index_topk": 9,
            "linear_attn_config": {"num_heads": 3, "head_dim": 32, "short_conv_kernel_size": 2},
            "layer_types": ["indexed_attention", "linear_attention", "indexed_attention"],
            "mlp_layer_types": ["sparse", "dense", "sparse"],
            "n_shared_experts": 2,
            "v_head_dim": 32,
        },
    ),
}
WRITERS = {"hy_v4": tiny_hy4.publish, "glm5_next": tiny_glm5_next.publish}


NARROW, SHARED = "3.2 with YaRN, biases, few tokens", "5.2, layers that share"
HY4, FEW = "Hy4", "Hy4, three streams, a low limit, few tokens"
POOLS, THREES = "5.3", "5.3, three streams, free decays, pools of three"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each variant once."""

    def publish(name):
        kind, changes = VARIANTS[name]
        writer = WRITERS.get(kind, partial(tiny_sparse.publish, kind))
        return writer(tmp_path_factory.mktemp("sparse") / "m", **changes)

    with opening(publish) as get:
        yield get


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_draft_logits_below_and_above_the_selection(opened, name):
    tiny, engine = opened(name)
    assert_as_published(engine, tiny)


@pytest.mark.parametrize("name", VARIANTS)
def test_rows_are_the_same_bits_in_blocks_of_any_size(opened, name):
    """On both sides of the length from which tokens are selected, and across it."""
    assert_same_bits_in_blocks(opened(name), 27)


@pytest.mark.parametrize("name", ["3.2", SHARED])
def test_another_reading_of_an_indexer_is_seen(opened, name):
    """What it rotates, and how many it selects."""
    tiny = opened(name).tiny

    def changed(**fields):
        config = json.loads((tiny.folder / "config.json").read_text())
        kept = {name: config[name] for name in fields if name in config}
        edit_config(tiny.folder, **fields)
        engine = mlx_engine.load(tiny.folder)
        found = engine.logits(tiny.tokens)
        engine.close()
        edit_config(tiny.folder, **{**dict.fromkeys(fields), **kept})
        return found

    config = json.loads((tiny.folder / "config.json").read_text())
    pairs, most = config["model_type"] == "glm_moe_dsa", config["index_topk"]
    assert relative(changed(indexer_rope_interleave=pairs), tiny.logits) < 1e-4
    for found in (changed(indexer_rope_interleave=not pairs), changed(index_topk=most - 1)):
        assert relative(found[: most - 1], tiny.logits[: most - 1]) < 1e-4
        assert relative(found, tiny.logits) > 1e-2


@pytest.mark.parametrize("name", [NARROW, SHARED, FEW, POOLS, THREES])
def test_a_round_goes_back_to_any_number_of_its_rows(opened, name):
    """Told by the host, or known to the device alone; around the length that selection begins at.

    A prompt read at once masks what is not selected; rows behind it gather what is.
    """
    blocks = opened(name).engine.parts.model.spec.blocks
    indexer = next(filter(None, (indexer_of(block.mixer) for block in blocks)))
    most = (indexer.most + 1) * indexer.pool - 1 if indexer.pool else indexer.most
    assert_goes_back_to_any_count(opened(name), (most - 3, most - 1), 27)


def indexer_of(mixer):
    """Of a layer that has one."""
    return mixer.indexer if isinstance(mixer, LatentAttentionSpec) else None


@pytest.mark.parametrize(
    ("name", "bits", "temperature"),
    [
        (NARROW, 16, 0.8),
        (SHARED, 8, 0),
        (FEW, 16, 0.8),
        (HY4, 8, 0),
        (POOLS, 8, 0.8),
        (THREES, 16, 0),
    ],
)
def test_words_with_the_head_are_those_without(opened, name, bits, temperature):
    """Of three chats alone and in shared passes, of which some select tokens and some do not yet.

    Index keys stay in 16 bits.
    """
    assert_same_words_drafted(opened(name).engine, temperature, bits, max_tokens=8)


@pytest.mark.parametrize("name", [SHARED, HY4, POOLS, THREES])
def test_a_prompt_masks_what_is_not_selected(opened, monkeypatch, name):
    """In a block that is long, beside one that gathers, to the same logits."""
    tiny, engine = opened(name)
    monkeypatch.setattr(latent_attention, "ABSORBED_ROWS", 2)
    model, found = engine.parts.model, []
    for share in (4, 1):
        monkeypatch.setattr(latent_attention, "MASKED_SHARE", share)
        caches = model.make_caches()
        for part in (tiny.tokens[:10], tiny.tokens[10:]):
            hidden = model.forward(mx.array([part]), caches)
            caches.commit(len(part))
        found.append(np.array(model.logits(hidden)[0]))
        assert relative(found[-1], tiny.logits[10:]) < 1e-4
    assert not np.array_equal(*found)


@pytest.mark.parametrize("name", [SHARED, HY4, POOLS])
def test_compiled_formulas_take_texts_of_any_length(opened, monkeypatch, name):
    """As on a GPU, where elementwise operations are compiled once for all shapes."""
    assert_compiled_for_any_length(opened(name), monkeypatch)


def test_saved_rows_hold_the_keys_of_indexers(opened):
    tiny, engine = opened(SHARED)
    model, start = engine.parts.model, 20
    whole, filled = model.make_caches(), model.make_caches()
    model.forward(mx.array([tiny.tokens[:start]]), whole)
    whole.commit(start)
    for layer, empty in zip(whole.layers, filled.layers, strict=True):
        empty.replace_rows(layer.rows(0, start))
    rest = mx.array([tiny.tokens[start:]])
    assert mx.array_equal(model.forward(rest, filled), model.forward(rest, whole))
    with pytest.raises(ValueError, match="not both"):
        filled.layers[0].replace_rows(whole.layers[1].rows(0, start))


@pytest.mark.parametrize("most", [1, 5])
def test_of_equal_scores_the_latest_tokens_are_selected(most):
    """Of few heads many scores are 0; alone and beside other rows, with any number of keys."""
    spec = IndexerSpec(heads=2, size=8, most=most, rope=RopeSpec(4, 100.0))
    shapes = {n.removeprefix("indexer."): shape for n, shape in spec.tensors(6, 5).items()}
    arrays = {n: normal(shape, seed) for seed, (n, shape) in enumerate(shapes.items())}
    indexer = Indexer(spec, Part(WeightTable(arrays, "tiny"), "", shapes))
    x, latent, side = normal((1, 12, 6), 1), normal((1, 12, 5), 2), mx.zeros((1, 1, 12, 32))
    whole = AttentionCache(others=1)
    whole.append(side, side, indexer.index_keys(x, 0))
    together = np.array(indexer.select_keys(x, latent, whole, 0).tokens)
    queries = np.array(indexer._rotate(
        (latent @ arrays["wq_b.weight"].T).reshape(1, 12, 2, 8).swapaxes(1, 2), 0))[0]  # fmt: skip
    keys, weights = (
        np.array(whole.others[0][0, 0]),
        np.array(x[0] @ arrays["weights_proj.weight"].T),
    )
    scores = np.einsum("ht,htl->tl", weights.T, np.maximum(queries @ keys.T, 0))
    alone = AttentionCache(others=1)
    for row in range(12):
        part = slice(row, row + 1)
        alone.append(side[:, :, part], side[:, :, part], indexer.index_keys(x[:, part], row))
        found = indexer.select_keys(x[:, part], latent[:, part], alone, row)
        alone.commit(1)
        if row < most:
            assert found is None
            continue
        ranked = sorted(range(row + 1), key=lambda place: (scores[row, place], place))
        assert set(together[row].tolist()) == set(ranked[-most:])
        assert np.array_equal(np.array(found.tokens)[0], together[row])
    assert (scores == 0).sum() > 24


def test_a_conversion_of_mlx_lm(opened, tmp_path):
    """Its tensors have other names, and it drops the head."""
    tiny = opened("3.2").tiny
    place = tmp_path / "m"
    save_model(place, open_in_mlx_lm(tiny.folder)[0])
    for file in tiny.folder.iterdir():
        if not file.name.startswith("model"):
            (place / file.name).write_bytes(file.read_bytes())
    assert mlx_engine.inspect(place).mtp.code == "heads-dropped"
    assert relative(logits(place, tiny.tokens), tiny.logits) < 1e-4


def split_name(name):
    """As mlx-vlm names a tensor of Hy4's head."""
    in_layer = name.startswith(("input_layernorm", "post_attention", "self_attn", "mlp"))
    name = stacked_name(name)
    return f"decoder.{name}" if in_layer else name.replace("final_layernorm", "norm")


def stacked_name(name):
    """As mlx-vlm names a stack of experts, gates and ups together."""
    return re.sub(r"\.experts\.(\w+)$", r".switch_mlp.\1.weight", name)


@pytest.mark.parametrize("name", ["5", HY4])
def test_heads_that_mlx_vlm_split_off(opened, tmp_path, name):
    """In a folder of their own, beside a trunk without them."""
    tiny, place, heads = opened(name).tiny, tmp_path / "m", tmp_path / "heads"
    arrays = mx.load(str(tiny.folder / "model.safetensors"))
    behind = "model.mtp_layers.0." if name == HY4 else f"model.layers.{LAYER}."
    for folder in (place, heads):
        folder.mkdir()
        for file in tiny.folder.glob("*.json"):
            (folder / file.name).write_bytes(file.read_bytes())
    trunk = {n: a for n, a in arrays.items() if not n.startswith(behind)}
    named = {n.removeprefix(behind): a for n, a in arrays.items() if n.startswith(behind)}
    split = {f"mtp.{n.replace('shared_head.', 'shared_head_')}": a for n, a in named.items()}
    if name == HY4:
        split = {split_name(n): a for n, a in named.items()}
        trunk = {f"language_model.{stacked_name(n)}": a for n, a in trunk.items()}
    mx.save_safetensors(str(place / "model.safetensors"), trunk)
    mx.save_safetensors(str(heads / "model.safetensors"), split)
    engine = mlx_engine.load(place, heads=heads)
    assert_as_published(engine, tiny)
    engine.close()


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, "FSFSSSS"),
        ({"attention.indexer.types": None}, "FFFFFFF"),
        ({"attention.indexer.types": None, "context_length": 2**20}, "FFFSSSF"),
    ],
)
def test_layers_that_share_in_a_gguf(changes, kinds):
    """Where a file does not say, a context of a million tokens means GLM-5.2, as in llama.cpp."""
    flags = np.array([kind == "F" for kind in "FSFSSSS"])
    given = {"context_length": 512, "attention.indexer.types": flags} | changes
    metadata = {f"glm-dsa.{key}": value for key, value in given.items() if value is not None}
    architecture = object.__new__(Deepseek32Gguf)
    architecture._metadata = GgufMetadata(Path("m.gguf"), metadata | _ARCHITECTURE)
    architecture._main_blocks, architecture.model_type = 7, "glm_moe_dsa"
    found = architecture._indexer_layer_types() or ["full"] * 7
    assert "".join(kind[0].upper() for kind in found) == kinds


_ARCHITECTURE = {"general.architecture": "glm-dsa"}


def test_a_gguf_of_deepseek(opened, tmp_path):
    tiny = opened("3.2").tiny
    engine = mlx_engine.load(convert(tiny.folder, tmp_path / "m.gguf"))
    assert_as_published(engine, tiny)
    engine.close()


def test_a_gguf_of_hy4(tmp_path):
    changes = {"hc_mult": 3, "hc_magnitude": 1.3, "hc_eps": 0.01, "swiglu_limit": 0.4}
    tiny = tiny_hy4.publish(tmp_path / "m", **changes)
    found = logits(convert(tiny.folder, tmp_path / "m.gguf"), tiny.tokens)
    assert relative(found, tiny.logits) < 1e-4


KINDS = [
    ({"indexer_types": ["full", "shared", "shared"]}, "FSS"),
    ({"index_topk_pattern": "FSF"}, "FSF"),
    ({"num_hidden_layers": 8, "index_topk_freq": 4, "index_skip_topk_offset": 3}, "FFFSSSFS"),
    ({}, "FFF"),
]


@pytest.mark.parametrize(("fields", "kinds"), KINDS)
def test_layers_that_share_a_selection(fields, kinds):
    """As transformers counts them, too."""
    config = SIZES | fields
    spec = family_for("glm_moe_dsa", config, "tiny").spec
    shared = [block.mixer.indexer.is_shared for block in spec.blocks]
    assert "".join("S" if one else "F" for one in shared) == kinds
    told = hf.GlmMoeDsaConfig(**(config | {"mlp_layer_types": None})).indexer_types
    assert "".join(kind[0].upper() for kind in told) == kinds


@pytest.mark.parametrize(
    ("kind", "changes", "named"),
    [
        ("glm_moe_dsa", {"indexer_types": ["shared", "full", "full"]}, "indexer_types"),
        ("glm_moe_dsa", {"indexer_types": ["full"]}, "indexer_types"),
        ("glm_moe_dsa", {"index_topk_pattern": "FSX"}, "indexer_types"),
        ("glm_moe_dsa", {"index_head_dim": 8}, "index_head_dim"),
        ("glm_moe_dsa", {"index_topk": 0}, "index_topk"),
        ("glm_moe_dsa", {"q_lora_rank": None}, "q_lora_rank"),
        ("hy_v4", {"hc_mult": 1}, "hc_mult"),
        ("hy_v4", {"hc_eps": 0}, "hc_eps"),
        ("hy_v4", {"swiglu_limit": -1}, "swiglu_limit"),
        ("hy_v4", {"gating_type": "headwise"}, "gating_type"),
    ],
)
def test_impossible_configs_are_refused_by_name(kind, changes, named):
    with pytest.raises(mlx_engine.EngineError, match=named):
        family_for(kind, SIZES | changes, "tiny").compute_sizes()
