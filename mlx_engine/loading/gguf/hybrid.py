"""GGUF architectures with convolution or Mamba layers: LFM2, Granite 4, Falcon-H1, Nemotron-H."""

from collections.abc import Mapping
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import NAMES, OUTSIDE, Architecture
from mlx_engine.loading.gguf.llama import GRANITE_KEYS, granite_factors
from mlx_engine.loading.gguf.part import Change, HfTensor

_PARTS = ("gate", "up", "down")
_EXPERTS = ("ffn_gate_inp", *(f"ffn_{part}_exps" for part in _PARTS))


class Lfm2Gguf(Architecture):
    """GGUF files of LFM2: most layers are short convolutions without key heads."""

    model_type = "lfm2"
    changes: ClassVar[Mapping[str, Change]] = {"shortconv.conv.weight": "add last axis"}
    names = NAMES | {
        "attn_norm": "operator_norm",
        "attn_output": "self_attn.out_proj",
        "attn_q_norm": "self_attn.q_layernorm",
        "attn_k_norm": "self_attn.k_layernorm",
        "shortconv.conv": "conv.conv",
        "shortconv.in_proj": "conv.in_proj",
        "shortconv.out_proj": "conv.out_proj",
        "ffn_norm": "ffn_norm",
        "ffn_gate": "feed_forward.w1",
        "ffn_down": "feed_forward.w2",
        "ffn_up": "feed_forward.w3",
    }
    _final_norms: ClassVar = ("token_embd_norm.weight", "output_norm.weight")

    def hf_tensors(self, name: str) -> tuple[HfTensor, ...]:
        """Map an LFM2 GGUF tensor to Hugging Face names; the final norm has two names in GGUF."""
        if name in self._final_norms:
            return (HfTensor("model.embedding_norm.weight"),)
        return super().hf_tensors(name)

    def _family_config(self) -> dict[str, object]:
        attends = [self._layer_has(n, "attn_q.weight") for n in range(self._main_blocks)]
        inner = self._metadata.count("feed_forward_length")
        return {
            "norm_eps": self._metadata.number("attention.layer_norm_rms_epsilon", 1e-5),
            "layer_types": ["full_attention" if flag else "conv" for flag in attends],
            "block_dim": self._metadata.count("embedding_length"),
            "block_ff_dim": inner,
            "block_multiple_of": 1,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "conv_L_cache": self._metadata.count("shortconv.l_cache", 3),
            "conv_bias": self._any_layer_has("shortconv.conv.bias"),
        }


