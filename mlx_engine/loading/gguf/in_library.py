"""GGUF architectures whose models run through mlx-lm's classes: Gemma 4, Nemotron-H, Hunyuan."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import ATTENTION, DENSE, OUTSIDE, Architecture
from mlx_engine.loading.gguf.hybrid import MAMBA2, MAMBA2_CHANGES
from mlx_engine.loading.gguf.llama_like import Gemma3Gguf, layer_kinds
from mlx_engine.loading.gguf.metadata import FACTORS, base_of, factors_of
from mlx_engine.loading.gguf.part import Change


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
