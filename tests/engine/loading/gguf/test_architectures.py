"""GGUFs of the families that mlx-lm's classes run: the numbers of the folders they are made of."""

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import gguf
import mlx.core as mx
import numpy as np
import pytest
from compared import relative
from converted_gguf import Storage, convert
from dialled_draft import DialledDraft
from model_edits import edit_config, logits
from plain_run import run
from tiny_published import ARCHITECTURES, VOCABULARY, WINDOW, publish
from tiny_stacks import write_stack

import mlx_engine
from mlx_engine.drafting.drafter import NoDraft

TYPES = gguf.GGMLQuantizationType
PLAIN = {"rope_type": "default", "rope_theta": 1e4}
LINEAR = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 4.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "original_max_position_embeddings": 128,
}
LONG = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0 + 0.1 * step for step in range(8)],
    "long_factor": [1.5 + 0.5 * step for step in range(8)],
    "original_max_position_embeddings": 64,
}
V2 = {
    name: value
    for name, value in ARCHITECTURES["deepseek_v3"][1].items()
    if name not in ("q_lora_rank", "n_group", "topk_group")
}
GEMMA = {
    "num_hidden_layers": 7,
    "layer_types": [*["sliding_attention"] * 5, "full_attention", "sliding_attention"],
    "rope_parameters": {"sliding_attention": PLAIN, "full_attention": LINEAR},
}
KINDS: dict[str, tuple[str, dict[str, object]]] = {
    "llama with factors": ("llama", {}),
    "llama, yarn": ("llama", {"rope_parameters": YARN}),
    "llama, linear": ("llama", {"rope_parameters": LINEAR}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mixtral": ("mixtral", {}),
    "qwen2, tied": ("qwen2", {}),
    "qwen3": ("qwen3", {}),
    "qwen3_moe": ("qwen3_moe", {}),
    "exaone_moe": ("exaone_moe", {}),
    "cohere": ("cohere", {}),
    "cohere2": ("cohere2", {}),
    "gemma": ("gemma", {}),
    "phi": ("phi", {}),
    "starcoder2": ("starcoder2", {}),
    "stablelm": ("stablelm", {"qk_layernorm": True, "use_parallel_residual": True}),
    "nemotron": ("nemotron", {}),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", {}),
    "qwen3_moe, yarn": ("qwen3_moe", {"rope_parameters": YARN}),
    "mixtral, linear": ("mixtral", {"rope_parameters": LINEAR}),
    "gemma3": ("gemma3_text", GEMMA),
    "glm4_moe, yarn": ("glm4_moe", {"rope_parameters": YARN | {"partial_rotary_factor": 0.5}}),
    "gpt_oss": ("gpt_oss", {}),
    "glm4_moe": ("glm4_moe", {"attention_bias": True}),
    "glm4_moe_lite": ("glm4_moe_lite", {}),
    "deepseek_v3": ("deepseek_v3", {}),
    "deepseek_v3, yarn": (
        "deepseek_v3",
        {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}},
    ),
    "phi3": ("phi3", {}),
    "phi3, no window": ("phi3", {"sliding_window": None}),
    "phi3, partly rotated": ("phi3", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.75}}),
    "phi3, longrope": (
        "phi3",
        {"rope_parameters": LONG, "original_max_position_embeddings": 64, "sliding_window": None},
    ),
    "glm4": ("glm4", {"attention_bias": True}),
    "glm4, no biases": ("glm4", {"attention_bias": False}),
    "glm4, yarn": ("glm4", {"rope_parameters": YARN | {"partial_rotary_factor": 0.5}}),
    "glm4 of a model with eyes": (
        "glm4",
        {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5, "mrope_section": [2, 3, 3]}},
    ),
    "glm": ("glm", {}),
    "olmo2": ("olmo2", {}),
    "olmo2, yarn": ("olmo2", {"rope_parameters": YARN}),
    "ernie4_5_moe": ("ernie4_5_moe", {"rope_parameters": PLAIN}),
    "ernie4_5_moe, some layers": (
        "ernie4_5_moe",
        {
            "rope_parameters": PLAIN,
            "num_hidden_layers": 6,
            "moe_layer_interval": 2,
            "moe_layer_start_index": 2,
            "moe_layer_end_index": 4,
        },
    ),
    "ernie4_5_moe, biases": (
        "ernie4_5_moe",
        {"rope_parameters": PLAIN, "use_bias": True, "moe_num_shared_experts": 0},
    ),
    "minimax_m2": ("minimax_m2", {"rope_parameters": PLAIN | {"partial_rotary_factor": 0.5}}),
    "llama, biases": (
        "llama",
        {"rope_parameters": PLAIN, "attention_bias": True, "mlp_bias": True},
    ),
    "xverse": ("llama", {"rope_parameters": PLAIN}),
    "internlm2": ("llama", {"rope_parameters": LINEAR}),
    "exaone": ("llama", {}),
    "pangu-embedded": ("llama", {"rope_parameters": PLAIN, "attention_bias": True}),
    "seed_oss": ("seed_oss", {}),
    "seed_oss, yarn": ("seed_oss", {"rope_parameters": YARN}),
    "smollm3": ("smollm3", {}),
    "smollm3, yarn": ("smollm3", {"rope_parameters": YARN}),
    "olmo3": ("olmo3", {"rope_parameters": {"sliding_attention": PLAIN, "full_attention": PLAIN}}),
    "olmo3, yarn": (
        "olmo3",
        {"rope_parameters": {"sliding_attention": PLAIN, "full_attention": YARN}},
    ),
    "exaone4": ("exaone4", {}),
    "exaone4, no window": (
        "exaone4",
        {"sliding_window": None, "layer_types": ["full_attention"] * 4},
    ),
    "ernie4_5": ("ernie4_5", {}),
    "ministral3": ("ministral3", {}),
    "gemma2": ("gemma2", {}),
    "qwen2_moe": ("qwen2_moe", {}),
    "olmoe": ("olmoe", {}),
    "mistral3": ("llama", {"rope_parameters": PLAIN, "head_dim": 24}),
    "granite": (
        "granite",
        {
            "rope_parameters": PLAIN,
            "attention_multiplier": 0.4,
            "embedding_multiplier": 12.0,
            "logits_scaling": 8.0,
            "residual_multiplier": 0.3,
        },
    ),
    "qwen2vl": ("qwen2", {}),
    "qwen3vl": ("qwen3", {}),
    "qwen3vlmoe": ("qwen3_moe", {}),
    "dots1": ("dots1", {}),
    "bailingmoe2": ("glm4_moe", {}),
    "deepseek_v2": ("deepseek_v2", {"q_lora_rank": 32, "routed_scaling_factor": 2.0}),
    "deepseek_v2, yarn": (
        "deepseek_v2",
        {"q_lora_rank": None, "rope_parameters": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707}},
    ),
}
AS = ("mistral3", "xverse", "internlm2", "exaone", "pangu-embedded", "qwen2vl", "qwen3vl",
      "qwen3vlmoe", "bailingmoe2")  # fmt: skip
