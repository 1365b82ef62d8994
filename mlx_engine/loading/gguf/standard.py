"""GGUF architectures of attention layers, dense or with experts: OLMo, Phi, GLM-4, gpt-oss, ..."""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import NAMES, ONE_SHARED, OUTSIDE, Architecture
from mlx_engine.loading.gguf.metadata import Kind, layer_types
from mlx_engine.loading.gguf.part import Change, HfTensor, swapped_rows


class Olmo2Gguf(Architecture):
    """GGUF files of OLMo 2, with norms after attention and MLP; OLMo 3 with sliding windows."""

    names = NAMES | {"post_ffw_norm": "post_feedforward_layernorm"}

    def _find_model_type(self) -> str:
        return "olmo3" if self._metadata.count("attention.sliding_window", 0) else "olmo2"

    def _rope_fields(self) -> dict[str, object]:
        rotation = super()._rope_fields()
        if self._find_model_type() == "olmo2":
            return rotation
        plain = {"rope_theta": rotation["rope_theta"]}
        return rotation | {"rope_parameters": {"full_attention": plain, "sliding_attention": plain}}

    def _family_config(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "sliding_window": window or None,
            "layer_types": layer_types(self._metadata, self._main_blocks, 4 if window else 0),
        }


class Phi3Gguf(Architecture):
    """GGUF files of Phi-3 and Phi-4: joined QKV, joined gate and up projections."""

    model_type = "phi3"
    rotates_whole_heads = False
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("longrope",)
    names = NAMES | {"ffn_up": "mlp.gate_up_proj"}

    def _family_config(self) -> dict[str, object]:
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
    """GGUF files of GLM-4-0414: norms before and after attention and MLP, joined gate and up.

    Rows are stored as published, except in vision models, where the rotated rows of queries and
    keys are split into two halves instead of interleaved.
    """

    model_type = "glm4"
    rotates_whole_heads = False
    default_divisor = 2
    names = NAMES | {
        "ffn_up": "mlp.gate_up_proj",
        "post_attention_norm": "post_self_attn_layernorm",
        "post_ffw_norm": "post_mlp_layernorm",
    }

    def _family_config(self) -> dict[str, object]:
        return {"partial_rotary_factor": self._partial_factor()}

    def _layer_tensor(self, block: int, name: str) -> HfTensor:
        place = super()._layer_tensor(block, name)
        heads = {"attn_q": self._query_heads, "attn_k": self._kv_heads(block)}
        part = name.partition(".")[0]
        if part not in heads or not self._metadata.has_key("rope.dimension_sections"):
            return place
        return replace(
            place, rows=_interleaved_row_numbers(heads[part], self._head_dim, self._rotary_dim())
        )


