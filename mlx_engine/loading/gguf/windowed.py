"""GGUF architectures `mimo2` and `step35`: layers with a window and without, three MTP heads.

MiMo-V2 and Step-3.5 (and 3.7). Heads, sizes and rotation of the two kinds of layers differ.
"""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import Architecture
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS, HEAD, SHARED
from mlx_engine.loading.gguf.rotation import base_of
from mlx_engine.values.errors import UnsupportedModel

_PATTERN = "attention.sliding_window_pattern"


class WindowedGguf(Architecture):
    """What both have in common."""

    rotates_whole_heads = False

    def _windowed(self) -> list[bool]:
        """Of the trunk's blocks and, as far as the file tells, of the heads' behind them."""
        metadata = self._metadata
        blocks = self._main_blocks + metadata.count("nextn_predict_layers", 0)
        length = min(blocks, max(self._main_blocks, metadata.length(_PATTERN)))
        windowed = [flag == 1 for flag in metadata.counts(_PATTERN, length)]
        if len(set(windowed[: self._main_blocks])) != 2:
            raise UnsupportedModel(
                f"{metadata.path}: its layers are all of one kind ({_PATTERN}), which this version "
                "does not run for this architecture. Take another file of the model."
            )
        return windowed

    def _bases(self) -> tuple[float, float]:
        """Of the periods of layers without and with a window."""
        return base_of(self._metadata), base_of(self._metadata, "rope.freq_base_swa")


class Mimo2Gguf(WindowedGguf):
    """MiMo-V2; its heads have a name of their own, and window layers may have sinks."""

    model_type = "mimo_v2_flash"
    stretches = ()
    names = (
        ATTENTION
        | DENSE
        | EXPERTS
        | SHARED
        | {"attn_sinks.weight": "self_attn.attention_sink_bias"}
    )
    head_names: ClassVar = HEAD | {
        "ffn_norm": "pre_mlp_layernorm",
        "layer_output_norm": "final_layernorm",
    }

    def _own(self) -> dict[str, object]:
        metadata, blocks = self._metadata, range(self._main_blocks)
        windowed = self._windowed()[: len(blocks)]
        full, local = windowed.index(False), windowed.index(True)
        has_experts = [self._block_has(n, "ffn_gate_inp.weight") for n in blocks]
        has_sinks = [self._block_has(n, "attn_sinks.weight") for n in blocks]
        value = metadata.count("attention.value_length", self._head)
        for block in blocks:
            self._kept_heads(block)  # raises for what cannot be
        return {
            **self._experts("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
            **self._expert_scores(),
            "norm_topk_prob": True,
            "n_shared_experts": None,
            "topk_method": "noaux_tc",
            "scoring_func": "sigmoid",
            "num_key_value_heads": self._kept_heads(full),
            "hybrid_layer_pattern": [int(flag) for flag in windowed],
            "moe_layer_freq": [int(flag) for flag in has_experts],
            "add_swa_attention_sink_bias": (True, True) in zip(windowed, has_sinks, strict=True),
            "add_full_attention_sink_bias": (False, True) in zip(windowed, has_sinks, strict=True),
            "sliding_window": metadata.count("attention.sliding_window"),
            "layernorm_epsilon": metadata.number("attention.layer_norm_rms_epsilon", 1e-5),
            "swa_rope_theta": self._bases()[1],
            "swa_num_attention_heads": self._heads,
            "swa_num_key_value_heads": self._kept_heads(local),
            "v_head_dim": value,
            "swa_head_dim": self._head,
            "swa_v_head_dim": value,
            "partial_rotary_factor": (self._rotated() + 0.5) / self._head,
            "attention_value_scale": metadata.number("attention.value_scale", 1.0) or 1.0,
        }

    def _layer(self, block: int) -> str:
        if block < self._main_blocks:
            return super()._layer(block)
        return f"model.mtp.layers.{block - self._main_blocks}."


class Step35Gguf(WindowedGguf):
    """Step-3.5. Full layers rotate half of a head and may be stretched, window layers all of it.

    Norms are stored as used.
    """

    model_type = "step3p5"
    names = (
        ATTENTION
        | DENSE
        | EXPERTS
        | {base: name.replace("shared_experts", "share_expert") for base, name in SHARED.items()}
        | {
            "attn_gate": "self_attn.g_proj",
            "ffn_gate_inp": "mlp.gate.gate",
            "exp_probs_b.bias": "mlp.gate.router_bias",
        }
    )
    head_names: ClassVar = HEAD | {
        "nextn.shared_head_norm": "transformer.shared_head.norm",
        "nextn.shared_head_head": "transformer.shared_head.output",
    }

    def _own(self) -> dict[str, object]:
        blocks, windowed = range(self._main_blocks), self._windowed()
        full, local = windowed.index(False), windowed.index(True)
        scores, head = self._expert_scores(), self._head
        numbers, count = self._metadata.numbers, self._metadata.count
        return {
            **self._experts("moe_num_experts", "moe_top_k", "moe_intermediate_size"),
            "moe_router_scaling_factor": scores["routed_scaling_factor"],
            "norm_expert_weight": scores["norm_topk_prob"],
            "moe_layers_enum": ",".join(
                str(n) for n in blocks if self._block_has(n, "ffn_gate_inp.weight")
            ),
            "share_expert_dim": count("expert_shared_feed_forward_length"),
            "num_attention_heads": self._heads_of(full),
            "num_key_value_heads": self._kept_heads(full),
            "num_attention_groups": self._kept_heads(full),
            "attention_other_setting": {
                "num_attention_heads": self._heads_of(local),
                "num_attention_groups": self._kept_heads(local),
            },
            "layer_types": ["sliding_attention" if w else "full_attention" for w in windowed],
            "sliding_window": count("attention.sliding_window"),
            "partial_rotary_factors": [
                1.0 if w else (self._rotated() + 0.5) / head for w in windowed
            ],
            "use_head_wise_attn_gate": self._has("attn_gate.weight"),
            "swiglu_limits": list(numbers("swiglu_clamp_exp", len(blocks), 0.0)),
            "swiglu_limits_shared": list(numbers("swiglu_clamp_shexp", len(blocks), 0.0)),
        }

    def _rotation(self) -> dict[str, object]:
        base, local = self._bases()
        return {
            "rope_theta": [local if w else base for w in self._windowed()],
            "rope_scaling": self._scaling(),
            "yarn_only_types": ["full_attention"],
        }

    def _rotated(self) -> int:
        """Of full layers; the file tells twice as many."""
        return super()._rotated() // 2
