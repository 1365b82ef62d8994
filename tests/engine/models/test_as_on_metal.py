"""One model of each kind of layer as on Metal: 16-bit numbers, kernels by the emulator.

Types, bytes of caches, and text with drafting against text without, for a folder of 4 bits and for
a GGUF, whose norms and routers are float32 and some of whose matrices stay in its own blocks.
Every layer that attends does so by the kernel, also over caches of 8 and 4 bits.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import mlx.core as mx
import numpy as np
import pytest
from dialled_draft import DialledDraft
from kernel_models import every_kernel
from metal_emulator import EmulatorLauncher
from plain_run import Ran, run

from metal_kernels.choice import NO_ROWS, Kernels, Verdict
from metal_kernels.key_value_formats import cache_format_name
from mlx_engine.cache.attention import GROWTH, AttentionCache, RowsCache
from mlx_engine.cache.contract import LayerCaches
from mlx_engine.cache.joint import combine_caches
from mlx_engine.cache.recurrent import RecurrentCache
from mlx_engine.cache.window import WindowCache
from mlx_engine.drafting.drafter import NoDraft
from mlx_engine.drafting.mtp import MtpDraft
from mlx_engine.models.decoder import Decoder, build_decoder
from mlx_engine.models.latent_attention import PerHeadMatrices
from mlx_engine.models.layer_specs import Shapes
from mlx_engine.models.layers import Linear
from mlx_engine.models.model_spec import ModelSpec
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.norm_shift import has_norm_shift
from mlx_engine.models.registry import family_for
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.options import (
    UNQUANTISED,
    CacheBits,
    CacheOptions,
    DraftOptions,
    SamplingOptions,
)

VOCABULARY, HIDDEN, TOKENS = 96, 256, 9
CHUNK = 16  # stock MLX reads the prompt, kernels all else
PROMPT = [5, 1, 30, 17, 2, 9, 9, 21, 4, 60, 61, 3]
_COMMON = {
    "hidden_size": HIDDEN,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
_EXPERTS = {"moe_intermediate_size": 64, "num_experts_per_tok": 2, "norm_topk_prob": True}
_DELTA = {
    "full_attention_interval": 2,
    "linear_key_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 32,
    "mtp_num_hidden_layers": 1,
}
_LATENT = {
    "q_lora_rank": 64,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "first_k_dense_replace": 1,
    "n_routed_experts": 8,
    "n_group": 2,
    "topk_group": 1,
    "scoring_func": "sigmoid",
    "n_shared_experts": 1,
    "num_nextn_predict_layers": 1,
    **_EXPERTS,
}
_INDEXED = {"index_n_heads": 8, "index_head_dim": 64, "index_topk": 8, "index_topk_pattern": "FS"}
BIASED = "biases by distance, short convolutions"
CONFIGS = {
    "attention": {"model_type": "llama"},
    "sliding window": {"model_type": "gemma3_text", "sliding_window": 8},
    "window and sinks": {
        "model_type": "gpt_oss",
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 8,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "latent attention": {"model_type": "deepseek_v3", **_LATENT},
    "selected latents": {"model_type": "hy_v4", **_LATENT, **_INDEXED},
    "two latents, idle experts": {
        **{"model_type": "longcat_flash", **_LATENT, "num_layers": 1, "ffn_hidden_size": 256},
        **{
            "expert_ffn_hidden_size": 64,
            "zero_expert_num": 4,
            "moe_topk": 3,
            "routed_scaling_factor": 0.1,
        },
    },
    BIASED: {
        **{"model_type": "inkling_text", **_EXPERTS, "n_routed_experts": 8, "d_rel": 8},
        **{"num_key_value_heads": 2, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2},
        **{"swa_head_dim": 32, "sliding_window_size": 8, "rel_extent": 12, "local_layer_ids": [0]},
        **{"log_scaling_n_floor": 8, "num_mtp_layers": 1, "n_shared_experts": 1},
    },
    "pools of latents": {
        **{"model_type": "glm5_next", **_LATENT, **_INDEXED, "qk_rope_head_dim": 0},
        **{"index_kpool": 4, "index_topk_pattern": "FF", "hc_mult": 2, "hc_sinkhorn_iters": 2},
        **{"layer_types": ["linear_attention", "full_attention"], "linear_num_heads": 2},
        **{"linear_head_dim": 32},
    },
    "compressed entries": {
        **{"model_type": "deepseek_v4", **_EXPERTS, **_INDEXED, "n_routed_experts": 8},
        **{"num_key_value_heads": 1, "qk_rope_head_dim": 32, "q_lora_rank": 64, "o_groups": 2},
        **{"layer_types": ["compressed_sparse_attention", "heavily_compressed_attention"]},
        "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 8},
        **{"sliding_window": 8, "o_lora_rank": 64, "num_hash_layers": 0, "index_topk": 2},
        **{"hc_mult": 2, "hc_sinkhorn_iters": 2, "num_nextn_predict_layers": 1},
    },
    "shared entries": {
        **{"model_type": "deepseek_v41", **_EXPERTS, **_INDEXED, "n_routed_experts": 8},
        **{"num_key_value_heads": 1, "qk_rope_head_dim": 32, "q_lora_rank": 64, "o_groups": 2},
        **{"compress_ratios": [2, 1], "kv_source_layer_ids": [0, 1], "index_topk": 2},
        **{"index_source_layer_ids": [0, 1], "sliding_window": 8, "o_lora_rank": 64},
        **{"hc_mult": 2, "hc_sinkhorn_iters": 2},
    },
    "decay by channel": {
        **{"model_type": "bailing_hybrid", "kda_lower_bound": -5.0, **_LATENT},
        **{"layer_group_size": 2, "head_dim": 32},
    },
    "heads of 80": {"model_type": "llama", "head_dim": 80},
    "sizes apart": {
        "model_type": "mimo_v2_flash",
        "hybrid_layer_pattern": [1, 0],
        "head_dim": 96,
        "v_head_dim": 64,
        "partial_rotary_factor": 0.334,
        "attention_value_scale": 0.7,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "sliding_window": 8,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_head_dim": 96,
        "swa_v_head_dim": 64,
        "swa_rope_theta": 10000,
        "moe_layer_freq": [0, 1],
        "n_routed_experts": 8,
        "scoring_func": "sigmoid",
        "layernorm_epsilon": 1e-5,
        **_EXPERTS,
    },
    "shared keys": {
        "model_type": "gemma4_text",
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "sliding_window": 8,
        "global_head_dim": 64,
        "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 32,
        "vocab_size_per_layer_input": VOCABULARY,
        "enable_moe_block": True,
        "num_experts": 4,
        "top_k_experts": 2,
        "moe_intermediate_size": 64,
    },
    "delta net": {"model_type": "qwen3_5", **_DELTA},
    "experts": {
        "model_type": "qwen3_5_moe",
        "num_experts": 8,
        "shared_expert_intermediate_size": 64,
        **_EXPERTS,
        **_DELTA,
    },
}


SELECTED = ("selected latents", "pools of latents")
LATENT = ("two latents, idle experts", "latent attention", *SELECTED, "decay by channel")
IN_ONE_FORM = {
    "two latents, idle experts": "folder",
    "decay by channel": "gguf",
    "selected latents": "folder",
    "pools of latents": "folder",
    "compressed entries": "folder",
    "shared entries": "folder",
    "sliding window": "gguf",
    "heads of 80": "folder",
    "window and sinks": "folder",
    "sizes apart": "gguf",
    "shared keys": "folder",
}
"""These store their matrices as the others do."""


@pytest.fixture
def products_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of stock MLX: its CPU takes forty times as long for packed matrices and 16 bits."""

    def widened(product: Callable[..., mx.array]) -> Callable[..., mx.array]:
        def wide(self: object, x: mx.array, **given: bool) -> mx.array:
            return product(self, x.astype(mx.float32), **given).astype(x.dtype)

        return wide

    for kind, name in ((Linear, "_stock_product"), (PerHeadMatrices, "_product")):
        monkeypatch.setattr(kind, name, widened(getattr(kind, name)))


