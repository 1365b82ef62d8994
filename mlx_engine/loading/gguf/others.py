"""GGUF architectures of OLMo, gpt-oss, Phi-3, GLM-4, ERNIE 4.5, MiniMax-M2 and Hunyuan."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import ATTENTION, DENSE, EXPERTS, SHARED, Architecture
from mlx_engine.loading.gguf.metadata import Kind, layer_types
from mlx_engine.loading.gguf.part import Placement


class OlmoeGguf(Architecture):
    """OLMoE: QK norms over all heads, experts in every layer."""

    model_type = "olmoe"
    names = ATTENTION | DENSE | EXPERTS

    def _own_config(self) -> dict[str, object]:
        own = self._experts("num_experts", "num_experts_per_tok", "intermediate_size")
        return own | {"norm_topk_prob": False}


class Olmo2Gguf(Architecture):
    """OLMo 2: norms after attention and feed-forward; OLMo 3 where layers have windows."""

    names = ATTENTION | DENSE | {"post_ffw_norm": "post_feedforward_layernorm"}

    def _find_model_type(self) -> str:
        return "olmo3" if self._metadata.count("attention.sliding_window", 0) else "olmo2"

    def _rotation(self) -> dict[str, object]:
        rotation = super()._rotation()
        if self._find_model_type() == "olmo2":
            return rotation
        plain = {"rope_theta": rotation["rope_theta"]}
        return rotation | {"rope_parameters": {"full_attention": plain, "sliding_attention": plain}}

    def _own_config(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "attention_bias": self._has("attn_q.bias"),
            "sliding_window": window or None,
            "layer_types": layer_types(self._metadata, self._main_blocks, 4 if window else 0),
        }


class GptOssGguf(Architecture):
    """gpt-oss: sinks, biases everywhere, every other layer with a window, YaRN not truncated."""

    model_type = "gpt_oss"
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("yarn",)
    names = (
        ATTENTION
        | {base: name.replace("switch_mlp", "experts") for base, name in EXPERTS.items()}
        | {
            "attn_post_norm": "post_attention_layernorm",
            "attn_sinks.weight": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
        }
    )

    def _own_config(self) -> dict[str, object]:
        kinds = ("sliding_attention", "full_attention")
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "sliding_window": self._metadata.count("attention.sliding_window"),
            "layer_types": [kinds[n % 2] for n in range(self._main_blocks)],
        }

    def _scaling(self) -> dict[str, object] | None:
        scaling = super()._scaling()
        return None if scaling is None else scaling | {"truncate": False}


class Phi3Gguf(Architecture):
    """Phi-3 and Phi-4: joined QKV and joined gate and up projections."""

    model_type = "phi3"
    rotates_whole_heads = False
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("longrope",)
    names = ATTENTION | DENSE | {"ffn_up": "mlp.gate_up_proj"}

    def _own_config(self) -> dict[str, object]:
        count = self._metadata.count
        longest = count("context_length")
        return {
            "partial_rotary_factor": self._partial_factor(),
            "original_max_position_embeddings": count(
                "rope.scaling.original_context_length", longest
            ),
            "sliding_window": count("attention.sliding_window", 0) or None,
        }


class Glm4Gguf(Architecture):
    """GLM-4-0414: norms before and after, joined gate and up projections.

    Rows are as published, but in vision models rotated rows of queries and keys are stored as first
    halves, then second ones.
    """

    model_type = "glm4"
    rotates_whole_heads = False
    default_divisor = 2
    names = (
        ATTENTION
        | DENSE
        | {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        }
    )

    def _own_config(self) -> dict[str, object]:
        return {
            "partial_rotary_factor": self._partial_factor(),
            "attention_bias": self._has("attn_q.bias") or self._has("attn_qkv.bias"),
        }

    def _place_one(self, block: int, rest: str) -> Placement:
        place = super()._place_one(block, rest)
        heads = {"attn_q": self._heads, "attn_k": self._kv_heads(block)}
        part = rest.partition(".")[0]
        if part not in heads or not self._metadata.has("rope.dimension_sections"):
            return place
        return replace(place, rows=_interleaved(heads[part], self._head_dim, self._rotary_dim()))


@lru_cache(maxsize=8)
def _interleaved(heads: int, head: int, rotated: int) -> tuple[int, ...]:
    """Stored rows in Hugging Face's order: rotated row 2 j + s is stored as s * rotated / 2 + j."""
    return tuple(
        first + (row % 2 * rotated // 2 + row // 2 if row < rotated else row)
        for first in range(0, heads * head, head)
        for row in range(head)
    )


class Ernie45Gguf(Architecture):
    """ERNIE 4.5 without experts."""

    model_type = "ernie4_5"

    def _own_config(self) -> dict[str, object]:
        return {"use_bias": self._has("attn_q.bias")}


class Ernie45MoeGguf(Ernie45Gguf):
    """ERNIE 4.5 with experts in some layers and a bias on expert selection."""

    model_type = "ernie4_5_moe"
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own_config(self) -> dict[str, object]:
        experts = [n for n in range(self._main_blocks) if self._block_has(n, "ffn_gate_inp.weight")]
        return {
            **super()._own_config(),
            **self._experts("moe_num_experts", "moe_k", "moe_intermediate_size"),
            "moe_num_shared_experts": self._metadata.count("expert_shared_count", 0),
            "moe_layer_start_index": min(experts, default=0),
            "moe_layer_end_index": max(experts, default=0),
            "moe_layer_interval": self._metadata.count("interleave_moe_layer_step", 1) or 1,
        }


class MiniMaxM2Gguf(Architecture):
    """MiniMax-M2: partial rotation, a sigmoid router with a bias on expert selection."""

    model_type = "minimax_m2"
    rotates_whole_heads = False
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own_config(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "rotary_dim": self._rotary_dim(),
            "use_qk_norm": self._has("attn_q_norm.weight"),
        }


class HunyuanGguf(Architecture):
    """Hunyuan without experts: QK norms after RoPE; its scaling is folded into the base."""

    model_type = "hunyuan_v1_dense"
    names = (
        ATTENTION
        | DENSE
        | {"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}
    )


class HunyuanMoeGguf(HunyuanGguf):
    """Hunyuan-A13B: experts in every layer and a shared expert."""

    model_type = "hunyuan"
    names = (
        HunyuanGguf.names
        | EXPERTS
        | {"ffn_gate_inp": "mlp.gate.wg"}
        | {f"ffn_{part}_shexp": f"mlp.shared_mlp.{part}_proj" for part in ("gate", "up", "down")}
    )

    def _own_config(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "moe_topk", "moe_intermediate_size"),
            "attention_bias": self._has("attn_q.bias"),
            "num_shared_expert": self._metadata.count("expert_shared_count", 1),
            "use_mixed_mlp_moe": self._has("ffn_up_shexp.weight"),
            "use_qk_norm": self._has("attn_q_norm.weight"),
            "use_cla": False,
            "cla_share_factor": 1,
        }

    def _scaling(self) -> dict[str, object] | None:
        """No scaling: it is folded into the base."""
        return {"type": "dynamic", "factor": 1.0, "alpha": 1.0}
