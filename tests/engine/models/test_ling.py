"""Ling 2.5 and 3.0 with their MTP head against mlx-lm's classes and transformers."""

import json
import shutil
from dataclasses import replace
from functools import cache

import mlx.core as mx
import pytest
import tiny_nextn
from compared import relative
from model_edits import drop_tensors
from session_runs import PICKS, PLAIN
from tiny_ling import LING_2_5, LING_3, RING, publish, publish_linear
from tiny_nextn import assert_as_published

import mlx_engine
from mlx_engine import BadModelFile, UnsupportedModel
from mlx_engine.models.registry import family_for
from mlx_engine.values.options import CacheOptions, DraftOptions

pytestmark = pytest.mark.usefixtures("rows_compared")

CONFIGS = {
    "2.5": LING_2_5,
    "2.5, six heads, one group, no query latent": LING_2_5
    | {"num_attention_heads": 6, "group_norm_size": 1, "q_lora_rank": None}
    | {"partial_rotary_factor": 0.25, "use_qk_norm": False, "num_shared_experts": 0},
    "2.5, other share of experts": LING_2_5
    | {"norm_topk_prob": False, "layer_group_size": 3, "head_dim": 32, "group_norm_size": 4},
    "3.0": LING_3,
    "3.0, within limits": LING_3
    | {"expert_swiglu_limit_list": [None, 0, 0.3, 0, 0.2], "kda_lower_bound": -2.0}
    | {"share_expert_swiglu_limit_list": [0, 0.5, 0, 0.1, 0], "short_conv_kernel_size": 2},
}
OF_TRANSFORMERS = {
    "3.0, endless decays, biases": {"kda_safe_gate": False, "attention_bias": True},
    "3.0, YaRN": {
        "norm_topk_prob": False,
        "rope_parameters": {
            **{"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "mscale": 0.7},
            **{"mscale_all_dim": 0.9, "original_max_position_embeddings": 16},
        },
    },
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each model once."""

    @cache
    def get(name):
        place = tmp_path_factory.mktemp("ling") / "m"
        if name in CONFIGS:
            return publish(place, CONFIGS[name])
        return tiny_nextn.publish(
            "bailing_hybrid", place, own=False, num_hidden_layers=3, **OF_TRANSFORMERS[name]
        )

    return get


def assert_folder_as_published(folder, tiny):
    engine = mlx_engine.load(folder)
    assert_as_published(engine, tiny)
    engine.close()


@pytest.mark.parametrize("name", [*CONFIGS, *OF_TRANSFORMERS])
def test_logits_and_draft_logits(made, name):
    tiny = made(name)
    assert_folder_as_published(tiny.folder, tiny)


TEXTS = ("the fox and the fox", "abc abc abc", "1 2 3 1 2 3")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"layer_group_size": 3, "use_qkv_bias": True, "norm_topk_prob": False, "n_group": 1,
         "topk_group": 1},
        {"num_attention_heads": 6, "hidden_size": 96, "group_norm_size": 1, "use_qk_norm": False,
         "num_shared_experts": 0, "partial_rotary_factor": 0.25},
    ],
)  # fmt: skip
def test_linear_variants_of_2_0(tmp_path, changes):
    """Ring linear: logits are those of mlx-lm's class, words with drafts those without."""
    tiny = publish_linear(tmp_path / "m", RING | changes)
    with mlx_engine.load(tmp_path / "m") as engine:
        assert relative(engine.logits(tiny.tokens), tiny.logits) < 1e-4
        asked = {"max_tokens": 10, "sampling": PICKS, "ignore_eos": True}
        truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
        together = engine.generate_many(TEXTS, draft=DraftOptions(depth=3), **asked)
        assert [answer.tokens for answer in together] == truth


@pytest.mark.parametrize("name", ["2.5", "3.0, within limits"])
def test_words_with_the_head_are_those_without(made, name):
    """Of three chats alone and in shared passes, cold and warm, some drafts being right."""
    engine, greedy = mlx_engine.load(made(name).folder), replace(PICKS, temperature=0)
    for sampling, bits in ((PICKS, 16), (PICKS, 8), (greedy, 16)):
        asked = {"max_tokens": 12, "sampling": sampling, "ignore_eos": True}
        asked |= {"cache": CacheOptions(bits=bits, head_bits=bits)}
        truth = [engine.generate(text, draft=PLAIN, **asked).tokens for text in TEXTS]
        drafted, accepted = DraftOptions(depth=3), 0
        for answers in (
            [engine.generate(text, draft=drafted, **asked) for text in TEXTS],
            engine.generate_many(TEXTS, draft=drafted, **asked),
        ):
            assert [answer.tokens for answer in answers] == truth
            accepted += sum(answer.stats.accepted for answer in answers)
        assert accepted
    engine.close()


def test_dropped_and_separate_heads(made, tmp_path):
    """Conversions of mlx-lm lack them; Ling 2.6 has them in a file that its index leaves out."""
    tiny = made("3.0")
    place = shutil.copytree(tiny.folder, tmp_path / "m")
    drop_tensors(place, "model.layers.5.")
    assert mlx_engine.inspect(place).mtp.code == "heads-dropped"
    arrays = mx.load(str(tiny.folder / "model.safetensors"))
    heads = {name: array for name, array in arrays.items() if name.startswith("model.layers.5.")}
    mx.save_safetensors(str(place / "model-mtp-layer.safetensors"), heads)
    listed = {"weight_map": dict.fromkeys(arrays.keys() - heads.keys(), "model.safetensors")}
    (place / "model.safetensors.index.json").write_text(json.dumps(listed))
    assert_folder_as_published(place, tiny)


@pytest.mark.parametrize(
    ("base", "changes", "named"),
    [
        (LING_2_5, {"group_norm_size": 3}, "group_norm_size"),
        (LING_2_5, {"linear_silu": True}, "linear_silu"),
        (LING_2_5, {"layer_group_size": 0}, "layer_group_size"),
        (LING_3, {"kda_lower_bound": 5.0}, "kda_lower_bound"),
        (LING_3, {"no_kda_lora": False}, "no_kda_lora"),
        (LING_3, {"use_mla_nope": True}, "use_mla_nope"),
        (LING_3, {"num_experts": 6}, "n_group"),
        (LING_3, {"short_conv_kernel_size": 0}, "short_conv_kernel_size"),
    ],
)
def test_impossible_configs_are_refused_by_name(base, changes, named):
    with pytest.raises((BadModelFile, UnsupportedModel), match=named):
        family_for("bailing_hybrid", base | changes, "tiny").compute_sizes()