def convert_stored(
    shapes: Shapes, form: str, *, apply_norm_shift: bool, seed: int
) -> dict[str, mx.array]:
    """Random values as files of this form have them."""
    draw, half = np.random.default_rng(seed), mx.bfloat16 if form == "folder" else mx.float16
    made: dict[str, mx.array] = {}
    for name, shape in shapes.items():
        values = mx.array(draw.standard_normal(shape).astype(np.float32) / np.sqrt(shape[-1]))
        small = len(shape) == 1 or "conv1d" in name
        small |= name.endswith(("gate.weight", "bias", "pool_places", "sconv.weight", ".proj"))
        if name.endswith("norm.weight"):
            values = 1 + 0.1 * values
        if small:
            is_wide = (
                form == "gguf"
                or name.endswith("A_log")
                or (apply_norm_shift and has_norm_shift(name))
            )
            made[name] = values if is_wide else values.astype(half)
        elif (
            form == "gguf"
            and len(shape) == 2
            and name.endswith(("v_proj.weight", "lm_head.weight"))
        ):
            made[name] = q6_k_blocks(draw, shape)
        else:
            group = 32 if form == "gguf" or shape[-1] % 64 else 64
            parts = mx.quantize(values.astype(half), group_size=group, bits=4)
            base = name.removesuffix(".weight")
            made |= dict(zip((name, f"{base}.scales", f"{base}.biases"), parts, strict=True))
    return made


