"""GGUF architectures whose models run through mlx-lm's classes: LFM2, Gemma 4, hybrids, others."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import (
    ATTENTION,
    DENSE,
    EXPERTS,
    OUTSIDE,
    Architecture,
)
from mlx_engine.loading.gguf.llama import GRANITE, granite_factors
from mlx_engine.loading.gguf.llama_like import Gemma3Gguf, layer_kinds
from mlx_engine.loading.gguf.metadata import FACTORS, base_of, factors_of
from mlx_engine.loading.gguf.part import Change, Placement


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


class Lfm2Gguf(Architecture):
    """LFM2: most layers are short convolutions, which count no key heads."""

    model_type = "lfm2"
    names = (
        ATTENTION
        | DENSE
        | {
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
    )
    _lasts: ClassVar = ("token_embd_norm.weight", "output_norm.weight")

    def place(self, name: str) -> tuple[Placement, ...]:
        """The last norm is called after the embedding, in files of either name."""
        if name in self._lasts:
            return (Placement("model.embedding_norm.weight"),)
        return super().place(name)

    def _own(self) -> dict[str, object]:
        attends = [self._block_has(n, "attn_q.weight") for n in range(self._main_blocks)]
        inner = self._metadata.count("feed_forward_length")
        return {
            "norm_eps": self._metadata.number("attention.layer_norm_rms_epsilon", 1e-5),
            "layer_types": ["full_attention" if one else "conv" for one in attends],
            "block_dim": self._metadata.count("embedding_length"),
            "block_ff_dim": inner,
            "block_multiple_of": 1,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "conv_L_cache": self._metadata.count("shortconv.l_cache", 3),
            "conv_bias": self._has("shortconv.conv.bias"),
        }

    def _change(self, name: str) -> Change:
        return "a last axis" if name == "shortconv.conv.weight" else "none"


class Lfm2MoeGguf(Lfm2Gguf):
    """LFM2 with experts behind the first layers, whose choice is corrected."""

    model_type = "lfm2_moe"
    names = (
        Lfm2Gguf.names
        | {base: name.replace("mlp.", "feed_forward.", 1) for base, name in EXPERTS.items()}
        | {f"ffn_{one}": f"feed_forward.{one}_proj" for one in ("gate", "up", "down")}
        | {"exp_probs_b.bias": "feed_forward.expert_bias"}
    )

    def _own(self) -> dict[str, object]:
        return {
            **super()._own(),
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "num_dense_layers": self._dense_blocks(),
            "use_expert_bias": self._has("exp_probs_b.bias"),
            "norm_topk_prob": True,
        }


class Gemma4Gguf(Gemma3Gguf):
    """Gemma 4: layers that see all have heads of their own size, rotated in part.

    Values of those layers may be their keys, the last layers' keys those of earlier ones.
    """

    model_type = "gemma4_text"
    runs = ("final_logit_softcapping",)
    outside: ClassVar = OUTSIDE | {
        "per_layer_token_embd": "model.embed_tokens_per_layer",
        "per_layer_model_proj": "model.per_layer_model_projection",
        "per_layer_proj_norm": "model.per_layer_projection_norm",
    }
    names = Gemma3Gguf.names | {
        "layer_output_scale.weight": "layer_scalar",
        "inp_gate": "per_layer_input_gate",
        "proj": "per_layer_projection",
        "post_norm": "post_per_layer_input_norm",
        "ffn_gate_inp": "router.proj",
        "ffn_gate_inp.scale": "router.scale",
        "ffn_gate_exps": "experts.switch_glu.gate_proj",
        "ffn_up_exps": "experts.switch_glu.up_proj",
        "ffn_down_exps": "experts.switch_glu.down_proj",
        "ffn_down_exps.scale": "router.per_expert_scale",
        "pre_ffw_norm_2": "pre_feedforward_layernorm_2",
        "post_ffw_norm_1": "post_feedforward_layernorm_1",
        "post_ffw_norm_2": "post_feedforward_layernorm_2",
    }

    def _own(self) -> dict[str, object]:
        metadata, blocks = self._metadata, self._main_blocks
        kinds = layer_kinds(metadata, blocks, 6)
        full = kinds.index("full_attention") if "full_attention" in kinds else 0
        local = kinds.index("sliding_attention") if "sliding_attention" in kinds else 0
        inner = metadata.counts("feed_forward_length", blocks)
        width = metadata.count("embedding_length_per_layer_input", 0)
        own: dict[str, object] = {
            "head_dim": metadata.count("attention.key_length_swa", self._head),
            "global_head_dim": self._head,
            "num_key_value_heads": self._kept_heads(local),
            "num_global_key_value_heads": self._kept_heads(full),
            "attention_k_eq_v": not self._block_has(full, "attn_v.weight"),
            "num_kv_shared_layers": metadata.count("attention.shared_kv_layers", 0),
            "intermediate_size": inner[0],
            "use_double_wide_mlp": inner[-1] != inner[0],
            "layer_types": kinds,
            "sliding_window": metadata.count("attention.sliding_window"),
            "hidden_size_per_layer_input": width,
            "final_logit_softcapping": metadata.number("final_logit_softcapping", 0.0) or None,
            "enable_moe_block": self._has("ffn_gate_inp.weight"),
        }
        if width:
            own["vocab_size_per_layer_input"] = self._rows("per_layer_token_embd.weight")
        if not own["enable_moe_block"]:
            return own
        return own | self._experts("num_experts", "top_k_experts", "moe_intermediate_size")

    def _rotation(self) -> dict[str, object]:
        """Of a head that sees all the pairs whose periods have a factor of 1 turn."""
        pairs = self._head // 2
        turning = sum(one == 1.0 for one in factors_of(self._file, FACTORS, pairs))
        local = base_of(self._metadata, "rope.freq_base_swa")
        full: dict[str, object] = {
            "rope_type": "proportional",
            "rope_theta": base_of(self._metadata, default=1e6),
            "partial_rotary_factor": turning / pairs,
        }
        plain: dict[str, object] = {"rope_type": "default", "rope_theta": local}
        return {"rope_parameters": {"full_attention": full, "sliding_attention": plain}}

    def _change(self, name: str) -> Change:
        del name
        return "none"


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
    "ssm_conv1d.weight": "a last axis",
    "ssm_a": "log of minus",
    "ssm_d": "one axis",
    "ssm_norm.weight": "one axis",
}


class GraniteHybridGguf(Architecture):
    """Granite 4: most layers are Mamba 2, and nothing is rotated, so rows may stay in pairs."""

    model_type = "granitemoehybrid"
    runs = GRANITE
    names = (
        ATTENTION
        | DENSE
        | {base: f"mamba.{name}" for base, name in MAMBA2.items()}
        | {base: name.replace("mlp.", "block_sparse_moe.", 1) for base, name in EXPERTS.items()}
        | {"ffn_gate_inp": "block_sparse_moe.router.layer"}
        | {
            "ffn_gate_shexp": "shared_mlp.gate_proj",
            "ffn_up_shexp": "shared_mlp.up_proj",
            "ffn_down_shexp": "shared_mlp.output_linear",
        }
    )

    def _own(self) -> dict[str, object]:
        attends = [self._block_has(n, "attn_q.weight") for n in range(self._main_blocks)]
        count = self._metadata.count
        heads = self._least_one("ssm.time_step_rank")
        own = granite_factors(self._metadata)
        if count("expert_count", 0):
            own |= self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size")
            own["shared_intermediate_size"] = count("expert_shared_feed_forward_length")
        return own | {
            "attention_bias": self._has("attn_q.bias"),
            "layer_types": ["attention" if one else "mamba" for one in attends],
            "mamba_n_heads": heads,
            "mamba_d_head": count("ssm.inner_size") // heads,
            "mamba_d_state": count("ssm.state_size"),
            "mamba_d_conv": count("ssm.conv_kernel"),
            "mamba_n_groups": count("ssm.group_count"),
            "mamba_conv_bias": self._has("ssm_conv1d.bias"),
            "mamba_proj_bias": self._has("ssm_in.bias"),
        }

    def _rotation(self) -> dict[str, object]:
        return {}

    def _change(self, name: str) -> Change:
        return MAMBA2_CHANGES.get(name, "none")


class NemotronHGguf(Architecture):
    """Nemotron-H and Nemotron 3: each block is one of Mamba 2, attention, MLP or experts."""

    model_type = "nemotron_h"
    rotates_whole_heads = False
    outside: ClassVar = {
        "token_embd": "backbone.embeddings",
        "output_norm": "backbone.norm_f",
        "output": "lm_head",
    }
    names: ClassVar = {
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

    def _own(self) -> dict[str, object]:
        count, heads = self._metadata.count, self._least_one("ssm.time_step_rank")
        kinds = [self._kind(block) for block in range(self._main_blocks)]
        own: dict[str, object] = {
            "layers_block_type": kinds,
            "mamba_num_heads": heads,
            "mamba_head_dim": count("ssm.inner_size") // heads,
            "ssm_state_size": count("ssm.state_size"),
            "conv_kernel": count("ssm.conv_kernel"),
            "n_groups": count("ssm.group_count"),
            "use_conv_bias": self._has("ssm_conv1d.bias"),
            "mamba_proj_bias": self._has("ssm_in.bias"),
            "use_bias": self._has("ssm_in.bias"),
            "attention_bias": self._has("attn_q.bias"),
            "mlp_bias": self._has("ffn_up.bias"),
            "layer_norm_epsilon": self._eps(),
        }
        if "moe" not in kinds:
            return own
        latent = count("moe_latent_size", 0) or None
        return {
            **own,
            **self._experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
            **self._expert_scores(),
            "n_shared_experts": count("expert_shared_count", 0),
            "moe_shared_expert_intermediate_size": count("expert_shared_feed_forward_length", 0),
            "moe_latent_size": latent,
        }

    def _kind(self, block: int) -> str:
        tells = {"ssm_in": "mamba", "attn_q": "attention", "ffn_gate_inp": "moe"}
        found = (kind for name, kind in tells.items() if self._block_has(block, f"{name}.weight"))
        return next(found, "mlp")

    def _eps(self) -> float:
        number = self._metadata.number
        usual = number("attention.layer_norm_epsilon", 1e-5)
        return number("attention.layer_norm_rms_epsilon", usual)

    def _layer(self, block: int) -> str:
        behind = block - self._main_blocks
        return f"mtp.layers.{behind}." if behind >= 0 else f"backbone.layers.{block}."

    def _change(self, name: str) -> Change:
        return MAMBA2_CHANGES.get(name, "none")
