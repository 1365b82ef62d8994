"""LongCat-Flash: trunk and head against transformers and mlx-lm, rounds, words and chats."""

import shutil

import mlx.core as mx
import numpy as np
import pytest
import tiny_longcat
from compared import normal, relative
from family_checks import assert_same_bits_after_any_count, assert_same_words_drafted, opening
from mlx_lm.utils import load_model as open_in_mlx_lm
from mlx_lm.utils import save_model
from model_edits import drop_tensors, edit_config, edit_tensors, logits
from tiny_longcat import NGRAMS
from tiny_nextn import assert_as_published

import mlx_engine
from mlx_engine.models.registry import family_for

YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 16,
    "mscale_all_dim": 0.9,
}
VARIANTS = {
    "as published": {"qk_rope_head_dim": 32, "head_dim": 32},
    "biases, YaRN, few experts": {
        "attention_bias": True,
        "rope_parameters": YARN,
        "rms_norm_eps": 0.3,
        "moe_topk": 2,
        "routed_scaling_factor": 1.5,
        "num_layers": 1,
    },
    "no idle experts, other ranks, the trunk's embedding": {
        "zero_expert_num": 0,
        "q_lora_rank": 48,
        "kv_lora_rank": 64,
        "v_head_dim": 16,
        "has_embedding": False,
    },
    "Lite": {"ngrams": NGRAMS, "num_layers": 1},
    "Lite, n-grams of four, one table each": {
        "ngrams": NGRAMS | {"emb_neighbor_num": 5, "emb_split_num": 1},
        "zero_expert_num": 1,
        "num_layers": 1,
    },
}
PLAINEST, ODD, _, LITE, _ = VARIANTS


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Each variant once."""

    def publish(name):
        return tiny_longcat.publish(tmp_path_factory.mktemp("longcat") / "m", **VARIANTS[name])

    with opening(publish) as get:
        yield get


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_draft_logits(opened, name):
    tiny, engine = opened(name)
    assert_as_published(engine, tiny)


@pytest.mark.parametrize("name", [PLAINEST, ODD, LITE])
def test_rows_are_the_same_bits_and_go_back_to_any_number(opened, name):
    """In blocks of any size; a count told by the host, or known to the device alone."""
    assert_same_bits_after_any_count(opened(name), 8, 17)


@pytest.mark.parametrize(
    ("name", "bits", "temperature"), [(PLAINEST, 8, 0), (ODD, 16, 0.8), (LITE, 16, 0.8)]
)
def test_words_with_the_head_are_those_without(opened, name, bits, temperature):
    """Of three chats alone and in shared passes."""
    assert_same_words_drafted(opened(name).engine, temperature, bits)


def test_a_conversion_of_mlx_lm_and_weights_that_are_normed(opened, tmp_path):
    """Its tensors have other names, it drops the head, and reads fields that others do not."""
    tiny, place = opened(PLAINEST).tiny, tmp_path / "m"
    needed = {"attention_method": "MLA", "zero_expert_type": "identity", "rope_theta": 1e7}
    needed |= {"mla_scale_q_lora": True, "mla_scale_kv_lora": True}
    needed |= {"norm_topk_prob": True, "router_bias": True}
    shutil.copytree(tiny.folder, place)
    edit_config(place, **needed)
    bias = {f"model.layers.{n}.mlp.router.classifier.bias": normal((9,), n) for n in range(2)}
    edit_tensors(place, lambda arrays: arrays | bias)
    theirs = open_in_mlx_lm(place)[0]
    wanted = np.array(theirs(mx.array([tiny.tokens])))[0]
    save_model(place, theirs)
    assert mlx_engine.inspect(place).mtp.code == "heads-dropped"
    assert relative(logits(place, tiny.tokens), wanted) < 1e-4
    edit_config(place, norm_topk_prob=None, router_bias=None)
    edit_tensors(place, lambda arrays: {n: a for n, a in arrays.items() if n not in bias})
    assert relative(logits(place, tiny.tokens), tiny.logits) < 1e-4


def test_a_lite_of_mlx_lm_whose_n_grams_do_not_end(opened, tmp_path):
    """Its words stand among the n-grams, and its class knows no end token; tables stay on disk."""
    tiny, place = opened(LITE).tiny, tmp_path / "m"
    shutil.copytree(tiny.folder, place)
    needed = {"mla_scale_q_lora": True, "mla_scale_kv_lora": True, "rope_theta": 1e7}
    edit_config(place, **needed, eos_token_id=299)
    theirs = open_in_mlx_lm(place)[0]
    wanted = np.array(theirs(mx.array([tiny.tokens])))[0]
    save_model(place, theirs)
    assert relative(logits(place, tiny.tokens), wanted) < 1e-4
    assert relative(wanted, tiny.logits) > 1e-2
    groups = {group.name: group for group in mlx_engine.inspect(place).groups}
    assert "other" not in groups
    assert groups["tables on disk"].parameters == 16 * sum(2 * 300 + 2 * n + 1 for n in range(4))


def test_a_file_of_the_head_alone(opened, tmp_path):
    """Its norm and embedding have no number, the rest has."""
    tiny, place = opened(PLAINEST).tiny, tmp_path / "m"
    shutil.copytree(tiny.folder, place)
    arrays = dict(mx.load(str(place / "model.safetensors")))
    heads = {n: a for n, a in arrays.items() if ".mtp." in n}
    mx.save_safetensors(str(tmp_path / "heads.safetensors"), heads)
    drop_tensors(place, ".mtp.")
    with mlx_engine.load(place, heads=tmp_path / "heads.safetensors") as engine:
        assert_as_published(engine, tiny)


def test_idle_experts_return_what_they_read(opened, tmp_path):
    """A router that chooses nothing else leaves every matrix of the experts without effect."""
    tiny = tiny_longcat.publish(tmp_path / "m", moe_topk=3)

    def idle(arrays):
        bias = {n: mx.array([0.0] * 6 + [9.0] * 3) for n in arrays if n.endswith("correction_bias")}
        return arrays | bias

    edit_tensors(tiny.folder, idle)
    found = logits(tiny.folder, tiny.tokens)
    edit_tensors(
        tiny.folder, lambda arrays: {n: a * (1 - (".experts." in n)) for n, a in arrays.items()}
    )
    assert np.array_equal(logits(tiny.folder, tiny.tokens), found)
    assert relative(found, tiny.logits) > 1e-2


@pytest.mark.parametrize(
    "changes",
    [
        {"q_lora_rank": None},
        {"moe_topk": 10},
        {"zero_expert_num": -1},
        {"zero_expert_type": "copy"},
        {"num_layers": 0},
        {"mla_scale_q_lora": False},
        {"emb_split_num": 3},
    ],
)
def test_impossible_configs_are_refused_by_name(changes):
    kind = "longcat_flash_ngram" if "emb_split_num" in changes else "longcat_flash"
    with pytest.raises(mlx_engine.EngineError, match=next(iter(changes))):
        family_for(kind, tiny_longcat.SIZES | changes, "tiny").compute_sizes()
