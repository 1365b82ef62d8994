"""GGUF architectures of Gemma 1, 2, 3, 3n and 4."""

from collections.abc import Mapping
from math import erf, inf, sqrt
from typing import ClassVar

import numpy as np

from mlx_engine.loading.gguf.architecture import MOST_BLOCKS, NAMES, OUTSIDE, Architecture
from mlx_engine.loading.gguf.metadata import (
    ROPE_FACTORS,
    Kind,
    layer_types,
    rope_base,
    rope_factors,
)
from mlx_engine.loading.gguf.part import Change, HfTensor

_LAYERS_OF_27B, _LAYERS_OF_GEMMA_2_27B = 62, 46


class GemmaGguf(Architecture):
    """GGUF files of Gemma 1, whose norm weights are stored as 1 + w."""

    model_type = "gemma"
    changes: ClassVar[Mapping[str, Change]] = {"norm.weight": "subtract one"}


class Gemma3Gguf(GemmaGguf):
    """GGUF files of Gemma 3: norm weights as 1 + w; five sliding-window layers per full one.

    Sliding-window layers have their own RoPE base and no RoPE scaling.
    """

    model_type = "gemma3_text"
    rope_kinds: ClassVar[tuple[Kind, ...]] = ("linear",)
    default_base = 1e6
    names = NAMES | {
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    }

    def _family_config(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "sliding_window": window or self._metadata.count("context_length"),
            "layer_types": layer_types(self._metadata, self._main_blocks, 6 if window else 0),
            "query_pre_attn_scalar": self._query_scalar(),
        }

    def _rope_fields(self) -> dict[str, object]:
        local = rope_base(self._metadata, "rope.freq_base_swa")
        return super()._rope_fields() | {"rope_local_base_freq": local}

    def _query_scalar(self) -> int:
        """Gemma's `query_pre_attn_scalar`: the head size, but hidden size / heads in the 27B."""
        if self._main_blocks == _LAYERS_OF_27B:
            return self._metadata.count("embedding_length") // self._query_heads
        return self._head_dim


class Gemma2Gguf(GemmaGguf):
    """GGUF files of Gemma 2: norm weights as 1 + w, logit soft caps, every other layer windowed."""

    model_type = "gemma2"
    supported = ("attn_logit_softcapping", "final_logit_softcapping")
    names = Gemma3Gguf.names

    def _family_config(self) -> dict[str, object]:
        number, is_27b = self._metadata.number, self._main_blocks == _LAYERS_OF_GEMMA_2_27B
        width = self._metadata.count("embedding_length")
        return {
            "attn_logit_softcapping": number("attn_logit_softcapping", 50.0),
            "final_logit_softcapping": number("final_logit_softcapping", 30.0),
            "query_pre_attn_scalar": width // self._query_heads if is_27b else self._head_dim,
            "sliding_window": self._metadata.count("attention.sliding_window", 4096),
        }


class Gemma4Gguf(Gemma3Gguf):
    """GGUF files of Gemma 4: full layers have their own head size and partial RoPE.

    Full layers may use keys as values; the last layers share the KV cache of earlier layers.
    """

    model_type = "gemma4_text"
    changes: ClassVar[Mapping[str, Change]] = {}
    supported = ("final_logit_softcapping",)
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

    def _family_config(self) -> dict[str, object]:
        metadata, blocks = self._metadata, self._main_blocks
        kinds = layer_types(metadata, blocks, 6)
        full = kinds.index("full_attention") if "full_attention" in kinds else 0
        local = kinds.index("sliding_attention") if "sliding_attention" in kinds else 0
        inner = metadata.counts("feed_forward_length", blocks)
        width = metadata.count("embedding_length_per_layer_input", 0)
        own: dict[str, object] = {
            "head_dim": metadata.count("attention.key_length_swa", self._head_dim),
            "global_head_dim": self._head_dim,
            "num_key_value_heads": self._kv_heads(local),
            "num_global_key_value_heads": self._kv_heads(full),
            "attention_k_eq_v": not self._layer_has(full, "attn_v.weight"),
            "num_kv_shared_layers": metadata.count("attention.shared_kv_layers", 0),
            "intermediate_size": inner[0],
            "use_double_wide_mlp": inner[-1] != inner[0],
            "layer_types": kinds,
            "sliding_window": metadata.count("attention.sliding_window"),
            "hidden_size_per_layer_input": width,
            "use_bidirectional_attention": None if width else "vision",  # not in the file
            "final_logit_softcapping": metadata.number("final_logit_softcapping", 0.0) or None,
            "enable_moe_block": self._any_layer_has("ffn_gate_inp.weight"),
        }
        if width:
            own["vocab_size_per_layer_input"] = self._file.tensor(
                "per_layer_token_embd.weight"
            ).shape[0]
        if not own["enable_moe_block"]:
            return own
        return own | self._expert_fields("num_experts", "top_k_experts", "moe_intermediate_size")

    def _rope_fields(self) -> dict[str, object]:
        """Config fields of RoPE by layer type; in full layers only pairs of factor 1 rotate."""
        pairs = self._head_dim // 2
        rotating = sum(factor == 1.0 for factor in rope_factors(self._file, ROPE_FACTORS, pairs))
        local = rope_base(self._metadata, "rope.freq_base_swa")
        full: dict[str, object] = {
            "rope_type": "proportional",
            "rope_theta": rope_base(self._metadata, default=1e6),
            "partial_rotary_factor": rotating / pairs,
        }
        plain: dict[str, object] = {"rope_type": "default", "rope_theta": local}
        return {"rope_parameters": {"full_attention": full, "sliding_attention": plain}}


