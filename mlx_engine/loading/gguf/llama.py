"""GGUF architectures with Llama's layer: Llama, Mistral, Mixtral, Granite 3, MiniCPM, ..."""

import re
from dataclasses import replace
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import NAMES, Architecture
from mlx_engine.loading.gguf.metadata import KINDS, GgufMetadata, Kind
from mlx_engine.loading.gguf.part import HfTensor, swapped_rows

_SINGLE = re.compile(r"ffn_(gate|up|down)\.(\d{1,4})\.(\w+)")
_PUBLISHED = {"gate": "w1", "down": "w2", "up": "w3"}


class PlainGguf(Architecture):
    """GGUF files of Llama's layer in Hugging Face's row order: EXAONE 3, Seed-OSS, openPangu."""

    model_type = "llama"

    def _family_config(self) -> dict[str, object]:
        return {"attention_out_bias": self._any_layer_has("attn_output.bias")}


class LlamaGguf(PlainGguf):
    """GGUF files of Llama, Xverse, InternLM2 and Mistral; Mixtral where they have experts.

    llama.cpp's converter interleaves the rows of each query and key head: elements that RoPE
    rotates together are neighbours, where Hugging Face has two halves.
    """

    model_type = ""

    def _find_model_type(self) -> str:
        if self._metadata.count("expert_count", 0):
            return "mixtral"
        return "mistral" if self._metadata.count("attention.sliding_window", 0) else "llama"

    def _family_config(self) -> dict[str, object]:
        found = super()._family_config()
        if window := self._metadata.count("attention.sliding_window", 0):
            found["sliding_window"] = window
        if self._metadata.count("expert_count", 0):
            found |= self._expert_fields(
                "num_local_experts", "num_experts_per_tok", "intermediate_size"
            )
        return found

    def _layer_tensor(self, block: int, name: str) -> HfTensor:
        place = super()._layer_tensor(block, name)
        if name.startswith("attn_q."):
            return replace(place, rows=swapped_rows(self._query_heads, self._head_dim // 2, 2))
        if name.startswith("attn_k."):
            return replace(place, rows=swapped_rows(self._kv_heads(block), self._head_dim // 2, 2))
        return place

    def _published_name(self, block: int, name: str) -> str:
        """Hugging Face name of a layer's tensor, Mixtral's for experts (old files: one by one)."""
        if single := _SINGLE.fullmatch(name):
            part = _PUBLISHED[single[1]]
            return f"block_sparse_moe.experts.{single[2]}.{part}.{single[3]}"
        base, _, kind = name.rpartition(".")
        if base in ("ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
            return f"block_sparse_moe.{NAMES[base].removeprefix('mlp.')}.{kind}"
        return super()._published_name(block, name)


class Mistral3Gguf(LlamaGguf):
    """GGUF files of Mistral Small 3, a Llama, and Ministral 3, which scales queries by position."""

    supported = ("attention.temperature_scale",)

    @property
    def _query_position_scale(self) -> float:
        return self._metadata.number("attention.temperature_scale", 0.0)

    def _find_model_type(self) -> str:
        return "ministral3" if self._query_position_scale else super()._find_model_type()

    def _rope_fields(self) -> dict[str, object]:
        rotation = super()._rope_fields()
        scaling = rotation["rope_scaling"]
        if not self._query_position_scale or not isinstance(scaling, dict):
            return rotation
        everywhere = self._metadata.number("rope.scaling.yarn_log_multiplier", 0.0)
        own = {
            "mscale": 1.0,
            "mscale_all_dim": everywhere,
            "llama_4_scaling_beta": self._query_position_scale,
        }
        return {"rope_parameters": {"rope_theta": rotation["rope_theta"]} | scaling | own}


GRANITE_KEYS = ("attention.scale", "embedding_scale", "logit_scale", "residual_scale")
"""Metadata keys of Granite's multipliers."""


def granite_factors(metadata: GgufMetadata) -> dict[str, object]:
    """Read Granite's multipliers of scores, embeddings, logits and residuals as config fields."""
    names = ("attention", "embedding", "logits", "residual")
    keys = zip(names, GRANITE_KEYS, strict=True)
    made = {name: metadata.number(key, 1.0) for name, key in keys}
    scaling: dict[str, object] = {"logits_scaling": made.pop("logits")}
    return scaling | {f"{name}_multiplier": value for name, value in made.items()}


class GraniteGguf(LlamaGguf):
    """GGUF files of Granite 3: multipliers of embeddings, scores, residuals and logits."""

    model_type = "granite"
    supported = GRANITE_KEYS

    def _family_config(self) -> dict[str, object]:
        return super()._family_config() | granite_factors(self._metadata)


class GraniteMoeGguf(GraniteGguf):
    """GGUF files of Granite 3 with experts."""

    model_type = "granitemoe"

    def _published_name(self, block: int, name: str) -> str:
        return super()._published_name(block, name).replace("moe.gate.", "moe.router.layer.")


class MiniCpmGguf(GraniteGguf):
    """GGUF files of MiniCPM: Llama with Granite's multipliers, which older files leave out."""

    rope_kinds: ClassVar[tuple[Kind, ...]] = (*KINDS, "longrope")

    def _family_config(self) -> dict[str, object]:
        number, width = self._metadata.number, self._metadata.count("embedding_length")
        return super()._family_config() | {
            "attention_multiplier": self._head_dim**-0.5,
            "embedding_multiplier": number("embedding_scale", 12.0),
            "logits_scaling": number("logit_scale", width / 256),
            "residual_multiplier": number("residual_scale", 1.4 / max(1, self._main_blocks) ** 0.5),
        }

    def _rope_scaling_fields(self) -> dict[str, object] | None:
        scaling, count = super()._rope_scaling_fields(), self._metadata.count
        if scaling is None or scaling["rope_type"] != "longrope":
            return scaling
        trained = count("rope.scaling.original_context_length", count("context_length"))
        return scaling | {"original_max_position_embeddings": trained}
