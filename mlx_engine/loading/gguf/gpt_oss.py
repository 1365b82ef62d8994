"""GGUF architecture `gpt-oss`: sinks, biases everywhere, every other layer with a window."""

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, EXPERTS
from mlx_engine.loading.gguf.rotation import base_of, stretch_of
from mlx_engine.values.errors import UnsupportedModel


class GptOssGguf(TrunkGguf):
    """Names and config of one file."""

    model_type = "gpt_oss"
    names = (
        ATTENTION
        | {base: name.replace("switch_mlp", "experts") for base, name in EXPERTS.items()}
        | {
            "post_attention_norm": "post_attention_layernorm",
            "attn_post_norm": "post_attention_layernorm",
            "attn_sinks.weight": "self_attn.sinks",
            "ffn_gate_inp": "mlp.router",
        }
    )

    def _own(self) -> dict[str, object]:
        kinds = ("sliding_attention", "full_attention")
        return {
            **self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size"),
            "sliding_window": self._metadata.count("attention.sliding_window"),
            "layer_types": [kinds[n % 2] for n in range(self._main_blocks)],
        }

    def _rotation(self) -> dict[str, object]:
        """The model was trained with a range of frequencies that is not rounded."""
        stretch = stretch_of(self._file, self._metadata)
        found: dict[str, object] = {"rope_theta": base_of(self._metadata)}
        if stretch is None:
            return found
        if stretch.kind != "yarn" or stretch.magnitude is not None:
            raise UnsupportedModel(
                f"{self._file.path}: stretches its context by rope scaling {stretch.kind!r}, which "
                "this version does not for this architecture. Take the model without it."
            )
        scaling = {
            "rope_type": "yarn",
            "factor": stretch.factor,
            "original_max_position_embeddings": round(stretch.trained),
            "beta_fast": stretch.fast,
            "beta_slow": stretch.slow,
            "truncate": False,
        }
        return found | {"rope_scaling": scaling}