def _interleaved_row_numbers(heads: int, head_dim: int, rotary_dim: int) -> tuple[int, ...]:
    """Stored row numbers in Hugging Face's order: rotated row 2 j + s is s * rotated / 2 + j."""
    order = (*swapped_rows(1, 2, rotary_dim // 2), *range(rotary_dim, head_dim))
    return tuple(first + row for first in range(0, heads * head_dim, head_dim) for row in order)


class Ernie45Gguf(Architecture):
    """GGUF files of ERNIE 4.5 without experts."""

    model_type = "ernie4_5"

    def _family_config(self) -> dict[str, object]:
        return {"use_bias": self._any_layer_has("attn_q.bias")}


class HunyuanGguf(Architecture):
    """GGUF files of dense Hunyuan: QK norms after RoPE; RoPE scaling is folded into the base."""

    model_type = "hunyuan_v1_dense"
    names = NAMES | {
        "attn_q_norm": "self_attn.query_layernorm",
        "attn_k_norm": "self_attn.key_layernorm",
    }


class CohereGguf(Architecture):
    """GGUF files of Command R and Aya: parallel attention and feed-forward, scaled logits."""

    model_type = "cohere"
    supported = ("logit_scale",)

    def _family_config(self) -> dict[str, object]:
        number = self._metadata.number
        return {
            "layer_norm_eps": number("attention.layer_norm_epsilon", 1e-5),
            "logit_scale": number("logit_scale", 0.0625),
            "use_qk_norm": self._any_layer_has("attn_q_norm.weight"),
        }


class Cohere2Gguf(CohereGguf):
    """GGUF files of Command R7B and A: every fourth layer full, without RoPE; others windowed."""

    model_type = "cohere2"

    def _family_config(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 4096)
        return super()._family_config() | {"sliding_window": window, "sliding_window_pattern": 4}


class _LayerNormed(Architecture):
    """Base of GGUF architectures with LayerNorm, biases and perhaps partial RoPE."""

    rotates_whole_heads = False
    rope_kinds: ClassVar[tuple[Kind, ...]] = ()
    eps_key = "layer_norm_eps"

    def _family_config(self) -> dict[str, object]:
        return {
            self.eps_key: self._metadata.number("attention.layer_norm_epsilon", 1e-5),
            "partial_rotary_factor": self._partial_factor(),
        }


class Phi2Gguf(_LayerNormed):
    """GGUF files of Phi-1 and 2: parallel attention and feed-forward, biases everywhere."""

    model_type = "phi"
    outside: ClassVar = OUTSIDE | {"output_norm": "model.final_layernorm"}
    names = NAMES | {
        "attn_output": "self_attn.dense",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    }


class Starcoder2Gguf(_LayerNormed):
    """GGUF files of StarCoder 2, which have no key for its sliding window of 4096 tokens."""

    model_type = "starcoder2"
    eps_key = "norm_epsilon"
    names = NAMES | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}

    def _family_config(self) -> dict[str, object]:
        return super()._family_config() | {"sliding_window": 4096}


class StablelmGguf(_LayerNormed):
    """GGUF files of StableLM; the 12B has QK norms and parallel attention and feed-forward."""

    model_type = "stablelm"

    def _family_config(self) -> dict[str, object]:
        return super()._family_config() | {
            "use_qkv_bias": self._any_layer_has("attn_q.bias"),
            "qk_layernorm": self._any_layer_has("attn_q_norm.weight"),
            "use_parallel_residual": not self._any_layer_has("ffn_norm.weight"),
        }


class NemotronGguf(_LayerNormed):
    """GGUF files of Nemotron 3 and 4, Minitron: norm weights as 1 + w, MLP without gates."""

    model_type = "nemotron"
    changes: ClassVar[Mapping[str, Change]] = {"norm.weight": "subtract one"}
    eps_key = "norm_eps"

    def _family_config(self) -> dict[str, object]:
        return super()._family_config() | {"hidden_act": "relu2"}


class OlmoeGguf(Architecture):
    """GGUF files of OLMoE: QK norms over all heads together, experts in every layer."""

    model_type = "olmoe"

    def _family_config(self) -> dict[str, object]:
        own = self._expert_fields("num_experts", "num_experts_per_tok", "intermediate_size")
        return own | {"norm_topk_prob": False}


class GptOssGguf(Architecture):
    """GGUF files of gpt-oss: attention sinks, biases, every other layer windowed, YaRN."""

    model_type = "gpt_oss"
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("yarn",)
    names = (
        NAMES
        | {f"ffn_{part}_exps": f"mlp.experts.{part}_proj" for part in ("gate", "up", "down")}
        | {
            "attn_post_norm": "post_attention_layernorm",
            "attn_sinks.weight": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
        }
    )

    def _family_config(self) -> dict[str, object]:
        kinds = ("sliding_attention", "full_attention")
        return {
            **self._expert_fields("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "sliding_window": self._metadata.count("attention.sliding_window"),
            "layer_types": [kinds[n % 2] for n in range(self._main_blocks)],
        }

    def _rope_scaling_fields(self) -> dict[str, object] | None:
        scaling = super()._rope_scaling_fields()
        return None if scaling is None else scaling | {"truncate": False}


class Ernie45MoeGguf(Ernie45Gguf):
    """GGUF files of ERNIE 4.5 with experts in some layers, and a bias for expert selection."""

    model_type = "ernie4_5_moe"

    def _family_config(self) -> dict[str, object]:
        experts = [n for n in range(self._main_blocks) if self._layer_has(n, "ffn_gate_inp.weight")]
        return {
            **super()._family_config(),
            **self._expert_fields("moe_num_experts", "moe_k", "moe_intermediate_size"),
            "moe_num_shared_experts": self._metadata.count("expert_shared_count", 0),
            "moe_layer_start_index": min(experts, default=0),
            "moe_layer_end_index": max(experts, default=0),
            "moe_layer_interval": self._metadata.count("interleave_moe_layer_step", 1) or 1,
        }


class MiniMaxM2Gguf(Architecture):
    """GGUF files of MiniMax-M2: partial RoPE, a sigmoid router with a bias for expert selection."""

    model_type = "minimax_m2"
    rotates_whole_heads = False

    def _family_config(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **self._expert_fields("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "rotary_dim": self._rotary_dim(),
            "use_qk_norm": self._any_layer_has("attn_q_norm.weight"),
        }


class MiniMaxM3Gguf(MiniMaxM2Gguf):
    """GGUF files of MiniMax-M3, norms as 1 + w; layers with experts attend to selected blocks."""

    model_type = "minimax_m3_vl_text"
    changes: ClassVar[Mapping[str, Change]] = {"norm.weight": "subtract one"}
    names = NAMES | {
        f"indexer.{part}_{kind}": f"self_attn.indexer.{part}_{kind}"
        for part in "qk"
        for kind in ("proj", "norm")
    }

    def _family_config(self) -> dict[str, object]:
        metadata, dense = self._metadata, self._leading_dense_blocks()
        experts, width = super()._family_config(), metadata.count("expert_feed_forward_length", 0)
        rest = self._main_blocks - dense
        return {
            **experts,
            "dense_intermediate_size": metadata.count("feed_forward_length"),
            "shared_intermediate_size": width * metadata.count("expert_shared_count", 1),
            "routed_scaling_factor": metadata.number("expert_weights_scale", 0.0) or 1.0,
            "mlp_layer_types": ["dense"] * dense + ["sparse"] * rest,
            "layer_types": ["full_attention"] * dense + ["minimax_m3_sparse"] * rest,
            "index_n_heads": self._positive_count("attention.indexer.head_count"),
            "index_head_dim": self._positive_count("attention.indexer.key_length"),
            "index_topk_blocks": self._positive_count("attention.indexer.top_k"),
            "index_block_size": self._positive_count("attention.indexer.block_size"),
            "index_local_blocks": self._positive_count("attention.indexer.local_blocks"),
        }


class HunyuanMoeGguf(HunyuanGguf):
    """GGUF files of Hunyuan-A13B: experts in every layer and a shared expert."""

    model_type = "hunyuan"
    names = (
        HunyuanGguf.names
        | {"ffn_gate_inp": "mlp.gate.wg"}
        | {f"ffn_{part}_shexp": f"mlp.shared_mlp.{part}_proj" for part in ("gate", "up", "down")}
    )

    def _family_config(self) -> dict[str, object]:
        return {
            **self._expert_fields("num_experts", "moe_topk", "moe_intermediate_size"),
            "num_shared_expert": self._metadata.count("expert_shared_count", 1),
            "use_mixed_mlp_moe": self._any_layer_has("ffn_up_shexp.weight"),
            "use_qk_norm": self._any_layer_has("attn_q_norm.weight"),
            "use_cla": False,
            "cla_share_factor": 1,
        }

    def _rope_scaling_fields(self) -> dict[str, object] | None:
        """Return RoPE scaling of factor 1, since the GGUF has it folded into the RoPE base."""
        return {"type": "dynamic", "factor": 1.0, "alpha": 1.0}


class Qwen3MoeGguf(Architecture):
    """GGUF files of Qwen3 with experts in every layer and normalised expert weights."""

    model_type = "qwen3_moe"

    def _family_config(self) -> dict[str, object]:
        return {
            **self._expert_fields("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }


class Qwen2MoeGguf(Architecture):
    """GGUF files of Qwen1.5 and Qwen2 with experts and a gated shared expert."""

    model_type = "qwen2_moe"
    changes: ClassVar[Mapping[str, Change]] = {"ffn_gate_inp_shexp.weight": "add first axis"}
    names = NAMES | ONE_SHARED

    def _family_config(self) -> dict[str, object]:
        return {
            **self._expert_fields("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "shared_expert_intermediate_size": self._output_size("ffn_up_shexp.weight"),
        }