def q6_k_blocks(draw: np.random.Generator, shape: tuple[int, ...]) -> mx.array:
    """Codes, scales and a small half for each 256 values of a row."""
    blocks = draw.integers(0, 256, (shape[0], shape[1] // 256, 210), dtype=np.uint8)
    blocks[..., 208:] = np.array([5e-5], np.float16).view(np.uint8)
    return mx.array(blocks.reshape(shape[0], -1))


class Made(NamedTuple):
    """A model, and what runs its kernels."""

    model: Decoder
    spec: ModelSpec
    launcher: EmulatorLauncher
    kernels: Kernels

    def rows_attended(self, kernel: str) -> set[int]:
        """Rows of the passes in which attention went through a kernel, up to a factor."""
        reports = [one for one in self.launcher.reports if one.kernel.startswith(kernel)]
        sizes = [one.buffers["q"].size for one in reports]
        return {size // min(sizes) for size in sizes}


def model_of(name: str, form: str) -> Made:
    config = {**_COMMON, **CONFIGS[name]}
    kind = str(config["model_type"])
    family = family_for(kind, config, "config.json")
    assert isinstance(family, NativeFamily)
    spec = family.spec
    launcher = EmulatorLauncher(check=False)
    kernels = every_kernel(launcher)
    apply_norm_shift = family.norms != "w"
    present = ["layers.0.join.weight"]
    tables = [
        WeightTable(
            convert_stored(shapes, form, apply_norm_shift=apply_norm_shift, seed=seed),
            name,
            kernels=kernels,
            compute_dtype=mx.bfloat16,
        )
        for seed, shapes in enumerate((spec.tensors(present), spec.head_tensors(present)))
    ]
    model = build_decoder(spec, tables[0], tables[1] if spec.heads else None)
    return Made(model, spec, launcher, kernels)


def with_known_drafts(
    model: Decoder,
    tokens: list[int],
    options: SamplingOptions,
    cache: CacheOptions = UNQUANTISED,
) -> Ran:
    """Drafts of what comes, some of them right; four rows in every round."""
    known = DialledDraft([*PROMPT, *tokens], itertools.cycle([2, 0, 3]), VOCABULARY)
    return run(
        model,
        PROMPT,
        known,
        3,
        options=options,
        max_tokens=TOKENS,
        chunk=CHUNK,
        cache=cache,
    )


@pytest.mark.usefixtures("products_in_float32")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        (name, form)
        for name, form in itertools.product(CONFIGS, ("folder", "gguf"))
        if IN_ONE_FORM.get(name, form) == form
    ],
)
def test_types_cache_bytes_and_words(name: str, form: str) -> None:
    made = model_of(name, form)
    model, spec = made.model, made.spec
    half = mx.bfloat16 if form == "folder" else mx.float16
    options = SamplingOptions(temperature=0.8)
    plain = run(model, PROMPT, NoDraft(), 0, options=options, max_tokens=TOKENS, chunk=CHUNK)
    assert len(set(plain.tokens)) > 3

    caches = plain.sequence.caches
    hidden = model.forward(mx.array([[1]]), caches)
    assert hidden.dtype == half
    caches.commit(1)
    layers = [cache for cache in caches.layers if isinstance(cache, AttentionCache)]
    shown = [part for cache in layers for part in cache.keys_and_values()]
    windows = [cache for cache in caches.layers if isinstance(cache, WindowCache)]
    rows = [part for cache in windows for part in cache.keys_and_values()]
    assert {part.dtype for part in (*shown, *rows)} <= {half}
    assert sum(part.nbytes for part in shown) == 2 * spec.cache.values * caches.length
    states = [cache for cache in caches.layers if isinstance(cache, RecurrentCache)]
    assert {cache.snapshot().state.dtype for cache in states} <= {mx.float32}
    assert len(layers) + len(windows) + len(states) == len(caches.layers)

    drafted = with_known_drafts(model, plain.tokens, options)
    assert drafted.tokens == plain.tokens
    assert 0 < drafted.stats.accepted < drafted.stats.drafted
    latent = name in LATENT
    attended = made.rows_attended("attention_parts_" + ("latent" if latent else "dense"))
    if name in ("compressed entries", "shared entries"):  # which are gathered for stock MLX
        assert not attended
        assert any(one.kernel.startswith("stream_exchange") for one in made.launcher.reports)
    elif name == BIASED:  # whose scores MLX adds to
        assert not attended
    else:
        assert attended == ({1} if name in SELECTED else {1, 4})  # each its own tokens
    if model.heads:
        heads = MtpDraft(model.heads, DraftOptions(depth=3))
        drafted = run(model, PROMPT, heads, 3, options=options, max_tokens=5, chunk=CHUNK)
        assert drafted.tokens == plain.tokens[:5]
        assert drafted.stats.drafted > 0


def apart(one: mx.array, other: mx.array) -> float:
    """Relative distance of most rows; one or the other may choose other experts."""
    norms = [mx.linalg.norm(part, axis=-1) for part in (one - other, other)]
    return float(mx.median(norms[0] / norms[1]))


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("attention", 8),
        ("window and sinks", 4),
        ("latent attention", 8),
        ("latent attention", 4),
        ("selected latents", 8),
        ("pools of latents", 8),
        ("sizes apart", 8),
        ("delta net", 4),
    ],
)
def test_over_caches_of_few_bits(name: str, bits: CacheBits) -> None:
    """The same words with drafts and without, other words than of 16 bits, in fewer bytes."""
    made, options = model_of(name, "folder"), SamplingOptions(temperature=0.8)
    model, cache = made.model, CacheOptions(bits)
    plain = run(
        model, PROMPT, NoDraft(), 0, options=options, max_tokens=TOKENS, chunk=CHUNK, cache=cache
    )
    assert with_known_drafts(model, plain.tokens, options, cache).tokens == plain.tokens
    kernel = f"attention_parts_{cache_format_name(bits, is_latent=name in LATENT)}"
    assert made.rows_attended(kernel) == ({1} if name in SELECTED else {1, 4})
    every = {one.kernel for one in made.launcher.reports}
    assert {one for one in every if one.startswith("attention_parts")} == {kernel}

    logits, sizes = [], []
    for its in (16, bits):
        caches = model.make_caches(its)
        logits.append(model.logits(model.forward(mx.array([PROMPT]), caches)))
        layers = [cache for cache in caches.layers if isinstance(cache, RowsCache)]
        sizes.append(sum(cache.nbytes for cache in layers))
    plain = 2 * GROWTH * made.spec.cache.plain_values
    assert sizes[1] - plain <= (bits + 1) / 16 * (sizes[0] - plain)
    assert 0 < apart(*logits) < (0.08 if bits == 8 else 0.35)