_CUTS = np.array([1.6448536] * 10 + [-inf] * 90)
"""Published sparsity by layer: gates below mean + n standard deviations are cut."""


class Gemma3nGguf(Gemma3Gguf):
    """GGUF files of Gemma 3n: several residual streams (AltUp), per-layer inputs, sparse gates.

    Weights are stored as published; some matrices are stacked.
    """

    model_type = "gemma3n"
    changes: ClassVar[Mapping[str, Change]] = {}
    supported = ("final_logit_softcapping",)
    _inner: ClassVar = "model.language_model."
    _stacks: ClassVar = {
        "altup_proj.weight": "altup_projections",
        "altup_unembd_proj.weight": "altup_unembed_projections",
    }
    outside: ClassVar = {
        "token_embd": f"{_inner}embed_tokens",
        "output_norm": f"{_inner}norm",
        "per_layer_token_embd": f"{_inner}embed_tokens_per_layer",
        "per_layer_model_proj": f"{_inner}per_layer_model_projection",
        "per_layer_proj_norm": f"{_inner}per_layer_projection_norm",
    }
    names = Gemma3Gguf.names | {
        "inp_gate": "per_layer_input_gate",
        "proj": "per_layer_projection",
        "post_norm": "post_per_layer_input_norm",
        "altup_correct_coef": "altup.correction_coefs",
        "altup_correct_scale.weight": "altup.correct_output_scale",
        "altup_predict_coef": "altup.prediction_coefs",
        "altup_router": "altup.modality_router",
        "altup_router_norm": "altup.router_norm",
        "laurel_l": "laurel.linear_left",
        "laurel_r": "laurel.linear_right",
        "laurel_post_norm": "laurel.post_laurel_norm",
    }

    def hf_tensors(self, name: str) -> tuple[HfTensor, ...]:
        """Map a GGUF tensor to Hugging Face names, one for each matrix of a stack."""
        stack = self._stacks.get(name)
        if stack is None:
            return super().hf_tensors(name)
        count = self._file.tensors[name].shape[0]
        if count > MOST_BLOCKS:
            raise self._bad_metadata(f"{count} matrices in {name}", "altup.num_inputs")
        return tuple(
            HfTensor(f"{self._inner}{stack}.{number}.weight", matrix=number)
            for number in range(count)
        )

    def config(self) -> dict[str, object]:
        """Make config.json's contents from a GGUF file's metadata, nested in `text_config`."""
        text = super().config()
        return {"model_type": self.model_type, "dtype": text["dtype"], "text_config": text}

    def _family_config(self) -> dict[str, object]:
        count, blocks = self._metadata.count, self._main_blocks
        stored = self._file.metadata.get("gemma3n.activation_sparsity_scale")
        cuts = stored if isinstance(stored, np.ndarray) else _CUTS
        return {
            "activation_sparsity_pattern": [_normal_cdf(cut) for cut in cuts[:blocks]],
            "altup_active_idx": count("altup.active_idx", 0),
            "altup_coef_clip": 120.0,
            "altup_correct_scale": True,
            "altup_num_inputs": count("altup.num_inputs", 4),
            "final_logit_softcapping": self._metadata.number("final_logit_softcapping", 30.0),
            "hidden_size_per_layer_input": count("embedding_length_per_layer_input", 256),
            "laurel_rank": self._output_size("laurel_l.weight"),
            "layer_types": layer_types(self._metadata, blocks, 5),
            "num_kv_shared_layers": count("attention.shared_kv_layers", 0),
            "sliding_window": count("attention.sliding_window", 512),
            "vocab_size_per_layer_input": self._file.tensor("per_layer_token_embd.weight").shape[0],
        }

    def _rope_fields(self) -> dict[str, object]:
        local = rope_base(self._metadata, "rope.freq_base_swa")
        return {"rope_theta": rope_base(self._metadata, default=1e6), "rope_local_base_freq": local}

    def _layer_prefix(self, block: int) -> str:
        return f"{self._inner}layers.{block}."


def _normal_cdf(standard_deviations: float) -> float:
    """Share (0 to 1) of a normal distribution below mean + deviations * standard deviation."""
    return (1 + erf(standard_deviations / sqrt(2))) / 2
