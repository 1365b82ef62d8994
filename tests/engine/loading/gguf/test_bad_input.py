"""GGUFs for mlx-lm's classes that cannot be right: an EngineError that names file and key."""

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from converted_gguf import convert
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tiny_published import publish
from tiny_stacks import HEADS, write_stack

import mlx_engine
from mlx_engine.values.errors import BadModelFile, EngineError, UnsupportedModel

TOKENS = [5, 9, 200, 31]
FAMILIES = ("llama", "mixtral", "qwen3_moe", "gemma3_text", "gpt_oss", "glm4_moe", "deepseek_v3",
            "mimo_v2_flash", "step3p5")  # fmt: skip
NAMES = {"mixtral": "llama", "qwen3_moe": "qwen3moe", "gemma3_text": "gemma3",
         "gpt_oss": "gpt-oss", "glm4_moe": "glm4moe", "deepseek_v3": "deepseek2",
         "mimo_v2_flash": "mimo2", "step3p5": "step35"}  # fmt: skip
GEMMA = {
    "num_hidden_layers": 7,
    "layer_types": [*["sliding_attention"] * 5, "full_attention", "sliding_attention"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each family once."""
    place = tmp_path_factory.mktemp("tiny")

    @cache
    def get(family: str) -> Path:
        if family in HEADS:
            return write_stack(place / family, family, heads=False)
        changes = GEMMA if family == "gemma3_text" else None
        return publish(family, place / family, changes=changes).folder

    return get


def keyed(family: str, changes: dict[str, object]) -> dict[str, object]:
    name = NAMES.get(family, family)
    return {key if "/" in key else f"{name}.{key}": value for key, value in changes.items()}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("changes", "without", "named"),
    [
        ({}, "blk.1.attn_norm", "input_layernorm"),
        ({}, "token_embd", "token_embd.weight"),
        ({}, "output_norm", r"\bnorm.weight"),
        ({}, "blk.1.", "block_count"),
        ({"attention.head_count": 0}, "", "head_count"),
        ({"attention.head_count": 3}, "", "3|shape"),
        ({"attention.head_count": None}, "", "attention.head_count is None"),
        ({"attention.head_count": "many"}, "", "attention.head_count is 'many'"),
        ({"embedding_length": None}, "", "embedding_length is None"),
        ({"embedding_length": 128}, "", "shape|rope.dimension_count"),
        ({"context_length": None}, "", "context_length is None"),
        ({"block_count": 2**31 - 1}, "", "block_count"),
        ({"rope.freq_base": float("nan")}, "", "rope.freq_base is nan"),
        ({"rope.scaling.type": "dynamic"}, "", "'dynamic'"),
        ({"rope.scaling.type": "longrope"}, "", "'longrope'"),
        ({"attention.layer_norm_rms_epsilon": float("inf")}, "", "rms_norm_eps|layernorm_epsilon"),
        ({"final_logit_softcapping": 30.0}, "", "final_logit_softcapping"),
    ],
)
def test_what_cannot_run_is_named(folders, tmp_path, family, changes, without, named):
    file = convert(
        folders(family), tmp_path / "m.gguf", changes=keyed(family, changes), without=without
    )
    with pytest.raises((BadModelFile, UnsupportedModel), match=named) as caught:
        mlx_engine.load(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in
                                    ("llama", "gemma3_text")])  # fmt: skip
@pytest.mark.parametrize(
    ("changes", "without", "named"),
    [
        ({"expert_used_count": 0}, "", "expert_used_count"),
        ({"expert_used_count": 9}, "", "expert_used_count"),
        ({"expert_count": 6}, "", "shape"),
        ({}, "blk.1.ffn_up_exps", "up_proj"),
        ({}, "blk.1.ffn_gate_inp", "gate|router|gate_proj"),
    ],
)
def test_experts_that_cannot_be(folders, tmp_path, family, changes, without, named):
    file = convert(
        folders(family), tmp_path / "m.gguf", changes=keyed(family, changes), without=without
    )
    with pytest.raises(BadModelFile, match=named) as caught:
        mlx_engine.load(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("family", "changes", "error"),
    [
        ("llama", {"expert_count": 4, "expert_used_count": 2}, BadModelFile),
        ("llama", {"rope.dimension_count": 8}, BadModelFile),
        ("qwen3_moe", {"expert_count": 0}, BadModelFile),
        ("glm4_moe", {"expert_gating_func": 1}, UnsupportedModel),
        ("glm4_moe", {"rope.dimension_count": 99}, BadModelFile),
        ("deepseek_v3", {"expert_gating_func": 7}, UnsupportedModel),
        ("deepseek_v3", {"rope.dimension_count": 32}, BadModelFile),
        ("deepseek_v3", {"attention.kv_lora_rank": 0}, BadModelFile),
        ("deepseek_v3", {"attention.temperature_scale": 0.1}, UnsupportedModel),
        ("gemma3_text", {"attention.sliding_window_pattern": np.array([2, 3] * 4)}, BadModelFile),
        ("gemma3_text", {"rope.scaling.type": "yarn"}, UnsupportedModel),
        ("gpt_oss", {"attention.sliding_window": None}, BadModelFile),
        ("mimo_v2_flash", {"attention.sliding_window_pattern": np.zeros(4, int)}, UnsupportedModel),
        ("mimo_v2_flash", {"attention.head_count_kv": np.array([1, 3, 2, 1])}, EngineError),
        ("step3p5", {"attention.sliding_window_pattern": np.ones(2, int)}, BadModelFile),
        ("step3p5", {"attention.head_count": np.array([4, 5, 6, 4])}, EngineError),
    ],
)
def test_variants_that_cannot_be(folders, tmp_path, family, changes, error):
    file = convert(folders(family), tmp_path / "m.gguf", changes=keyed(family, changes))
    with pytest.raises(error) as caught:
        mlx_engine.load(file)
    assert str(file) in str(caught.value)


VALUES = st.one_of(
    st.none(),
    st.integers(0, 2**32 - 1),
    st.integers(0, 70),
    st.floats(width=32),
    st.booleans(),
    st.text(max_size=5),
    st.lists(st.integers(-3, 99), min_size=1, max_size=8).map(lambda v: np.array(v, np.int32)),
)
KEYS = ("block_count", "context_length", "embedding_length", "feed_forward_length",
        "attention.head_count", "attention.head_count_kv", "attention.key_length",
        "attention.value_length", "attention.sliding_window", "attention.sliding_window_pattern",
        "attention.value_scale", "attention.layer_norm_rms_epsilon", "expert_count",
        "expert_used_count", "expert_feed_forward_length", "expert_group_count",
        "expert_group_used_count", "expert_weights_scale", "expert_weights_norm",
        "nextn_predict_layers", "rope.freq_base", "rope.dimension_count", "rope.scaling.type",
        "rope.scaling.factor")  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=1, max_size=3))
@example({"attention.sliding_window": 1_900_000})
def test_any_metadata(folders, tmp_path, changes):
    """Refused, or harmless: then the model still answers with numbers."""
    file = convert(
        folders("mimo_v2_flash"), tmp_path / "m.gguf", changes=keyed("mimo_v2_flash", changes)
    )
    try:
        engine = mlx_engine.load(file)
        engine.logits(TOKENS)
        engine.close()
    except EngineError as error:
        assert str(file) in str(error)
    shutil.rmtree(tmp_path / "m-tokenizer", ignore_errors=True)
