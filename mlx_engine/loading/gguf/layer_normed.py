"""GGUF architectures with layer norms: Command R and A, Phi-2, StarCoder 2, StableLM, Nemotron."""

from collections.abc import Mapping
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import ATTENTION, DENSE, OUTSIDE, Architecture
from mlx_engine.loading.gguf.metadata import Kind
from mlx_engine.loading.gguf.part import Change


class CohereGguf(Architecture):
    """Command R and Aya: parallel attention and feed-forward, scaled logits."""

    model_type = "cohere"
    supported = ("logit_scale",)

    def _own_config(self) -> dict[str, object]:
        number = self._metadata.number
        return {
            "layer_norm_eps": number("attention.layer_norm_epsilon", 1e-5),
            "logit_scale": number("logit_scale", 0.0625),
            "use_qk_norm": self._has("attn_q_norm.weight"),
        }


class Cohere2Gguf(CohereGguf):
    """Command R7B and A: every fourth layer is full and has no RoPE, the others have a window."""

    model_type = "cohere2"

    def _own_config(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 4096)
        return super()._own_config() | {"sliding_window": window, "sliding_window_pattern": 4}


class _LayerNormed(Architecture):
    """Architectures with layer norms, biases and perhaps partial rotation."""

    rotates_whole_heads = False
    rope_kinds: ClassVar[tuple[Kind, ...]] = ()
    eps_key = "layer_norm_eps"

    def _own_config(self) -> dict[str, object]:
        return {
            self.eps_key: self._metadata.number("attention.layer_norm_epsilon", 1e-5),
            "partial_rotary_factor": self._partial_factor(),
        }


class Phi2Gguf(_LayerNormed):
    """Phi-1 and 2: parallel attention and feed-forward, biases everywhere."""

    model_type = "phi"
    outside: ClassVar = OUTSIDE | {"output_norm": "model.final_layernorm"}
    names = ATTENTION | {
        "attn_output": "self_attn.dense",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    }


class Starcoder2Gguf(_LayerNormed):
    """StarCoder 2; files have no key for its window of 4096."""

    model_type = "starcoder2"
    eps_key = "norm_epsilon"
    names = ATTENTION | DENSE | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}

    def _own_config(self) -> dict[str, object]:
        return super()._own_config() | {"sliding_window": 4096}


class StablelmGguf(_LayerNormed):
    """StableLM; the 12B has QK norms and parallel attention and feed-forward."""

    model_type = "stablelm"

    def _own_config(self) -> dict[str, object]:
        return super()._own_config() | {
            "use_qkv_bias": self._has("attn_q.bias"),
            "qk_layernorm": self._has("attn_q_norm.weight"),
            "use_parallel_residual": not self._has("ffn_norm.weight"),
        }


class NemotronGguf(_LayerNormed):
    """Nemotron 3 and 4, Minitron: norms as used (1 + w), feed-forward without gates."""

    model_type = "nemotron"
    changes: ClassVar[Mapping[str, Change]] = {"norm.weight": "subtract one"}
    eps_key = "norm_eps"

    def _own_config(self) -> dict[str, object]:
        return super()._own_config() | {
            "attention_bias": self._has("attn_q.bias"),
            "hidden_act": "relu2",
            "mlp_bias": self._has("ffn_up.bias"),
        }