"""Architectures of layers that transformers has by another name."""
STACKED = ("mimo_v2_flash", "step3p5")
JOINED = (
    "llama with factors",
    "qwen2, tied",
    "qwen3_moe",
    "gpt_oss",
    "mimo_v2_flash",
    "glm",
    "glm4 of a model with eyes",
    "bailingmoe2",
    "seed_oss",
    "ministral3",
)
OLD_LATENTS = ("deepseek_v3", "deepseek_v2")
DRAFTED = (
    "llama with factors",
    "phi3",
    "olmo2",
    "olmo3",
    "exaone4",
    "smollm3",
    "ministral3",
    "gemma3",
    "gpt_oss",
    "deepseek_v3",
    "mimo_v2_flash",
)
PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4]


class Made(NamedTuple):
    """truth: transformers' logits, or for what it has no tiny form of, those of the folder."""

    folder: Path
    tokens: list[int]
    truth: np.ndarray
    architecture: str | None = None

    def convert(self, file: Path, **how: object) -> Path:
        return convert(self.folder, file, architecture=self.architecture, **how)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Made]:
    """Each kind once."""
    place = tmp_path_factory.mktemp("tiny")
    return cache(lambda kind: _publish(kind, place / kind.replace(", ", "-").replace(" ", "-")))


def _publish(kind: str, folder: Path) -> Made:
    if kind in STACKED:
        write_stack(folder, kind)
        tokens = [int(t) for t in np.random.default_rng(0).integers(0, VOCABULARY, 41)]
        return Made(folder, tokens, logits(folder, tokens))
    name, changes = KINDS[kind]
    if name == "deepseek_v2":
        ARCHITECTURES.setdefault(name, ("DeepseekV2", V2 | {"topk_method": "greedy"}))
    tiny = publish(name, folder, changes=changes)
    if name == "qwen3_moe":  # which transformers writes by another name
        edit_config(folder, num_experts=4)
    return Made(tiny.folder, tiny.tokens, tiny.logits, kind if kind in AS else None)


