"""GGUF architecture `gemma3`: norms stored as used, five layers with a window to one without."""

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, DENSE
from mlx_engine.loading.gguf.part import Change
from mlx_engine.loading.gguf.rotation import base_of, stretch_of
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_INTERVAL = 6
_LAYERS_OF_27B = 62


class Gemma3Gguf(TrunkGguf):
    """Names and config of one file."""

    model_type = "gemma3_text"
    names = (
        ATTENTION
        | DENSE
        | {
            "post_attention_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "post_ffw_norm": "post_feedforward_layernorm",
        }
    )

    def _own(self) -> dict[str, object]:
        window = self._metadata.count("attention.sliding_window", 0)
        return {
            "sliding_window": window or self._metadata.count("context_length"),
            "layer_types": self._kinds(window),
            "query_pre_attn_scalar": self._scaled_by(),
        }

    def _rotation(self) -> dict[str, object]:
        """Layers with a window have a base of their own and are never stretched."""
        stretch = stretch_of(self._file, self._metadata)
        if stretch is not None and stretch.kind != "linear":
            raise UnsupportedModel(
                f"{self._file.path}: stretches its context by rope scaling {stretch.kind!r}, which "
                "this version does not for this architecture. Take the model without it."
            )
        scaling = None if stretch is None else {"rope_type": "linear", "factor": stretch.factor}
        return {
            "rope_theta": base_of(self._metadata, default=1e6),
            "rope_local_base_freq": base_of(self._metadata, "rope.freq_base_swa"),
            "rope_scaling": scaling,
        }

    def _kinds(self, window: int) -> list[str]:
        if not window:
            return ["full_attention"] * self._main_blocks
        key, metadata = "attention.sliding_window_pattern", self._metadata
        told = metadata.counts(key, self._main_blocks, _INTERVAL)
        if len(set(told)) == 1 and told[0] > 1:
            interval = told[0]
            return [
                "sliding_attention" if (n + 1) % interval else "full_attention"
                for n in range(self._main_blocks)
            ]
        if any(one > 1 for one in told):
            raise BadModelFile(
                f"{metadata.path}: {metadata.architecture}.{key} is {list(told)[:9]}, where an "
                "interval or a list of yes and no is needed. Get the file again."
            )
        return ["sliding_attention" if one else "full_attention" for one in told]

    def _scaled_by(self) -> int:
        """The 27B is scaled by width over heads; its heads are smaller."""
        if self._main_blocks == _LAYERS_OF_27B:
            return self._metadata.count("embedding_length") // self._heads
        return self._head

    def _change(self, name: str) -> Change:
        return "less one" if name.endswith("norm.weight") else "none"
