"""GGUF architecture `step35`: Step-3.5 and 3.7, layers of two kinds, three MTP heads.

Full layers rotate half of a head and may be stretched, those with a window rotate all of it; norms
are stored as used.
"""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS, HEAD, SHARED
from mlx_engine.loading.gguf.rotation import base_of, listed_rotation
from mlx_engine.values.errors import UnsupportedModel


class Step35Gguf(TrunkGguf):
    """Names and config of one file."""

    model_type = "step3p5"
    rotates_whole_heads = False
    names: ClassVar = (
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
        metadata, layers = self._metadata, range(self._main_blocks)
        windowed = self._windowed
        if len(set(windowed[: self._main_blocks])) != 2:
            raise UnsupportedModel(
                f"{metadata.path}: its layers are all of one kind (attention."
                "sliding_window_pattern), which this version does not run for this architecture. "
                "Take another file of the model."
            )
        full, local = windowed.index(False), windowed.index(True)
        scores, head = self._expert_scores(), self._head
        numbers, count = metadata.numbers, metadata.count
        return {
            **self._experts("moe_num_experts", "moe_top_k", "moe_intermediate_size"),
            "moe_router_scaling_factor": scores["routed_scaling_factor"],
            "norm_expert_weight": scores["norm_topk_prob"],
            "moe_layers_enum": ",".join(
                str(n) for n in layers if self._block_has(n, "ffn_gate_inp.weight")
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
            "swiglu_limits": list(numbers("swiglu_clamp_exp", len(layers), 0.0)),
            "swiglu_limits_shared": list(numbers("swiglu_clamp_shexp", len(layers), 0.0)),
        }

    def _rotation(self) -> dict[str, object]:
        windowed = self._windowed
        found = listed_rotation(self._file, self._metadata, self._rotated())
        base, local = base_of(self._metadata), base_of(self._metadata, "rope.freq_base_swa")
        scaling = found["rope_scaling"]
        if isinstance(scaling, dict):
            trunk = windowed[: self._main_blocks]
            scaling["layers"] = [n for n, flag in enumerate(trunk) if not flag]
        return {
            "rope_theta": [local if w else base for w in windowed],
            "rope_scaling": scaling,
            "yarn_only_types": ["full_attention"],
        }

    def _rotated(self) -> int:
        """Of full layers; the file tells twice as many."""
        return super()._rotated() // 2

    @property
    def _windowed(self) -> list[bool]:
        """Of the trunk's blocks and, as far as the file tells, of the heads' behind them."""
        key, metadata = "attention.sliding_window_pattern", self._metadata
        blocks = self._main_blocks + metadata.count("nextn_predict_layers", 0)
        listed = metadata.counts(key, min(blocks, max(self._main_blocks, metadata.length(key))))
        return [flag == 1 for flag in listed]