@pytest.mark.parametrize("kind", [*KINDS, *STACKED])
def test_logits_and_sizes(made, tmp_path, kind):
    """Sizes: what inspect says of a GGUF is what the caches hold, at 4k and at full context."""
    tiny = made(kind)
    file = tiny.convert(tmp_path / "m.gguf")
    engine = mlx_engine.load(file)
    assert relative(engine.logits(tiny.tokens), tiny.truth) < 1e-4
    assert relative(logits(tiny.folder, tiny.tokens), tiny.truth) < 1e-4
    told, caches = engine.description, engine.parts.model.make_caches()
    engine.parts.model.forward(mx.array([tiny.tokens[:1]]), caches)
    values = sum(array.nbytes // array.shape[2] for cache in caches.layers
                 for array in cache.arrays() if array.ndim == 4)  # fmt: skip
    if not told.mtp_heads:
        assert told.cache_bytes_per_token + told.state_bytes // WINDOW == values
    told, folder = mlx_engine.inspect(file), mlx_engine.inspect(tiny.folder)
    sizes, wanted = (one.with_machine(has_metal=False) for one in (told, folder))
    for context in (4096, told.context_length):  # in float32, as the folder is
        grown = sizes.memory_needed(context) - sizes.memory_needed(1)
        assert grown == wanted.memory_needed(context) - wanted.memory_needed(1)
    assert told.parameters == folder.parameters
    assert told.mtp_heads == folder.mtp_heads == (3 if kind in STACKED else 0)
    assert told.context_length == folder.context_length == 512
    engine.close()


@pytest.mark.parametrize("kind", ["mixtral", "glm4_moe", "gpt_oss", "step3p5", "minimax_m2"])
def test_experts_that_rest(made, tmp_path, kind):
    """Two of four are asked."""
    told = mlx_engine.inspect(made(kind).convert(tmp_path / "m.gguf"))
    groups = {group.name: group.parameters for group in told.groups}
    trunk = told.parameters - groups.get("MTP head", 0)
    assert told.active_parameters == trunk - groups["experts"] // 2


@pytest.mark.parametrize("kind", JOINED)
def test_joined_tensors(made, tmp_path, kind):
    """Queries, keys and values in one, gates and ups of experts in one."""
    tiny = made(kind)
    file = tiny.convert(tmp_path / "m.gguf", joined=True)
    assert relative(logits(file, tiny.tokens), tiny.truth) < 1e-4


def blocks_of_32(kind: TYPES) -> Storage:
    """All matrices of this type whose rows allow it; routers are never packed."""
    return Storage(lambda name: None if "gate_inp" in name or "attn_k_b" in name else kind)


def test_a_text_beyond_the_trained_length(tmp_path):
    """Is rotated by the second list, as in the folder (test_plain_families.py)."""
    short = {"original_max_position_embeddings": 16}
    tiny = publish("phi3", tmp_path / "m", changes=short | {"rope_parameters": LONG | short})
    file = convert(tiny.folder, tmp_path / "m.gguf")
    found, wanted = logits(file, tiny.tokens), logits(tiny.folder, tiny.tokens)
    assert relative(found, wanted) < 1e-5
    assert relative(found[-1], tiny.logits[-1]) < 1e-4


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        ("llama with factors", TYPES.Q8_0),
        ("mixtral", TYPES.Q4_0),
        ("qwen2, tied", TYPES.Q8_0),
        ("gemma3", TYPES.Q4_0),
        ("deepseek_v3", TYPES.Q8_0),
        ("deepseek_v2", TYPES.Q8_0),
        ("mimo_v2_flash", TYPES.Q8_0),
        ("step3p5", TYPES.Q4_0),
        ("llama with factors", TYPES.F16),
        ("glm4_moe", TYPES.BF16),
        ("phi3", TYPES.Q4_0),
        ("glm4 of a model with eyes", TYPES.Q8_0),
        ("olmo2", TYPES.Q8_0),
        ("ernie4_5_moe", TYPES.Q8_0),
        ("minimax_m2", TYPES.Q4_0),
        ("ministral3", TYPES.Q8_0),
    ],
)
def test_packed_equals_unpacked(made, tmp_path, monkeypatch, kind, packed):
    """As the same values in float32, kept packed or laid out for the CPU."""
    tiny, storage = made(kind), blocks_of_32(packed)
    file = tiny.convert(tmp_path / "m.gguf", storage=storage)
    unpacked = tiny.convert(tmp_path / "u.gguf", storage=storage._replace(unpacked=True))
    wanted = logits(unpacked, tiny.tokens)
    assert relative(logits(file, tiny.tokens), wanted) < 1e-5
    monkeypatch.setattr("mlx_engine.loading.load.CPU_LAYOUT_LIMIT", 0)
    assert relative(logits(file, tiny.tokens), wanted) < 1e-4
    described = mlx_engine.inspect(file)
    assert described.parameters == mlx_engine.inspect(tiny.folder).parameters
    if packed in (TYPES.Q8_0, TYPES.Q4_0):
        assert f"{packed.name} as " in described.quantisation