def test_exact_rows_are_multiplied_by_a_heads_matrix_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """MLX has a kernel for one row and others for several; in a batch each is as if alone."""
    made, product, rows = model_of("latent attention", "folder"), PerHeadMatrices._product, set()

    def noted(self: PerHeadMatrices, x: mx.array, *, transpose: bool) -> mx.array:
        rows.add(x.shape[2])
        return product(self, x, transpose=transpose)

    monkeypatch.setattr(PerHeadMatrices, "_product", noted)
    made.kernels.add_trial_verdicts(
        {"attention latent": Verdict("", NO_ROWS)}
    )  # only exact rows need it
    found = []
    for exact in (True, False):
        made.kernels.set_exact_numerics(exact=exact)
        caches = made.model.make_caches()
        found.append(made.model.forward(mx.array([PROMPT[:4]]), caches))
        assert rows == ({1} if exact else {4})
        rows.clear()
    assert 0 < apart(*found) < 0.1


@pytest.mark.usefixtures("products_in_float32")
@pytest.mark.parametrize(
    "name", ["window and sinks", "latent attention", "shared keys", "delta net"]
)
def test_rows_of_several_conversations_in_one_pass_are_those_of_each_alone(name: str) -> None:
    """Hidden states, and what caches hold behind them, whatever each keeps of its rows."""
    model = model_of(name, "folder").model
    assert model.joint_forward is not None
    prompts = [PROMPT, PROMPT[4:9], [1, *PROMPT]]
    together, alone = (
        [_after(model, prompt) for prompt in prompts],
        [_after(model, prompt) for prompt in prompts],
    )
    for blocks, kept in (
        ([[7], [8, 9, 11], [3, 5]], (1, 2, 0)),
        ([[1, 2, 3, 4], [6], [9, 9]], (3, 1, 2)),
    ):
        tokens = mx.array([[token for block in blocks for token in block]])
        joint = model.joint_forward(
            tokens, combine_caches(together, [len(block) for block in blocks])
        )
        each = [
            model.forward(mx.array([block]), caches)
            for block, caches in zip(blocks, alone, strict=True)
        ]
        assert mx.array_equal(joint, mx.concatenate(each, axis=1)).item()
        for caches, others, count in zip(together, alone, kept, strict=True):
            caches.commit(count)
            others.commit(count)


def _after(model: Decoder, prompt: list[int]) -> LayerCaches:
    caches = model.make_caches()
    model.forward(mx.array([prompt]), caches)
    caches.commit(len(prompt))
    return caches
