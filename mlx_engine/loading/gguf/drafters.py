"""GGUF files of draft models, as llama.cpp writes and runs them: EAGLE-3, DFlash, assistants.

EAGLE-3 and DFlash number layers of the target by their inputs, as vLLM does, and map rows of a
shorter output head to whole token ids (`d2t`).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from mlx_engine.loading.gguf.architecture import NAMES, Architecture
from mlx_engine.loading.gguf.file import GgufFile, read_gguf
from mlx_engine.loading.gguf.gemma import Gemma4Gguf
from mlx_engine.loading.gguf.header import map_file
from mlx_engine.loading.gguf.llama import LlamaGguf
from mlx_engine.loading.gguf.metadata import (
    ROPE_FACTORS,
    GgufMetadata,
    layer_types,
    rope_base,
    rope_factors,
)
from mlx_engine.loading.gguf.model import translate_gguf
from mlx_engine.loading.no_model import DrafterKind
from mlx_engine.loading.safetensors import TensorInfo
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_TOKEN_MAP, _GEMMA_NORM = "d2t", "blk.0.post_ffw_norm.weight"
_OUTSIDE = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "fc": "fc",
}


class GgufDrafter(NamedTuple):
    """Headers of a draft model in a GGUF file, under Hugging Face's config keys and tensor names.

    d2t: int64 [rows of the output head], token of row i minus i; None where it has all tokens.
    """

    kind: DrafterKind
    config: Mapping[str, object]
    tensors: Mapping[str, TensorInfo]
    d2t: NDArray[np.int64] | None


class _DraftGguf(Architecture):
    """Base of draft models' GGUF files, whose embedding and output head may be the target's."""

    rotates_whole_heads = False

    @override
    def _vocabulary_size(self) -> int:
        for name in ("token_embd.weight", "markov_w1.weight", "selector_predecessor.weight"):
            if name in self._file.tensors:
                return self._file.tensors[name].shape[0]
        tokens = self._file.metadata.get("tokenizer.ggml.tokens")
        count = len(tokens) if isinstance(tokens, list) else 0
        return self._metadata.count("vocab_size", count)

    @override
    def _layer_prefix(self, block: int) -> str:
        return f"layers.{block}."

    def _output_rows(self) -> int | None:
        """Rows of the file's output head, None where the target's is used."""
        output = self._file.tensors.get("output.weight")
        return None if output is None else output.shape[0]

    def _target_layers(self) -> list[int]:
        length = self._metadata.list_length("target_layers")
        return list(self._metadata.counts("target_layers", length))


class _Eagle3Gguf(_DraftGguf, LlamaGguf):
    """EAGLE-3 in a GGUF file; rows of queries and keys are in Llama's order there."""

    model_type = "llama"
    outside: ClassVar[Mapping[str, str]] = MappingProxyType(
        {**_OUTSIDE, "enc.output_norm": "input_norm"}
    )
    names: ClassVar[Mapping[str, str]] = MappingProxyType({**NAMES, "attn_norm_2": "hidden_norm"})

    @override
    def _family_config(self) -> dict[str, object]:
        metadata, width = self._metadata, self._metadata.count("embedding_length")
        return {
            "eagle_aux_hidden_state_layer_ids": self._target_layers(),
            "target_hidden_size": metadata.count("target_hidden_size", width),
            "draft_vocab_size": self._output_rows(),
            "norm_before_residual": metadata.flag("norm_before_residual"),
            "norm_before_fc": metadata.flag("norm_before_fc"),
        }


