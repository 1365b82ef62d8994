"""GGUF architecture `mimo2`: MiMo-V2, layers with and without a window, three MTP heads."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS, HEAD, SHARED
from mlx_engine.loading.gguf.rotation import base_of, listed_factors, stretch_of
from mlx_engine.values.errors import UnsupportedModel

_PATTERN = "attention.sliding_window_pattern"


class Mimo2Gguf(TrunkGguf):
    """Names and config of one file."""

    model_type = "mimo_v2_flash"
    rotates_whole_heads = False
    names: ClassVar = (
        ATTENTION
        | DENSE
        | EXPERTS
        | SHARED
        | {
            "attn_sinks.weight": "self_attn.attention_sink_bias",
        }
    )
    head_names: ClassVar = HEAD | {
        "ffn_norm": "pre_mlp_layernorm",
        "layer_output_norm": "final_layernorm",
    }

    def _own(self) -> dict[str, object]:
        windowed, metadata = self._windowed, self._metadata
        kept = [self._kept_heads(block) for block in range(self._main_blocks)]
        full, local = (
            next((n for n, flag in zip(kept, windowed, strict=True) if flag is wanted), 0)
            for wanted in (False, True)
        )
        if not full or not local:
            raise UnsupportedModel(
                f"{metadata.path}: its layers are all of one kind ({_PATTERN}), which this version "
                "does not run for this architecture. Take another file of the model."
            )
        value = metadata.count("attention.value_length", self._head)
        has_experts = [self._block_has(n, "ffn_gate_inp.weight") for n in range(len(windowed))]
        return {
            **self._experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
            **self._expert_scores(),
            "norm_topk_prob": True,
            "n_shared_experts": None,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "num_key_value_heads": full,
            "hybrid_layer_pattern": [int(flag) for flag in windowed],
            "moe_layer_freq": [int(flag) for flag in has_experts],
            "add_swa_attention_sink_bias": self._has_sinks(windowed=True),
            "add_full_attention_sink_bias": self._has_sinks(windowed=False),
            "sliding_window": metadata.count("attention.sliding_window"),
            "layernorm_epsilon": metadata.number("attention.layer_norm_rms_epsilon", 1e-5),
            "swa_rope_theta": base_of(metadata, "rope.freq_base_swa"),
            "swa_num_attention_heads": self._heads,
            "swa_num_key_value_heads": local,
            "v_head_dim": value,
            "swa_head_dim": self._head,
            "swa_v_head_dim": value,
            "partial_rotary_factor": (self._rotated() + 0.5) / self._head,
            "attention_value_scale": metadata.number("attention.value_scale", 1.0) or 1.0,
        }

    def _rotation(self) -> dict[str, object]:
        if stretch_of(self._file, self._metadata) is not None or listed_factors(self._file):
            raise UnsupportedModel(
                f"{self._file.path}: stretches its context, which this version does not for this "
                "architecture. Take the model without it."
            )
        return {"rope_theta": base_of(self._metadata), "rope_scaling": None}

    def _layer(self, block: int) -> str:
        if block < self._main_blocks:
            return super()._layer(block)
        return f"model.mtp.layers.{block - self._main_blocks}."

    @property
    def _windowed(self) -> list[bool]:
        return [flag == 1 for flag in self._metadata.counts(_PATTERN, self._main_blocks)]

    def _has_sinks(self, *, windowed: bool) -> bool:
        return any(
            self._block_has(block, "attn_sinks.weight")
            for block, flag in enumerate(self._windowed)
            if flag is windowed
        )