class Lfm2MoeGguf(Lfm2Gguf):
    """GGUF files of LFM2 with experts after the first layers, and a bias for expert selection."""

    model_type = "lfm2_moe"
    names = (
        Lfm2Gguf.names
        | {base: NAMES[base].replace("mlp.", "feed_forward.", 1) for base in _EXPERTS}
        | {f"ffn_{part}": f"feed_forward.{part}_proj" for part in _PARTS}
        | {"exp_probs_b.bias": "feed_forward.expert_bias"}
    )

    def _family_config(self) -> dict[str, object]:
        return {
            **super()._family_config(),
            **self._expert_fields("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "num_dense_layers": self._leading_dense_blocks(),
            "use_expert_bias": self._any_layer_has("exp_probs_b.bias"),
            "norm_topk_prob": True,
        }


MAMBA2 = {
    "ssm_in": "in_proj",
    "ssm_conv1d": "conv1d",
    "ssm_dt.bias": "dt_bias",
    "ssm_a": "A_log",
    "ssm_d": "D",
    "ssm_norm": "norm",
    "ssm_out": "out_proj",
}
MAMBA2_CHANGES: dict[str, Change] = {
    "ssm_conv1d.weight": "add last axis",
    "ssm_a": "log of negated",
    "ssm_d": "flatten",
    "ssm_norm.weight": "flatten",
}


class GraniteHybridGguf(Architecture):
    """GGUF files of Granite 4: mostly Mamba 2; no RoPE, so llama.cpp's row order can stay."""

    model_type = "granitemoehybrid"
    changes: ClassVar[Mapping[str, Change]] = MAMBA2_CHANGES
    supported = GRANITE_KEYS
    names = (
        NAMES
        | {base: f"mamba.{name}" for base, name in MAMBA2.items()}
        | {base: NAMES[base].replace("mlp.", "block_sparse_moe.", 1) for base in _EXPERTS}
        | {"ffn_gate_inp": "block_sparse_moe.router.layer"}
        | {
            "ffn_gate_shexp": "shared_mlp.gate_proj",
            "ffn_up_shexp": "shared_mlp.up_proj",
            "ffn_down_shexp": "shared_mlp.output_linear",
        }
    )

    def _family_config(self) -> dict[str, object]:
        attends = [self._layer_has(n, "attn_q.weight") for n in range(self._main_blocks)]
        count = self._metadata.count
        heads = self._positive_count("ssm.time_step_rank")
        own = granite_factors(self._metadata)
        if count("expert_count", 0):
            own |= self._expert_fields(
                "num_local_experts", "num_experts_per_tok", "intermediate_size"
            )
            own["shared_intermediate_size"] = count("expert_shared_feed_forward_length")
        else:
            own["num_local_experts"] = 0
            own["shared_intermediate_size"] = count("feed_forward_length")
        return own | {
            "layer_types": ["attention" if flag else "mamba" for flag in attends],
            "mamba_n_heads": heads,
            "mamba_d_ssm": count("ssm.inner_size"),
            "mamba_d_state": count("ssm.state_size"),
            "mamba_d_conv": count("ssm.conv_kernel"),
            "mamba_n_groups": count("ssm.group_count"),
            "mamba_conv_bias": self._any_layer_has("ssm_conv1d.bias"),
            "mamba_proj_bias": self._any_layer_has("ssm_in.bias"),
        }

    def _rope_fields(self) -> dict[str, object]:
        return {}


class FalconH1Gguf(Architecture):
    """GGUF files of Falcon-H1: attention parallel to Mamba 2, multipliers folded into weights."""

    model_type = "falcon_h1"
    changes: ClassVar[Mapping[str, Change]] = MAMBA2_CHANGES
    default_base = 1e11
    outside: ClassVar = OUTSIDE | {"output_norm": "model.final_layernorm"}
    names = (
        NAMES
        | {base: f"mamba.{name}" for base, name in MAMBA2.items()}
        | {f"ffn_{part}": f"feed_forward.{part}_proj" for part in _PARTS}
        | {"ffn_norm": "pre_ff_layernorm"}
    )

    def _family_config(self) -> dict[str, object]:
        count, heads = self._metadata.count, self._positive_count("ssm.time_step_rank")
        return {
            "projectors_bias": self._any_layer_has("ssm_out.bias"),
            "mamba_conv_bias": self._any_layer_has("ssm_conv1d.bias"),
            "mamba_proj_bias": self._any_layer_has("ssm_in.bias"),
            "mamba_rms_norm": self._any_layer_has("ssm_norm.weight"),
            "mamba_norm_before_gate": False,
            "mamba_d_conv": count("ssm.conv_kernel"),
            "mamba_d_ssm": count("ssm.inner_size"),
            "mamba_d_state": count("ssm.state_size"),
            "mamba_n_groups": count("ssm.group_count"),
            "mamba_n_heads": heads,
            "embedding_multiplier": 1.0,
            "lm_head_multiplier": 1.0,
        }

    def _published_name(self, block: int, name: str) -> str:
        """Hugging Face name of a layer's tensor; llama.cpp writes `ffn_norm` without `.weight`."""
        return super()._published_name(block, "ffn_norm.weight" if name == "ffn_norm" else name)


class NemotronHGguf(Architecture):
    """GGUF files of Nemotron-H and 3: each layer is Mamba 2, attention, an MLP or experts."""

    model_type = "nemotron_h"
    changes: ClassVar[Mapping[str, Change]] = MAMBA2_CHANGES
    rotates_whole_heads = False
    outside: ClassVar = OUTSIDE | {
        "token_embd": "backbone.embeddings",
        "output_norm": "backbone.norm_f",
    }
    names: ClassVar = {
        **NAMES,
        **{base: f"mixer.{name}" for base, name in MAMBA2.items()},
        **{f"attn_{part}": f"mixer.{part}_proj" for part in "qkv"},
        "attn_norm": "norm",
        "attn_output": "mixer.o_proj",
        "ffn_up": "mixer.up_proj",
        "ffn_down": "mixer.down_proj",
        "ffn_gate_inp": "mixer.gate",
        "exp_probs_b.bias": "mixer.gate.e_score_correction_bias",
        "ffn_up_exps": "mixer.switch_mlp.fc1",
        "ffn_down_exps": "mixer.switch_mlp.fc2",
        "ffn_up_shexp": "mixer.shared_experts.up_proj",
        "ffn_down_shexp": "mixer.shared_experts.down_proj",
        "ffn_latent_down": "mixer.fc1_latent_proj",
        "ffn_latent_up": "mixer.fc2_latent_proj",
    }
    head_names: ClassVar = {"nextn.shared_head_norm": "final_layernorm"}

    def _family_config(self) -> dict[str, object]:
        count, heads = self._metadata.count, self._positive_count("ssm.time_step_rank")
        kinds = [self._layer_kind(block) for block in range(self._main_blocks)]
        own: dict[str, object] = {
            "layers_block_type": kinds,
            "mamba_num_heads": heads,
            "mamba_head_dim": count("ssm.inner_size") // heads,
            "ssm_state_size": count("ssm.state_size"),
            "conv_kernel": count("ssm.conv_kernel"),
            "n_groups": count("ssm.group_count"),
            "use_conv_bias": self._any_layer_has("ssm_conv1d.bias"),
            "mamba_proj_bias": self._any_layer_has("ssm_in.bias"),
            "use_bias": self._any_layer_has("ssm_in.bias"),
            "layer_norm_epsilon": self._norm_epsilon(),
        }
        if "moe" not in kinds:
            return own
        latent = count("moe_latent_size", 0) or None
        return {
            **own,
            **self._expert_fields(
                "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"
            ),
            **self._expert_scores(),
            "n_shared_experts": count("expert_shared_count", 0),
            "moe_shared_expert_intermediate_size": count("expert_shared_feed_forward_length", 0),
            "moe_latent_size": latent,
        }

    def _layer_kind(self, block: int) -> str:
        attention = dict.fromkeys(("attn_q", "attn_qkv"), "attention")
        signs = {"ssm_in": "mamba", **attention, "ffn_gate_inp": "moe"}
        found = (kind for name, kind in signs.items() if self._layer_has(block, f"{name}.weight"))
        return next(found, "mlp")

    def _norm_epsilon(self) -> float:
        number = self._metadata.number
        usual = number("attention.layer_norm_epsilon", 1e-5)
        return number("attention.layer_norm_rms_epsilon", usual)

    def _layer_prefix(self, block: int) -> str:
        head = block - self._main_blocks
        return f"mtp.layers.{head}." if head >= 0 else f"backbone.layers.{block}."
