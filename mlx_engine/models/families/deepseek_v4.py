"""DeepSeek-V4 (`deepseek_v4`): compressed attention and mixed residual streams.

Each layer attends to the last `sliding_window` tokens and, by its kind, to entries of 4 tokens each
that an indexer selects, to all entries of 128 tokens, or to nothing else. Hyper-connections mix
four residual streams; experts of the first layers are those that a table has for the token. Some
files name tensors as DeepSeek does, others as transformers or mlx-vlm. Matrices stay in the
published fp8 and fp4 (loading/microscaled.py).

The MTP head (`mtp.0`, or `mtp.1` alone) adds products of the embedding and of each residual stream,
normed each; its block attends to the window alone, and its own hyper-connection makes the state
for the output head. It reads the streams before the trunk's last hyper-connection, and passes on
its own. V4-Flash-0731 has DSpark's stages under `mtp.` in its place, which are a draft model in the
model's own folder (drafters/deepseek4_dspark.py).

References disagree, and no published weights were run:

- Weights of selected experts are divided by their sum in transformers and here, whatever
`norm_topk_prob` says; in llama.cpp and mlx-lm's class of V4.1 if it is true, as it is in all files.
- DeepSeek rounds keys to fp8 and indexers' queries and keys to fp4, as its kernels read them; they
stay in the model's type in transformers, llama.cpp and here.
- llama.cpp's converter gives an MTP head no embedding or output head of its own, but its loader
reads both; here, as in mlx-vlm, they are the trunk's.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal, TypeVar

from mlx_engine.models.compressed_specs import CompressedAttentionSpec, CompressorSpec
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.families.deepseek_v3 import indexer_spec, routed_experts
from mlx_engine.models.families.llama import plain_model
from mlx_engine.models.family import ModelSizes, TensorParts
from mlx_engine.models.feed_forward_specs import EXPERT_TABLE, ExpertScore, ExpertsSpec
from mlx_engine.models.layer_specs import RopeSpec
from mlx_engine.models.model_spec import (
    CONNECTIONS,
    MOST_STREAMS,
    BlockSpec,
    ModelSpec,
    MtpHeadsSpec,
    WholeStreamsSpec,
)
from mlx_engine.models.native_family import NativeFamily
from mlx_engine.models.rope import apply_rope_scaling
from mlx_engine.models.tensor_names import CONNECTION_NAMES, CONNECTION_PARTS, HeadNames
from mlx_engine.values.words import Words

T = TypeVar("T")
_KINDS = ("sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
_BY_RATIO = {0: _KINDS[0], 4: _KINDS[1], 128: _KINDS[2]}
_WITHIN_ATTENTION = {
    "wq_a": "q_a_proj",
    "wq_b": "q_b_proj",
    "wkv": "kv_proj",
    "wo_a": "o_a_proj",
    "wo_b": "o_proj",
    "q_norm": "q_a_layernorm",
    "q_a_norm": "q_a_layernorm",
    "o_b_proj": "o_proj",
    "attn_sink": "sinks",
    "compressor.kv_norm": "compressor.norm",
    "compressor.indexer.q_b_proj": "indexer.wq_b",
    "compressor.indexer.scorer.weights_proj": "indexer.weights_proj",
    **{
        f"{compressor}.{old}": f"{compressor}.{new}"
        for compressor in ("compressor", "indexer.compressor")
        for old, new in (("wkv", "kv_proj"), ("wgate", "gate_proj"), ("ape", "position_bias"))
    },
    **{
        f"compressor.indexer.{old}": f"indexer.compressor.{new}"
        for old, new in (
            ("kv_proj", "kv_proj"),
            ("gate_proj", "gate_proj"),
            ("position_bias", "position_bias"),
            ("kv_norm", "norm"),
        )
    },
}
_WITHIN_FEED = {
    "gate.bias": "gate.e_score_correction_bias",
    "shared_experts": "shared_expert",
    **{
        f"shared_experts.{old}": f"shared_expert.{new}_proj"
        for old, new in (("w1", "gate"), ("w2", "down"), ("w3", "up"))
    },
}
_BLOCK = {
    **{
        f"{theirs}.{old}": f"self_attn.{new}"
        for theirs in ("attn", "self_attn")
        for old, new in _WITHIN_ATTENTION.items()
    },
    **{
        f"{theirs}.{old}": f"mlp.{new}"
        for theirs in ("ffn", "mlp")
        for old, new in _WITHIN_FEED.items()
    },
    "attn": "self_attn",
    "ffn": "mlp",
    **CONNECTION_NAMES,
    "attn_norm": f"{CONNECTIONS[0]}.norm",
    "ffn_norm": f"{CONNECTIONS[1]}.norm",
}
_END = {
    "norm": "hyper_connection_mixer.norm",
    **{
        name.format(part): f"hyper_connection_mixer.{ours}"
        for part, ours in CONNECTION_PARTS.items()
        for name in ("hc_head_{}", "hc_head.hc_{}", "hc_head.{}", "hc_head_{}.weight")
    },
}


LAYER_NAMES = {**_BLOCK, **_END, "mlp.shared_experts": "mlp.shared_expert"}
"""Names in files, within a layer or at the end of a trunk or head -> canonical names."""


class DeepseekV4(NativeFamily):
    """DeepSeek-V4-Flash and Pro (`deepseek_v4`), with their MTP head."""

    renames: ClassVar = {
        **_BLOCK,
        **_END,
        "embed": "embed_tokens",
        "head": "lm_head",
    }
    head_names = HeadNames(
        {**_BLOCK, **_END, "e_proj": "join", "eh_proj": "join", "h_proj": "join_streams"}
    )

    def compute_sizes(self) -> ModelSizes:
        """Compute a model's sizes from its spec; DSpark's stages are no heads."""
        sizes = super().compute_sizes()
        return sizes if self.spec.heads else replace(sizes, promised_heads=0)

    def split_tensors(self, tensors: Mapping[str, T], origin: str) -> TensorParts[T]:
        """Sort tensors by use.

        Skipped are biases of choices that a table makes or that pictures have, and DSpark's stages,
        which are a draft model (drafters/deepseek4_dspark.py).
        """
        stages = {} if self.spec.heads else {n: t for n, t in tensors.items() if "mtp." in n}
        rest = {name: tensor for name, tensor in tensors.items() if name not in stages}
        parts = super().split_tensors(rest, origin)
        parts.skipped.update(stages)
        for part in (parts.trunk, parts.head):
            for name in tuple(part):
                layer, is_bias, _ = name.partition("gate.e_score_correction_bias")
                is_unused = is_bias and part is parts.trunk and f"{layer}{EXPERT_TABLE}" in part
                if is_unused or name.endswith("gate.bias_vl"):
                    parts.skipped[name] = part.pop(name)
        return parts

    def _read_spec(self, fields: ConfigFields) -> ModelSpec:
        mixers, head = _mixers(fields), window_block(fields)
        experts, streams = head.feed, head.streams
        assert isinstance(experts, ExpertsSpec)
        by_table = replace(experts, table_rows=fields.count("vocab_size"), choice_bias=False)
        blocks = [
            BlockSpec(mixers[kind], by_table if hashes else experts, streams=streams)
            for kind, hashes in zip(_layer_kinds(fields), _hash_layers(fields), strict=True)
        ]
        model = plain_model(fields, blocks)
        if fields.has("dspark_target_layer_ids"):
            return model
        heads = MtpHeadsSpec((head,), trunk_state="residual", chain_state="residual")
        return replace(model, heads=heads)


def window_block(fields: ConfigFields) -> BlockSpec:
    """Read the block of MTP heads and of DSpark's stages: the window alone, and routed experts."""
    streams, experts = streams_of(fields), experts_by_score(fields.with_values(norm_topk_prob=True))
    return BlockSpec(window_attention(fields), experts, streams=streams)