class _DFlashGguf(_DraftGguf):
    """DFlash, DFlash 2 and DSpark in a GGUF file."""

    model_type = "qwen3"
    supported = ("attention.scale", "embedding_scale", "final_logit_softcapping", "logit_scale")
    outside: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **_OUTSIDE,
            "enc.output_norm": "hidden_norm",
            "markov_w1": "markov_head.markov_w1",
            "markov_w2": "markov_head.markov_w2",
            "conf_proj": "confidence_head.proj",
            "selector_predecessor": "candidate_selector.predecessor_codebook",
            "selector_successor": "candidate_selector.successor_codebook",
            "selector_hidden": "candidate_selector.hidden_projection",
        }
    )
    names: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            **NAMES,
            "attn_sinks.weight": "self_attn.attention_sink_bias",
            "attn_conv_base": "attention_conv.base_kernel",
            "attn_conv_proj": "attention_conv.kernel_projection",
            "ffn_conv_base": "mlp_conv.base_kernel",
            "ffn_conv_proj": "mlp_conv.kernel_projection",
            "post_ffw_norm": "post_feedforward_layernorm",
            "layer_output_scale.weight": "layer_scalar",
        }
    )

    @override
    def _published_name(self, block: int, name: str) -> str:
        if name == "ffn_norm.weight" and self._is_gemma:
            return "pre_feedforward_layernorm.weight"
        return super()._published_name(block, name)

    @property
    def _is_gemma(self) -> bool:
        return _GEMMA_NORM in self._file.tensors

    def _gemma_fields(self) -> dict[str, object]:
        """Fields of a draft model with layers of Gemma 4, all with full attention."""
        shares = not self._any_layer_has("attn_v.weight")
        rope = {"rope_theta": rope_base(self._metadata), "rope_type": "default"}
        if ROPE_FACTORS in self._file.tensors:
            pairs = self._head_dim // 2
            factors = rope_factors(self._file, ROPE_FACTORS, pairs)
            share = sum(factor == 1.0 for factor in factors) / pairs
            rope |= {"rope_type": "proportional", "partial_rotary_factor": share}
        return {
            "global_head_dim": self._head_dim,
            "attention_k_eq_v": shares,
            "num_global_key_value_heads": self._kv_heads(0),
            "hidden_activation": self._metadata.architecture_text("hidden_activation"),
            "rope_parameters": {"full_attention": rope},
        }

    @override
    def _family_config(self) -> dict[str, object]:
        metadata, tensors = self._metadata, self._file.tensors
        window = metadata.count("attention.sliding_window", 0)
        made: dict[str, object] = {
            "block_size": metadata.count("block_size", 16),
            "mask_token_id": self._file.metadata.get("tokenizer.ggml.mask_token_id"),
            "target_layer_ids": [layer - 1 for layer in self._target_layers()],
            "layer_types": layer_types(metadata, self._main_blocks, 1 if window else 0),
            "sliding_window": window or None,
            "partial_rotary_factor": self._partial_factor(),
            "attention_sink_bias": self._any_layer_has("attn_sinks.weight"),
            "attention_value_scale": metadata.number("attention.value_scale", 1.0),
            "has_own_lm_head": "output.weight" in tensors,
            "draft_vocab_size": self._output_rows(),
            "input_embedding_scale": metadata.number("embedding_scale", 1.0),
            "output_multiplier": metadata.number("logit_scale", 1.0),
            "final_logit_softcapping": metadata.number("final_logit_softcapping", 0.0) or None,
        }
        if self._is_gemma:
            made |= self._gemma_fields()
        if metadata.has_key("attention.causal"):
            made["is_causal"] = metadata.flag("attention.causal")
        if "selector_hidden.weight" in tensors:
            keys = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
            made |= {key: metadata.count(key) for key in keys}
        pairs, key = tensors.get("markov_w1.weight"), "sample_from_anchor"
        if pairs is not None or metadata.has_key(key):
            drafts_from_newest = not metadata.has_key(key) or metadata.flag(key)
            made |= {
                "projector_type": "dspark",
                "markov_rank": 0 if pairs is None else pairs.shape[-1],
                "sample_from_anchor": drafts_from_newest,
                "dspark_bonus_anchor": not drafts_from_newest,
                "enable_confidence_head": "conf_proj.weight" in tensors,
            }
        return made


class _AssistantGguf(Gemma4Gguf):
    """Gemma 4's assistant in a GGUF file, whose output head is whole: its clusters are left out."""

    outside: ClassVar = Gemma4Gguf.outside | {
        f"nextn.{end}_projection": f"{end}_projection" for end in ("pre", "post")
    }

    @override
    def _family_config(self) -> dict[str, object]:
        target = self._metadata.count("embedding_length_out")
        return super()._family_config() | {"backbone_hidden_size": target}


_ARCHITECTURES: Mapping[DrafterKind, type[Architecture]] = {
    "eagle3": _Eagle3Gguf,
    "dflash": _DFlashGguf,
    "gemma4-assistant": _AssistantGguf,
}


def read_gguf_drafter(path: Path) -> GgufDrafter | None:
    """Read a draft model's config and tensor headers from a GGUF file; None for other files.

    Raises BadModelFile, UnsupportedModel.
    """
    file = read_gguf(path)
    architecture = GgufMetadata(path, file.metadata).architecture
    kind = next((kind for kind in _ARCHITECTURES if kind == architecture), None)
    if kind is None:
        return None
    if any("hc_attn_fn" in name for name in file.tensors):
        raise UnsupportedModel(
            "{path}: a draft model of DeepSeek-V4's layers, which this version does not run from "
            "GGUF. Draft with the heads of the model, a small model or prompt lookup.",
            path=path,
        )
    unused, names = {_TOKEN_MAP}, file.tensors
    if kind == "dflash" and ("output.weight" not in names or _GEMMA_NORM in names):
        unused |= {"token_embd.weight", "output.weight"}  # DeepSpec's copies of the target's
    unused |= {name for name in names if name.startswith("masked_embd")}
    tensors = {name: tensor for name, tensor in file.tensors.items() if name not in unused}
    rest = replace(file, tensors=tensors)
    made = translate_gguf(rest, architecture, _ARCHITECTURES[kind](rest))
    return GgufDrafter(kind, made.config, made.tensors, _read_token_map(file))


def _read_token_map(file: GgufFile) -> NDArray[np.int64] | None:
    stored = file.tensors.get(_TOKEN_MAP)
    if stored is None:
        return None
    if stored.type.name not in ("I64", "I32") or len(stored.shape) != 1:
        raise BadModelFile("{path}: d2t is no list of tokens. Get the file again.", path=file.path)
    dtype = "<i8" if stored.type.name == "I64" else "<i4"
    tokens = stored.rows_as_bytes(map_file(stored.file)).reshape(-1).view(dtype)
    return tokens.astype(np.int64) - np.arange(len(tokens))