@pytest.mark.parametrize("storage", [Storage(), blocks_of_32(TYPES.Q4_0)])
@pytest.mark.parametrize("kind", OLD_LATENTS)
def test_latents_of_older_files(made, tmp_path, kind, storage):
    tiny = made(kind)
    file = tiny.convert(tmp_path / "m.gguf", storage=storage, old_latents=True,
                   changes=_without_lengths(tiny))  # fmt: skip
    unpacked = tiny.convert(tmp_path / "u.gguf", old_latents=True,
                       storage=storage._replace(unpacked=True))  # fmt: skip
    assert relative(logits(file, tiny.tokens), logits(unpacked, tiny.tokens)) < 1e-5


def _without_lengths(tiny: Made) -> dict[str, object]:
    """Heads of 32 with 32 values; the keys for other lengths came with split latents."""
    return {
        "deepseek2.attention.key_length": 32,
        "deepseek2.attention.value_length": 32,
        "deepseek2.attention.key_length_mla": None,
        "deepseek2.attention.value_length_mla": None,
    }


def test_experts_of_gpt_oss_keep_their_packing(made, tmp_path):
    tiny = made("gpt_oss")
    storage = Storage(lambda name: TYPES.MXFP4 if "exps" in name else TYPES.Q8_0
                      if "attn" in name else None)  # fmt: skip
    file = tiny.convert(tmp_path / "m.gguf", storage=storage)
    unpacked = tiny.convert(tmp_path / "u.gguf", storage=storage._replace(unpacked=True))
    assert relative(logits(file, tiny.tokens), logits(unpacked, tiny.tokens)) < 1e-5
    groups = {group.name: group for group in mlx_engine.inspect(file).groups}
    assert groups["experts"].storage.startswith("MXFP4 as mxfp4, groups of 32")


@pytest.mark.parametrize("packed", [TYPES.Q4_K, TYPES.Q6_K])
@pytest.mark.parametrize("kind", ["llama", "phi3"])
def test_k_quants(tmp_path, kind, packed):
    """Rows are of 256."""
    wide = {"hidden_size": 256, "intermediate_size": 256}
    tiny = publish(kind, tmp_path / "wide", changes=wide)
    storage = Storage(lambda name: packed if "attn" in name or "ffn" in name else None)
    file = convert(tiny.folder, tmp_path / "m.gguf", storage=storage)
    unpacked = convert(tiny.folder, tmp_path / "u.gguf", storage=storage._replace(unpacked=True))
    assert relative(logits(file, tiny.tokens), logits(unpacked, tiny.tokens)) < 1e-5


@pytest.mark.parametrize(
    ("kind", "depth"), [(kind, (4, 1)[place % 2]) for place, kind in enumerate(DRAFTED)]
)
def test_drafts_keep_the_words(made, tmp_path, kind, depth):
    storage = blocks_of_32(TYPES.Q8_0)
    file = made(kind).convert(tmp_path / "m.gguf", storage=storage)
    engine = mlx_engine.load(file)
    model, length = engine.parts.model, 3 * WINDOW
    truth = run(model, PROMPT, NoDraft(), 0, max_tokens=length).tokens
    right: Iterator[int] = itertools.cycle(range(depth + 1))
    source = DialledDraft([*PROMPT, *truth], right, VOCABULARY)
    ran = run(model, PROMPT, source, depth, max_tokens=length)
    assert ran.tokens == truth
    assert 0 < ran.stats.accepted < ran.stats.drafted
    engine.close()


@pytest.mark.parametrize(
    ("kind", "changes", "without", "says"),
    [
        ("phi3, longrope", {}, "factors_long", "rope_factors_long.weight is missing"),
        ("phi3", {"phi3.rope.scaling.type": "yarn"}, "", "rope scaling .*yarn"),
        (
            "olmo3",
            {"olmo2.attention.sliding_window_pattern": np.array([1, 2, 1], np.int32)},
            "",
            "an interval or a list of yes and no",
        ),
        ("minimax_m2", {"minimax-m2.expert_gating_func": 1}, "", "expert_gating_func"),
        ("glm4", {"glm4.rope.dimension_count": 64}, "", "rope.dimension_count"),
        ("phi3", {"phi3.feed_forward_length": 64}, "", r"ffn_down.weight has the shape \[64, 96\]"),
        ("ernie4_5_moe", {}, "blk.1.exp_probs_b", "e_score_correction_bias"),
    ],
)
def test_what_is_refused(made, tmp_path, kind, changes, without, says):
    file = made(kind).convert(tmp_path / "m.gguf", changes=changes, without=without)
    with pytest.raises(mlx_engine.EngineError, match=says) as refused:
        mlx_engine.load(file)
    assert str(refused.value).startswith(f"{file}: ")