def streams_of(fields: ConfigFields) -> WholeStreamsSpec:
    """Read residual streams, which are mixed with one another."""
    return WholeStreamsSpec(
        fields.count("hc_mult", 4, minimum=2, maximum=MOST_STREAMS),
        2.0,
        fields.number("hc_eps", 1e-6),
        exchange_steps=fields.count("hc_sinkhorn_iters", 20, maximum=1000),
    )


def window_attention(fields: ConfigFields) -> CompressedAttentionSpec:
    """Read attention to the window alone."""
    size, heads = fields.count("head_dim", 512), fields.count("num_attention_heads")
    groups = fields.count("o_groups", 8)
    if heads % groups:
        raise fields.bad_field("o_groups", groups, f"a divisor of the {heads} heads")
    return CompressedAttentionSpec(
        heads=heads,
        size=size,
        q_rank=fields.count("q_lora_rank"),
        rope=_rope(fields, "main", size),
        window=fields.count("sliding_window", 128, maximum=2**16),
        groups=groups,
        out_rank=fields.count("o_lora_rank", 1024),
    )


def entry_rope(fields: ConfigFields, size: int) -> RopeSpec:
    """Read RoPE of layers with entries; size: of a head."""
    return _rope(fields, "compress", size)


def _mixers(fields: ConfigFields) -> dict[str, CompressedAttentionSpec]:
    """Attention of each kind of layers."""
    plain = window_attention(fields)
    size = plain.size
    rope, rates = entry_rope(fields, size), fields.section("compress_rates") or fields
    sparse, heavy = (
        CompressorSpec(rates.count(kind, usual, maximum=2**16), size, rope, overlaps=overlaps)
        for kind, usual, overlaps in ((_KINDS[1], 4, True), (_KINDS[2], 128, False))
    )
    compressed = replace(plain, rope=rope)
    indexer = replace(indexer_spec(fields, rope), rotates_end=True)
    return dict(
        zip(
            _KINDS,
            (
                plain,
                replace(compressed, compressor=sparse, indexer=indexer),
                replace(compressed, compressor=heavy),
            ),
            strict=True,
        )
    )


