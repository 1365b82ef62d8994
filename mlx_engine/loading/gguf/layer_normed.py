"""GGUF architectures with layer norms: Command R and A, Phi-2, StarCoder 2, StableLM, Nemotron."""

from typing import ClassVar

from mlx_engine.loading.gguf.architecture import ATTENTION, DENSE, OUTSIDE, Architecture
from mlx_engine.loading.gguf.metadata import Kind
from mlx_engine.loading.gguf.part import Change


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


class _LayerNormed(Architecture):
    """With norms of mean and variance and their biases, and perhaps part of a head rotated."""

    rotates_whole_heads = False
    stretches: ClassVar[tuple[Kind, ...]] = ()
    eps_key = "layer_norm_eps"

    def _own(self) -> dict[str, object]:
        return {
            self.eps_key: self._metadata.number("attention.layer_norm_epsilon", 1e-5),
            "partial_rotary_factor": self._share(),
        }


class Phi2Gguf(_LayerNormed):
    """Phi-1 and 2: attention and feed-forward read one norm; biases everywhere."""

    model_type = "phi"
    outside: ClassVar = OUTSIDE | {"output_norm": "model.final_layernorm"}
    names = ATTENTION | {
        "attn_output": "self_attn.dense",
        "ffn_up": "mlp.fc1",
        "ffn_down": "mlp.fc2",
    }


class Starcoder2Gguf(_LayerNormed):
    """StarCoder 2, whose window of 4096 files do not tell."""

    model_type = "starcoder2"
    eps_key = "norm_epsilon"
    names = ATTENTION | DENSE | {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}

    def _own(self) -> dict[str, object]:
        return super()._own() | {"sliding_window": 4096}


class StablelmGguf(_LayerNormed):
    """StableLM; the 12B norms queries and keys of each head, and has one norm for both parts."""

    model_type = "stablelm"

    def _own(self) -> dict[str, object]:
        return super()._own() | {
            "use_qkv_bias": self._has("attn_q.bias"),
            "qk_layernorm": self._has("attn_q_norm.weight"),
            "use_parallel_residual": not self._has("ffn_norm.weight"),
        }


class NemotronGguf(_LayerNormed):
    """Nemotron 3 and 4, Minitron: norms stored as used, a feed-forward without gates."""

    model_type = "nemotron"
    eps_key = "norm_eps"

    def _own(self) -> dict[str, object]:
        return super()._own() | {
            "attention_bias": self._has("attn_q.bias"),
            "hidden_act": "relu2",
            "mlp_bias": self._has("ffn_up.bias"),
        }

    def _change(self, name: str) -> Change:
        return "less one" if name.endswith("norm.weight") else "none"
