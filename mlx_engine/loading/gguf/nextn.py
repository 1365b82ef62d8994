"""GGUF architectures with NextN (MTP) heads: GLM-4.5, K-EXAONE, DeepSeek, MiMo-V2, Step-3.5, ...

Latent attention (DeepSeek, Kimi K2, GLM-4.7-Flash): newer files store the halves of `kv_b_proj`
separately, the keys' half transposed, as MLX conversions do, and count one key head. In MiMo-V2 and
Step-3.5, sliding-window layers have their own head counts, head sizes and RoPE.
"""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import (
    NAMES,
    OUTSIDE,
    SIGMOID,
    SOFTMAX,
    Architecture,
)
from mlx_engine.loading.gguf.metadata import Kind, layer_types, rope_base
from mlx_engine.loading.gguf.qwen import MtpGguf
from mlx_engine.values.errors import UnsupportedModel

_GLM_TOKENIZERS = ("glm4", "chatglm-bpe")
_LOG = 0.1  # by which the converter multiplies yarn's mscale_all_dim


class Glm4MoeGguf(Architecture):
    """GGUF files of GLM-4.5 to 4.7, whose MTP heads are the last layers."""

    model_type = "glm4_moe"
    rotates_whole_heads = False

    def _family_config(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **self._expert_fields(
                "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"
            ),
            **self._expert_scores(),
            "n_shared_experts": self._metadata.count("expert_shared_count", 1),
            "first_k_dense_replace": self._leading_dense_blocks(),
            "use_qk_norm": self._any_layer_has("attn_q_norm.weight"),
            "partial_rotary_factor": self._partial_factor(),
        }