def _rope(fields: ConfigFields, kind: Literal["main", "compress"], size: int) -> RopeSpec:
    """RoPE of layers without compressed entries ("main"), or with them, whose RoPE is scaled."""
    given = fields.section("rope_parameters")
    is_nested = given is not None and given.has(kind)
    rope = fields.rope_fields(kind if is_nested else "full_attention")
    usual = rope.number("partial_rotary_factor", 64 / 512)
    width = fields.count("qk_rope_head_dim", int(size * usual), minimum=2, maximum=size)
    if width % 2:
        raise fields.bad_field("qk_rope_head_dim", width, Words("an even part of a head"))
    name, theta = ("rope_theta", 1e4) if kind == "main" else ("compress_rope_theta", 1.6e5)
    base = rope.number("rope_theta", theta) if is_nested else fields.number(name, theta)
    plain = RopeSpec(width, base, interleaved=True)
    if kind == "main":
        return plain
    scaled = apply_rope_scaling(plain, rope, fields)
    return replace(scaled, magnitude=rope.number("attention_factor", 1.0))


def _layer_kinds(fields: ConfigFields) -> tuple[str, ...]:
    """Kind of attention of each layer, from `layer_types` or `compress_ratios`."""
    layers, ratios = fields.layers(), fields.counts("compress_ratios")
    kinds = fields.layer_types(*_KINDS)
    if kinds:
        return kinds
    if len(ratios) < layers or not {*ratios} <= {*_BY_RATIO}:
        raise fields.bad_field("compress_ratios", list(ratios), Words("0, 4 or 128 for each layer"))
    return tuple(_BY_RATIO[ratio] for ratio in ratios[:layers])


def _hash_layers(fields: ConfigFields) -> tuple[bool, ...]:
    """Which layers have experts chosen by a table, by default the first `num_hash_layers`."""
    kinds, layers = fields.layer_types("hash_moe", "moe", name="mlp_layer_types"), fields.layers()
    if kinds:
        return tuple(kind == "hash_moe" for kind in kinds)
    first = fields.count("num_hash_layers", 3, minimum=0)
    return tuple(layer < first for layer in range(layers))


def experts_by_score(fields: ConfigFields) -> ExpertsSpec:
    """Routed experts, with a bias for their selection."""
    fields = fields.with_defaults(routed_scaling_factor=1.5, n_shared_experts=1)
    experts = routed_experts(fields)
    experts = experts.with_gate_limit(fields.non_negative_number("swiglu_limit"))
    scores: dict[str, ExpertScore] = {
        "sqrtsoftplus": "sqrtsoftplus",
        "sigmoid": "sigmoid",
        "softmax": "softmax",
    }
    named = fields.string("scoring_func", "sqrtsoftplus")
    if named not in scores:
        raise fields.bad_field("scoring_func", named, ", ".join(scores))
    return replace(experts, score=scores[named])
