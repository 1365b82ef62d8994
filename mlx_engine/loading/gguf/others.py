"""GGUF architectures of OLMo, gpt-oss, Phi-3, GLM-4, ERNIE 4.5, MiniMax-M2 and Hunyuan."""

from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import (
    ATTENTION,
    DENSE,
    EXPERTS,
    SHARED,
    Architecture,
)
from mlx_engine.loading.gguf.metadata import (
    Kind,
    layer_kinds,
)
from mlx_engine.loading.gguf.part import Placement


class OlmoeGguf(Architecture):
    """OLMoE: norms of all queries and keys at once, experts in every layer."""

    model_type = "olmoe"
    names = ATTENTION | DENSE | EXPERTS

    def _own(self) -> dict[str, object]:
        own = self._experts("num_experts", "num_experts_per_tok", "intermediate_size")
        return own | {"norm_topk_prob": False}


class Olmo2Gguf(Architecture):
    """Norms behind mixer and feed-forward alone; OLMo 3 where layers have windows."""

    names = ATTENTION | DENSE | {"post_ffw_norm": "post_feedforward_layernorm"}

    def _class(self) -> str:
        return "olmo3" if self._metadata.count("attention.sliding_window", 0) else "olmo2"

    def _rotation(self) -> dict[str, object]:
        told = super()._rotation()
        if self._class() == "olmo2":
            return told
        plain = {"rope_theta": told["rope_theta"]}
        return told | {"rope_parameters": {"full_attention": plain, "sliding_attention": plain}}

    def _own(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "attention_bias": self._has("attn_q.bias"),
            "sliding_window": window or None,
            "layer_types": layer_kinds(self._metadata, self._main_blocks, 4 if window else 0),
        }


class GptOssGguf(Architecture):
    """Sinks, biases everywhere, every other layer with a window.

    It was trained with YaRN whose range of frequencies is not rounded.
    """

    model_type = "gpt_oss"
    stretches: ClassVar[tuple[Kind, ...]] = ("yarn",)
    names = (
        ATTENTION
        | {base: name.replace("switch_mlp", "experts") for base, name in EXPERTS.items()}
        | {
            "attn_post_norm": "post_attention_layernorm",
            "attn_sinks.weight": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
        }
    )

    def _own(self) -> dict[str, object]:
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
    """Phi-3 and Phi-4: queries, keys and values in one matrix, gates above ups in another."""

    model_type = "phi3"
    rotates_whole_heads = False
    stretches: ClassVar[tuple[Kind, ...]] = ("longrope",)
    names = ATTENTION | DENSE | {"ffn_up": "mlp.gate_up_proj"}

    def _own(self) -> dict[str, object]:
        count = self._metadata.count
        longest = count("context_length")
        return {
            "partial_rotary_factor": self._share(),
            "original_max_position_embeddings": count(
                "rope.scaling.original_context_length", longest
            ),
            "sliding_window": count("attention.sliding_window", 0) or None,
        }


class Glm4Gguf(Architecture):
    """GLM-4-0414: norms before and after, gates above ups; rows in Hugging Face's order.

    But those of queries and keys of models with eyes, whose rotated rows are first all first ones
    of the pairs, then all second.
    """

    model_type = "glm4"
    rotates_whole_heads = False
    usual_share = 2
    names = (
        ATTENTION
        | DENSE
        | {
            "ffn_up": "mlp.gate_up_proj",
            "post_attention_norm": "post_self_attn_layernorm",
            "post_ffw_norm": "post_mlp_layernorm",
        }
    )

    def _own(self) -> dict[str, object]:
        return {
            "partial_rotary_factor": self._share(),
            "attention_bias": self._has("attn_q.bias") or self._has("attn_qkv.bias"),
        }

    def _single(self, block: int, rest: str) -> Placement:
        place = super()._single(block, rest)
        heads = {"attn_q": self._heads, "attn_k": self._kept_heads(block)}
        part = rest.partition(".")[0]
        if part not in heads or not self._metadata.has("rope.dimension_sections"):
            return place
        return replace(place, rows=_apart(heads[part], self._head, self._rotated()))


@lru_cache(maxsize=8)
def _apart(heads: int, head: int, rotated: int) -> tuple[int, ...]:
    """Row 2 j + s of the rotated ones of a head is stored as its row s * rotated / 2 + j."""
    return tuple(
        first + (row % 2 * rotated // 2 + row // 2 if row < rotated else row)
        for first in range(0, heads * head, head)
        for row in range(head)
    )


class Ernie45Gguf(Architecture):
    """ERNIE 4.5 without experts."""

    model_type = "ernie4_5"

    def _own(self) -> dict[str, object]:
        return {"use_bias": self._has("attn_q.bias")}


class Ernie45MoeGguf(Ernie45Gguf):
    """With experts in some layers, whose choice is corrected."""

    model_type = "ernie4_5_moe"
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own(self) -> dict[str, object]:
        experts = [n for n in range(self._main_blocks) if self._block_has(n, "ffn_gate_inp.weight")]
        return {
            **super()._own(),
            **self._experts("moe_num_experts", "moe_k", "moe_intermediate_size"),
            "moe_num_shared_experts": self._metadata.count("expert_shared_count", 0),
            "moe_layer_start_index": min(experts, default=0),
            "moe_layer_end_index": max(experts, default=0),
            "moe_layer_interval": self._metadata.count("interleave_moe_layer_step", 1) or 1,
        }


class MiniMaxM2Gguf(Architecture):
    """MiniMax-M2: part of a head rotated, a sigmoid router whose choice is corrected."""

    model_type = "minimax_m2"
    rotates_whole_heads = False
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "rotary_dim": self._rotated(),
            "use_qk_norm": self._has("attn_q_norm.weight"),
        }


class HunyuanGguf(Architecture):
    """Hunyuan without experts: queries and keys are normed once they are rotated.

    How far it is stretched is in the base of its periods.
    """

    model_type = "hunyuan_v1_dense"
    names = (
        ATTENTION
        | DENSE
        | {
            "attn_q_norm": "self_attn.query_layernorm",
            "attn_k_norm": "self_attn.key_layernorm",
        }
    )


class HunyuanMoeGguf(HunyuanGguf):
    """Hunyuan-A13B: experts in every layer, and one that all share."""

    model_type = "hunyuan"
    names = (
        HunyuanGguf.names
        | EXPERTS
        | {"ffn_gate_inp": "mlp.gate.wg"}
        | {f"ffn_{one}_shexp": f"mlp.shared_mlp.{one}_proj" for one in ("gate", "up", "down")}
    )

    def _own(self) -> dict[str, object]:
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
        """How far it is stretched is in the base of its periods."""
        return {"type": "dynamic", "factor": 1.0, "alpha": 1.0}