class ExaoneMoeGguf(MtpGguf, Glm4MoeGguf):
    """GGUF files of K-EXAONE: every fourth layer is full, the others have a sliding window."""

    model_type = "exaone_moe"

    def _family_config(self) -> dict[str, object]:
        return {
            **super()._family_config(),
            **self._expert_fields("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "num_shared_experts": self._metadata.count("expert_shared_count", 1),
            "sliding_window": self._metadata.count("attention.sliding_window", 0) or None,
            "layer_types": layer_types(self._metadata, self._main_blocks, 4),
        }


class BailingMoe2Gguf(Glm4MoeGguf):
    """GGUF files of Ling and Ring 2.0, stored like GLM-4.5."""

    head_names: ClassVar = {"layer_output_norm": "shared_head.norm"}


class Deepseek2Gguf(Architecture):
    """GGUF files of DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash, with latent attention."""

    rotates_whole_heads = False
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("yarn",)
    names = NAMES | {
        "attn_q_a": "self_attn.q_a_proj",
        "attn_q_a_norm": "self_attn.q_a_layernorm",
        "attn_q_b": "self_attn.q_b_proj",
        "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa",
        "attn_kv_a_norm": "self_attn.kv_a_layernorm",
        "attn_kv_b": "self_attn.kv_b_proj",
        "attn_k_b": "self_attn.embed_q",
        "attn_v_b": "self_attn.unembed_out",
    }

    def _family_config(self) -> dict[str, object]:
        count, nope = self._metadata.count, self._head_dim - self._rotary_dim()
        if nope < 1:
            what = f"{self._rotary_dim()} rotated elements in heads of {self._head_dim}"
            raise self._bad_metadata(what, "rope.dimension_count")
        own: dict[str, object] = {
            "num_key_value_heads": self._query_heads,
            "q_lora_rank": count("attention.q_lora_rank", 0) or None,
            "kv_lora_rank": self._positive_count("attention.kv_lora_rank"),
            "qk_rope_head_dim": self._rotary_dim(),
            "qk_nope_head_dim": nope,
            "v_head_dim": self._latent_head_size("value_length"),
            "n_shared_experts": count("expert_shared_count", 0) or None,
            "first_k_dense_replace": self._leading_dense_blocks(),
            "attention_bias": False,
        }
        if not count("expert_count", 0):
            return own | {"n_routed_experts": None}
        scores = self._expert_scores()
        own |= self._expert_fields(
            "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"
        )
        if self.model_type != "deepseek_v2":
            return own | scores
        if scores["norm_topk_prob"]:
            raise UnsupportedModel(
                "{path}: normalises softmax scores of experts (expert_weights_norm), which "
                "this version does not support. Use another model.",
                path=self._file.path,
            )
        grouped = scores["n_group"] != scores["topk_group"]
        return own | scores | {"topk_method": "group_limited_greedy" if grouped else "greedy"}

    def _rope_scaling_fields(self) -> dict[str, object] | None:
        """Return `rope_scaling`: YaRN with mscale_all_dim, which scales attention scores."""
        scaling = super()._rope_scaling_fields()
        if scaling is None:
            return None
        everywhere = self._metadata.number("rope.scaling.yarn_log_multiplier", 0.0) / _LOG
        return scaling | {"mscale": everywhere or 1.0, "mscale_all_dim": everywhere}

    def _find_model_type(self) -> str:
        """config.json's model_type: GLM's by its tokenizer, DeepSeek V2's by softmax routing."""
        metadata = self._metadata
        is_glm = metadata.text("tokenizer.ggml.pre") in _GLM_TOKENIZERS
        usual = SIGMOID if is_glm or self._any_layer_has("exp_probs_b.bias") else SOFTMAX
        gating = metadata.count("expert_gating_func", 0) or usual
        if gating not in (SIGMOID, SOFTMAX) or (gating == SOFTMAX and is_glm):
            raise self._unknown_router()
        if gating == SOFTMAX and metadata.count("expert_count", 0):
            return "deepseek_v2"
        return "glm4_moe_lite" if is_glm else "deepseek_v3"

    def _rotary_dim(self) -> int:
        return self._positive_count("rope.dimension_count")

    @property
    def _head_dim(self) -> int:
        """Size of a query or key head after `kv_b_proj`, in elements."""
        return self._latent_head_size("key_length")

    def _kv_heads(self, block: int) -> int:
        del block
        return self._query_heads

    def _latent_head_size(self, metadata_key: str) -> int:
        """Head size in latent attention: at `<key>_mla` in newer GGUF files, else at that key."""
        whole = f"attention.{metadata_key}"
        newer = f"{whole}_mla"
        return self._positive_count(newer if self._metadata.has_key(newer) else whole)


class Deepseek32Gguf(Deepseek2Gguf):
    """GGUF files of DeepSeek-V3.2 and GLM-5: latent attention with an indexer."""

    names = Deepseek2Gguf.names | {
        "indexer.attn_q_b": "self_attn.indexer.wq_b",
        "indexer.attn_k": "self_attn.indexer.wk",
        "indexer.k_norm": "self_attn.indexer.k_norm",
        "indexer.proj": "self_attn.indexer.weights_proj",
    }

    def _family_config(self) -> dict[str, object]:
        self._check_sigmoid()
        return {
            **super()._family_config(),
            "index_n_heads": self._positive_count("attention.indexer.head_count"),
            "index_head_dim": self._positive_count("attention.indexer.key_length"),
            "index_topk": self._positive_count("attention.indexer.top_k"),
            "indexer_types": self._indexer_layer_types(),
        }

    def _indexer_layer_types(self) -> list[str] | None:
        """Which layers have an indexer; older files do not say, and those of GLM-5.2 share most."""
        metadata, keys = self._metadata, (f"attention.indexer.{n}" for n in ("types", "is_full"))
        if (key := next(filter(metadata.has_key, keys), None)) is not None:
            flags = metadata.counts(key, self._main_blocks)
        elif self.model_type == "glm_moe_dsa" and metadata.count("context_length") >= 2**20:
            flags = tuple(int(n < 2 or n % 4 == 2) for n in range(self._main_blocks))
        else:
            return None
        return ["full" if flag else "shared" for flag in flags]


class HyV4Gguf(Deepseek32Gguf):
    """GGUF files of Hy4, into which no converter puts the MTP head."""

    model_type = "hy_v4"
    outside: ClassVar = OUTSIDE | {
        f"output_hc_{part}": f"model.hc_head.hc_head_{part}" for part in ("fn", "base", "scale")
    }
    names = Deepseek32Gguf.names | {
        "attn_gate": "self_attn.linear_gate",
        "attn_sinks.weight": "self_attn.learnable_sink_param",
        **{
            f"hc_{ours}_{part}.weight": f"hc_{theirs}_layer.hc_pre.hc_{part}"
            for ours, theirs in (("attn", "attn"), ("ffn", "mlp"))
            for part in ("fn", "base", "scale")
        },
    }

    def _family_config(self) -> dict[str, object]:
        metadata = self._metadata
        return {
            **super()._family_config(),
            "hc_mult": self._positive_count("hyper_connection.count"),
            "hc_eps": metadata.number("hyper_connection.epsilon", 1e-6),
            "hc_magnitude": metadata.number("hyper_connection.magnitude", 2.0),
            "swiglu_limit": metadata.numbers("swiglu_clamp_exp", 1, 0.0)[0],
        }


_PATTERN = "attention.sliding_window_pattern"


class KimiLinearGguf(Deepseek2Gguf):
    """GGUF files of Kimi Linear: latent attention beside Kimi Delta Attention (`ssm_*`)."""

    model_type = "kimi_linear"
    changes: ClassVar = {
        **{f"ssm_conv1d_{part}.weight": "add last axis" for part in "qkv"},
        "ssm_a": "log of negated",
    }
    names = Deepseek2Gguf.names | {
        **{f"ssm_{part}": f"self_attn.{part}_proj" for part in ("f_a", "f_b", "g_a", "g_b")},
        "ssm_beta": "self_attn.b_proj",
        **{f"ssm_conv1d_{part}": f"self_attn.{part}_conv1d" for part in "qkv"},
        "ssm_a": "self_attn.A_log",
        "ssm_dt.bias": "self_attn.dt_bias",
        "ssm_norm": "self_attn.o_norm",
    }

    def _family_config(self) -> dict[str, object]:
        self._check_sigmoid()
        blocks = range(self._main_blocks)
        full = [self._layer_has(block, "attn_kv_a_mqa.weight") for block in blocks]
        return {
            **super()._family_config(),
            "norm_topk_prob": True,  # whatever the file says, as in llama.cpp
            "layer_types": ["full_attention" if flag else "linear_attention" for flag in full],
            "linear_num_heads": self._query_heads,
            "linear_head_dim": self._positive_count("kda.head_dim"),
            "linear_conv_kernel_dim": self._positive_count("ssm.conv_kernel"),
        }


class BailingMoe3Gguf(KimiLinearGguf):
    """GGUF files of Ling 3.0: like Kimi Linear's, with gated latent attention and an MTP head."""

    model_type = "bailing_hybrid"
    changes: ClassVar = {**KimiLinearGguf.changes, "ssm_a": "log"}
    names = KimiLinearGguf.names | {
        "attn_gate": "self_attn.g_proj",
        "ssm_g_a": "self_attn.g_proj",
        "ssm_f_a": "self_attn.f_proj",
    }
    head_names: ClassVar = {"layer_output_norm": "final_layernorm"}

    def _family_config(self) -> dict[str, object]:
        metadata, shared = self._metadata, self._output_size("ffn_up_shexp.weight")
        every = self._main_blocks + metadata.count("nextn_predict_layers", 0)
        return {
            **super()._family_config(),
            **self._expert_scores(),
            "num_shared_experts": 1 if shared else 0,
            "moe_shared_expert_intermediate_size": shared or None,
            "short_conv_kernel_size": self._positive_count("ssm.conv_kernel"),
            "kda_safe_gate": metadata.flag("kda.safe_gate")
            or not metadata.has_key("kda.safe_gate"),
            "kda_lower_bound": metadata.number("kda.gate_lower_bound", -5.0),
            "expert_swiglu_limit_list": list(metadata.numbers("swiglu_clamp_exp", every, 0.0)),
            "share_expert_swiglu_limit_list": list(
                metadata.numbers("swiglu_clamp_shexp", every, 0.0)
            ),
        }


class Glm5NextGguf(KimiLinearGguf, Deepseek32Gguf):
    """GGUF files of GLM-5.3-Flash: latent attention without positions, pooled index keys, mHC."""

    model_type = "glm5_next"
    names = (
        KimiLinearGguf.names
        | Deepseek32Gguf.names
        | {
            "indexer_compressor_gate.weight": "self_attn.indexer.index_kpool_compress_gate",
            "indexer_compressor_ape.weight": "self_attn.indexer.index_kpool_compress_ape",
            **{
                f"hc_{site}_{part}.weight": f"hc_{site}_{part}"
                for site in ("attn", "ffn")
                for part in ("fn", "base", "scale")
            },
        }
    )

    def _family_config(self) -> dict[str, object]:
        metadata, bound = self._metadata, "kda.gate_lower_bound"
        tail = "attention.indexer.kpool_select_tail"
        return {
            **super()._family_config(),
            **self._expert_scores(),
            "linear_lower_bound": metadata.number(bound, 0.0) if metadata.has_key(bound) else None,
            "index_kpool": self._positive_count("attention.indexer.kpool"),
            "index_kpool_always_select_tail": metadata.flag(tail) or not metadata.has_key(tail),
            "hc_mult": self._positive_count("hyper_connection.count"),
            "hc_sinkhorn_iters": self._positive_count("hyper_connection.sinkhorn_iterations"),
            "hc_eps": metadata.number("hyper_connection.epsilon", 1e-6),
            "swiglu_limit": metadata.numbers("swiglu_clamp_exp", 1, 0.0)[0],
        }

    def _rotary_dim(self) -> int:
        return 0


class WindowedGguf(Architecture):
    """Base of the GGUF architectures MiMo-V2 and Step-3.5: full and sliding-window layers."""

    rotates_whole_heads = False

    def _has_window(self) -> list[bool]:
        """List for each layer, MTP heads included, whether it has a sliding window."""
        metadata = self._metadata
        blocks = self._main_blocks + metadata.count("nextn_predict_layers", 0)
        length = min(blocks, max(self._main_blocks, metadata.list_length(_PATTERN)))
        windowed = [flag == 1 for flag in metadata.counts(_PATTERN, length)]
        if len(set(windowed[: self._main_blocks])) != 2:
            raise UnsupportedModel(
                "{path}: its layers are all of one kind ({pattern}), which this version "
                "does not run for this architecture. Take another file of the model.",
                path=metadata.path,
                pattern=_PATTERN,
            )
        return windowed

    def _rope_bases(self) -> tuple[float, float]:
        """Return two RoPE bases (theta): of full layers and of sliding-window layers."""
        return rope_base(self._metadata), rope_base(self._metadata, "rope.freq_base_swa")


class Mimo2Gguf(WindowedGguf):
    """GGUF files of MiMo-V2, whose sliding-window layers may have attention sinks."""

    model_type = "mimo_v2_flash"
    rope_kinds = ()
    names = NAMES | {"attn_sinks.weight": "self_attn.attention_sink_bias"}
    head_names: ClassVar = {
        "ffn_norm": "pre_mlp_layernorm",
        "layer_output_norm": "final_layernorm",
    }

    def _family_config(self) -> dict[str, object]:
        metadata, blocks = self._metadata, range(self._main_blocks)
        windowed = self._has_window()[: len(blocks)]
        full, local = windowed.index(False), windowed.index(True)
        has_experts = [self._layer_has(n, "ffn_gate_inp.weight") for n in blocks]
        has_sinks = [self._layer_has(n, "attn_sinks.weight") for n in blocks]
        value = metadata.count("attention.value_length", self._head_dim)
        for block in blocks:
            self._kv_heads(block)  # raises for what cannot be
        return {
            **self._expert_fields(
                "n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"
            ),
            **self._expert_scores(),
            "norm_topk_prob": True,
            "n_shared_experts": None,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "num_key_value_heads": self._kv_heads(full),
            "hybrid_layer_pattern": [int(flag) for flag in windowed],
            "moe_layer_freq": [int(flag) for flag in has_experts],
            "add_swa_attention_sink_bias": (True, True) in zip(windowed, has_sinks, strict=True),
            "add_full_attention_sink_bias": (False, True) in zip(windowed, has_sinks, strict=True),
            "sliding_window": metadata.count("attention.sliding_window"),
            "layernorm_epsilon": metadata.number("attention.layer_norm_rms_epsilon", 1e-5),
            "swa_rope_theta": self._rope_bases()[1],
            "swa_num_attention_heads": self._query_heads,
            "swa_num_key_value_heads": self._kv_heads(local),
            "v_head_dim": value,
            "swa_head_dim": self._head_dim,
            "swa_v_head_dim": value,
            "partial_rotary_factor": (self._rotary_dim() + 0.5) / self._head_dim,
            "attention_value_scale": metadata.number("attention.value_scale", 1.0) or 1.0,
        }

    def _layer_prefix(self, block: int) -> str:
        if block < self._main_blocks:
            return super()._layer_prefix(block)
        return f"model.mtp.layers.{block - self._main_blocks}."


class Step35Gguf(WindowedGguf):
    """GGUF files of Step-3.5: full layers rotate half of each head; norm weights as 1 + w."""

    model_type = "step3p5"
    names = (
        NAMES
        | {f"ffn_{part}_shexp": f"mlp.share_expert.{part}_proj" for part in ("gate", "up", "down")}
        | {
            "attn_gate": "self_attn.g_proj",
            "ffn_gate_inp": "mlp.gate.gate",
            "exp_probs_b.bias": "mlp.gate.router_bias",
        }
    )
    head_names: ClassVar = {
        "nextn.shared_head_norm": "transformer.shared_head.norm",
        "nextn.shared_head_head": "transformer.shared_head.output",
    }

    def _family_config(self) -> dict[str, object]:
        blocks, windowed = range(self._main_blocks), self._has_window()
        full, local = windowed.index(False), windowed.index(True)
        scores, head = self._expert_scores(), self._head_dim
        numbers, count = self._metadata.numbers, self._metadata.count
        return {
            **self._expert_fields("moe_num_experts", "moe_top_k", "moe_intermediate_size"),
            "moe_router_scaling_factor": scores["routed_scaling_factor"],
            "norm_expert_weight": scores["norm_topk_prob"],
            "moe_layers_enum": ",".join(
                str(n) for n in blocks if self._layer_has(n, "ffn_gate_inp.weight")
            ),
            "share_expert_dim": count("expert_shared_feed_forward_length"),
            "num_attention_heads": self._layer_query_heads(full),
            "num_key_value_heads": self._kv_heads(full),
            "num_attention_groups": self._kv_heads(full),
            "attention_other_setting": {
                "num_attention_heads": self._layer_query_heads(local),
                "num_attention_groups": self._kv_heads(local),
            },
            "layer_types": ["sliding_attention" if w else "full_attention" for w in windowed],
            "sliding_window": count("attention.sliding_window"),
            "partial_rotary_factors": [
                1.0 if w else (self._rotary_dim() + 0.5) / head for w in windowed
            ],
            "use_head_wise_attn_gate": self._any_layer_has("attn_gate.weight"),
            "swiglu_limits": list(numbers("swiglu_clamp_exp", len(blocks), 0.0)),
            "swiglu_limits_shared": list(numbers("swiglu_clamp_shexp", len(blocks), 0.0)),
        }

    def _rope_fields(self) -> dict[str, object]:
        base, local = self._rope_bases()
        return {
            "rope_theta": [local if w else base for w in self._has_window()],
            "rope_scaling": self._rope_scaling_fields(),
            "yarn_only_types": ["full_attention"],
        }

    def _rotary_dim(self) -> int:
        """Elements of a head that RoPE rotates in full layers, half as many as in windowed ones."""
        return super()._rotary_dim() // 2
