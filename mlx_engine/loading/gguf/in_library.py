"""GGUF architectures whose models run through mlx-lm's classes: Cohere's, Hunyuan, LFM2."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import ATTENTION, DENSE, Architecture
from mlx_engine.loading.gguf.part import Change, Placement


class CohereGguf(Architecture):
    """Command R and Aya: attention and feed-forward read one norm, logits are scaled."""

    model_type = "cohere"
    runs = ("logit_scale",)

    def _own(self) -> dict[str, object]:
        number = self._metadata.number
        return {
            "layer_norm_eps": number("attention.layer_norm_epsilon", 1e-5),
            "logit_scale": number("logit_scale", 0.0625),
            "use_qk_norm": self._has("attn_q_norm.weight"),
        }


class Cohere2Gguf(CohereGguf):
    """Command R7B and A: all but every fourth layer have a window; those that see all do not
    rotate.
    """

    model_type = "cohere2"

    def _own(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 4096)
        return super()._own() | {"sliding_window": window, "sliding_window_pattern": 4}


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

    def _kept_heads(self, block: int) -> int:
        del block
        blocks = range(self._main_blocks)
        counts = (self._metadata.count_at("attention.head_count_kv", n, 0) for n in blocks)
        return max(counts, default=0) or self._heads

    def _change(self, name: str) -> Change:
        return "a last axis" if name == "shortconv.conv.weight" else "none"
