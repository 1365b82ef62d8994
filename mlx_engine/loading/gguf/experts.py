"""GGUF architectures of mixture-of-experts models: OLMoE, gpt-oss, Qwen 2 and 3, Hunyuan, ..."""

from collections.abc import Mapping
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import (
    ATTENTION,
    DENSE,
    EXPERTS,
    ONE_SHARED,
    SHARED,
    Architecture,
)
from mlx_engine.loading.gguf.dense import Ernie45Gguf, HunyuanGguf
from mlx_engine.loading.gguf.metadata import Kind
from mlx_engine.loading.gguf.part import Change


class OlmoeGguf(Architecture):
    """GGUF files of OLMoE: QK norms over all heads together, experts in every layer."""

    model_type = "olmoe"
    names = ATTENTION | DENSE | EXPERTS

    def _own_config(self) -> dict[str, object]:
        own = self._experts("num_experts", "num_experts_per_tok", "intermediate_size")
        return own | {"norm_topk_prob": False}


class GptOssGguf(Architecture):
    """GGUF files of gpt-oss: attention sinks, biases, every other layer windowed, YaRN."""

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


class Ernie45MoeGguf(Ernie45Gguf):
    """GGUF files of ERNIE 4.5 with experts in some layers, and a bias for expert selection."""

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
    """GGUF files of MiniMax-M2: partial RoPE, a sigmoid router with a bias for expert selection."""

    model_type = "minimax_m2"
    rotates_whole_heads = False
    names = ATTENTION | DENSE | EXPERTS | SHARED

    def _own_config(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "rotary_dim": self._rotary_dim(),
            "use_qk_norm": self._any_block_has("attn_q_norm.weight"),
        }


class HunyuanMoeGguf(HunyuanGguf):
    """GGUF files of Hunyuan-A13B: experts in every layer and a shared expert."""

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
            "num_shared_expert": self._metadata.count("expert_shared_count", 1),
            "use_mixed_mlp_moe": self._any_block_has("ffn_up_shexp.weight"),
            "use_qk_norm": self._any_block_has("attn_q_norm.weight"),
            "use_cla": False,
            "cla_share_factor": 1,
        }

    def _scaling(self) -> dict[str, object] | None:
        """Return RoPE scaling of factor 1, since the GGUF has it folded into the RoPE base."""
        return {"type": "dynamic", "factor": 1.0, "alpha": 1.0}


class Qwen3MoeGguf(Architecture):
    """GGUF files of Qwen3 with experts in every layer and normalised expert weights."""

    model_type = "qwen3_moe"
    names = ATTENTION | DENSE | EXPERTS

    def _own_config(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }


class Qwen2MoeGguf(Architecture):
    """GGUF files of Qwen1.5 and Qwen2 with experts and a gated shared expert."""

    model_type = "qwen2_moe"
    changes: ClassVar[Mapping[str, Change]] = {"ffn_gate_inp_shexp.weight": "add first axis"}
    names = ATTENTION | DENSE | EXPERTS | ONE_SHARED

    def _own_config(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "shared_expert_intermediate_size": self._output_size("ffn_up_shexp.weight"),
        }
