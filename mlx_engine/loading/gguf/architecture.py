"""Base class of GGUF architectures: metadata to config.json, GGUF to Hugging Face tensor names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from mlx_engine.loading.gguf.file import GgufFile
from mlx_engine.loading.gguf.header import GgufTensor
from mlx_engine.loading.gguf.metadata import (
    KINDS,
    LONGROPE_FACTORS,
    ROPE_FACTORS,
    GgufMetadata,
    Kind,
    rope_base,
    rope_scaling,
)
from mlx_engine.loading.gguf.part import Change, HfTensor
from mlx_engine.models.tensor_recipes import RowChunk
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

# Tensor names of GGUF -> of Hugging Face, without `.weight` or `.bias` unless written out; names of
# blocks without their prefix. Stacks of experts have the names of MLX conversions (`switch_mlp`).
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
"""Tensors outside the blocks."""

NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.switch_mlp.gate_proj",
    "ffn_up_exps": "mlp.switch_mlp.up_proj",
    "ffn_down_exps": "mlp.switch_mlp.down_proj",
    "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
    "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
    "ffn_up_shexp": "mlp.shared_experts.up_proj",
    "ffn_down_shexp": "mlp.shared_experts.down_proj",
    "nextn.eh_proj": "eh_proj",
    "nextn.enorm": "enorm",
    "nextn.hnorm": "hnorm",
    "nextn.embed_tokens": "embed_tokens",
    "nextn.shared_head_norm": "shared_head.norm",
    "nextn.shared_head_head": "shared_head.head",
}
"""Usual names of tensors in blocks."""

ONE_SHARED = {
    **{f"ffn_{part}_shexp": f"mlp.shared_expert.{part}_proj" for part in ("gate", "up", "down")},
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
}
"""Tensor names of a single shared expert with a gate, in place of several."""

SOFTMAX, SIGMOID = 1, 2
"""Values of expert_gating_func."""

_BLOCK = re.compile(r"blk\.(\d{1,4})\.(.+)")
MOST_ROWS = 2**20
"""Most rows of an attention matrix, since row orders are lists."""
MOST_BLOCKS = 9999
"""Largest number of blocks; names have four digits."""

_VARIANT_KEYS = (
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.temperature_scale",
    "attn_logit_softcapping",
    "embedding_scale",
    "final_logit_softcapping",
    "logit_scale",
    "residual_scale",
    "router_logit_softcapping",
)
"""Metadata keys of variants, refused unless an architecture supports them; 0 and 1 mean unused."""


class Architecture:
    """Translates a GGUF file to a Hugging Face folder's config.json and tensor names.

    Built from headers; raises BadModelFile for contradictory metadata. Subclasses set:

    - model_type: of the config; "" where `_find_model_type` decides;
    - outside, names: GGUF -> Hugging Face tensor names outside and in layers; head_names: those in
      MTP heads, which are layers after the trunk's, that differ from layers of the trunk;
    - changes: tensor name endings -> what undoes llama.cpp's change of values in conversion;
    - supported: keys of _VARIANT_KEYS that the architecture handles;
    - rope_kinds: supported kinds of RoPE scaling;
    - default_base, default_divisor: RoPE's base, and head size / rotated elements, where the file
      has no key for them.
    """

    model_type = ""
    supported: ClassVar[tuple[str, ...]] = ()
    outside: ClassVar[Mapping[str, str]] = OUTSIDE
    names: ClassVar[Mapping[str, str]] = NAMES
    head_names: ClassVar[Mapping[str, str]] = MappingProxyType({})
    changes: ClassVar[Mapping[str, Change]] = MappingProxyType({})
    rotates_whole_heads = True
    rope_kinds: ClassVar[tuple[Kind, ...]] = KINDS
    default_base = 10000.0
    default_divisor = 1

    def __init__(self, file: GgufFile, model_type: str = "") -> None:
        """Read and check a GGUF file's metadata; model_type overrides the class attribute."""
        self._file = file
        self._metadata = GgufMetadata(file.path, file.metadata)
        self._main_blocks = count_trunk_layers(file.tensors, self._metadata)
        if self._main_blocks > MOST_BLOCKS:
            raise self._bad_metadata(f"{self._main_blocks} blocks", "block_count")
        self.model_type = model_type or self.model_type or self._find_model_type()
        self._check_variant()
        self._check_depth()

    def config(self) -> dict[str, object]:
        """Make the contents of a Hugging Face config.json from a GGUF file's metadata."""
        count = self._metadata.count
        return {
            "model_type": self.model_type,
            "vocab_size": self._vocabulary_size(),
            "hidden_size": count("embedding_length"),
            "intermediate_size": count("feed_forward_length", 0),
            "num_hidden_layers": self._main_blocks,
            "num_attention_heads": self._query_heads,
            "num_key_value_heads": self._kv_heads(0),
            "head_dim": self._head_dim,
            "rms_norm_eps": self._metadata.number("attention.layer_norm_rms_epsilon", 1e-6),
            "max_position_embeddings": count("context_length"),
            "tie_word_embeddings": "output.weight" not in self._file.tensors,
            "num_nextn_predict_layers": count("nextn_predict_layers", 0),
            "attention_bias": any(map(self._any_layer_has, ("attn_q.bias", "attn_qkv.bias"))),
            "mlp_bias": self._any_layer_has("ffn_up.bias"),
            "dtype": {"F16": "float16", "BF16": "bfloat16"}[self._file.half_type],
            **self._rope_fields(),
            **self._family_config(),
        }

    def _vocabulary_size(self) -> int:
        """Vocabulary size: rows of the embedding; without one, tokens of the tokenizer."""
        tensors = self._file.tensors
        if "token_embd.weight" in tensors or any(name.startswith("blk.0.") for name in tensors):
            return self._file.tensor("token_embd.weight").shape[0]
        words = self._file.metadata.get("tokenizer.ggml.tokens", ())
        return len(words) if isinstance(words, Sequence) else 0

    def hf_tensors(self, name: str) -> tuple[HfTensor, ...]:
        """Map a GGUF tensor's name to its Hugging Face names and how to restore rows and values.

        One Placement for each tensor that it joins; unknown names stay as they are."""
        base, _, kind = name.rpartition(".")
        if base in self.outside:
            return (
                HfTensor(f"{self.outside[base]}.{kind}", change=self._undo_converter_change(name)),
            )
        if name in (ROPE_FACTORS, *LONGROPE_FACTORS):  # in the config
            return ()
        found = _BLOCK.fullmatch(name)
        if found is None:
            return (HfTensor(name),)
        return self._layer_tensors(int(found[1]), found[2])

    def _find_model_type(self) -> str:
        """Derive config.json's model_type from a GGUF file's metadata or tensors."""
        raise NotImplementedError

    def _family_config(self) -> dict[str, object]:
        """Return config.json's fields that only this GGUF architecture has."""
        return {}

    def _rope_fields(self) -> dict[str, object]:
        base = rope_base(self._metadata, default=self.default_base)
        return {"rope_theta": base, "rope_scaling": self._rope_scaling_fields()}

    def _rope_scaling_fields(self) -> dict[str, object] | None:
        return rope_scaling(self._file, self._metadata, self._rotary_dim(), self.rope_kinds)

    def _rotary_dim(self) -> int:
        """Number of elements of a head that RoPE rotates."""
        rotated = self._metadata.count(
            "rope.dimension_count", self._head_dim // self.default_divisor
        )
        if not 0 < rotated <= self._head_dim or rotated % 2:
            what = f"{rotated} rotated elements in heads of {self._head_dim}"
            raise self._bad_metadata(what, "rope.dimension_count")
        return rotated

    def _partial_factor(self) -> float:
        """`partial_rotary_factor`, slightly increased so that int(factor * head size) is exact."""
        return min(1.0, (self._rotary_dim() + 0.5) / self._head_dim)

    def _layer_tensors(self, block: int, name: str) -> tuple[HfTensor, ...]:
        """Map a layer's GGUF tensor to its Hugging Face tensors, several where it joins them."""
        if name.startswith("attn_qkv."):
            return self._split_attention(block, name.removeprefix("attn_qkv."))
        if name == "ffn_gate_up_exps.weight":
            gate, up = (
                self._layer_tensor(block, f"ffn_{part}_exps.weight") for part in ("gate", "up")
            )
            return replace(gate, run=RowChunk(0, 2)), replace(up, run=RowChunk(1, 2))
        return (self._layer_tensor(block, name),)

    def _layer_tensor(self, block: int, name: str) -> HfTensor:
        """Map a layer's GGUF tensor to the single Hugging Face tensor that it is."""
        return HfTensor(
            self._layer_prefix(block) + self._published_name(block, name),
            change=self._undo_converter_change(name),
        )

    def _undo_converter_change(self, name: str) -> Change:
        """Return what undoes llama.cpp's change of a GGUF tensor's values, "none" if unchanged."""
        changes = (change for ending, change in self.changes.items() if name.endswith(ending))
        return next(changes, "none")

    def _layer_prefix(self, block: int) -> str:
        """Return the prefix of Hugging Face tensor names in a layer."""
        return f"model.layers.{block}."

    def _published_name(self, block: int, name: str) -> str:
        names = {**self.names, **self.head_names} if block >= self._main_blocks else self.names
        base, _, kind = name.rpartition(".")
        if name in names:
            return names[name]
        return f"{names[base]}.{kind}" if base in names else name

    def _split_attention(self, block: int, tensor_kind: str) -> tuple[HfTensor, ...]:
        heads, kept = self._layer_query_heads(block), self._kv_heads(block)
        values = self._metadata.count("attention.value_length", self._head_dim)
        if kept * values > MOST_ROWS:
            raise self._bad_metadata(f"{kept} heads of {values}", "attention.value_length")
        sizes = (heads * self._head_dim, kept * self._head_dim, kept * values)
        total, start, places = sum(sizes), 0, []
        for part, size in zip("qkv", sizes, strict=True):
            place = self._layer_tensor(block, f"attn_{part}.{tensor_kind}")
            order = range(size) if place.rows is None else place.rows
            rows = tuple(start + row for row in order)
            places.append(replace(place, rows=rows, file_rows=total))
            start += size
        return tuple(places)

    @property
    def _query_heads(self) -> int:
        """Number of query heads in the model's first layer."""
        return self._layer_query_heads(0)

    def _layer_query_heads(self, block: int) -> int:
        """Number of query heads in a layer. Raises BadModelFile where there are none."""
        heads = self._metadata.per_layer_count("attention.head_count", block)
        if not heads:
            raise self._bad_metadata(f"no heads in block {block}", "attention.head_count")
        return heads

    def _kv_heads(self, block: int) -> int:
        """Number of key and value heads in a layer. Raises BadModelFile for invalid numbers."""
        heads = self._layer_query_heads(block)
        key = "attention.head_count_kv"  # blocks that do not attend may count none
        kept = self._metadata.per_layer_count(key, block, heads) or self._metadata.count(key)
        if not kept or heads % kept:
            raise self._bad_metadata(f"{heads} heads for {kept} key heads in block {block}", key)
        return kept

    @property
    def _head_dim(self) -> int:
        """Size of a query or key head, in elements. Raises BadModelFile for impossible sizes."""
        width = self._metadata.count("embedding_length")
        head = self._metadata.count("attention.key_length", width // self._query_heads)
        if head % 2 or not 0 < head * self._query_heads <= MOST_ROWS:
            raise self._bad_metadata(f"{self._query_heads} heads of {head}", "attention.key_length")
        return head

    def _expert_fields(
        self, count_key: str, per_token_key: str, width_key: str
    ) -> dict[str, object]:
        """Config fields for experts: how many, how many per token, width; under the given keys."""
        experts, chosen = (
            self._positive_count("expert_count"),
            self._positive_count("expert_used_count"),
        )
        if chosen > experts:
            raise self._bad_metadata(f"{chosen} of {experts} experts chosen", "expert_used_count")
        width = self._metadata.count(
            "expert_feed_forward_length", self._output_size("ffn_up_exps.weight")
        )
        return {count_key: experts, per_token_key: chosen, width_key: width}

    def _expert_scores(self) -> dict[str, object]:
        """Config fields of the expert router (groups, scaling), under DeepSeek's keys."""
        metadata = self._metadata
        groups = max(1, metadata.count("expert_group_count", 1))
        return {
            "n_group": groups,
            "topk_group": max(1, metadata.count("expert_group_used_count", groups)),
            "routed_scaling_factor": metadata.number("expert_weights_scale", 0.0) or 1.0,
            "norm_topk_prob": metadata.flag("expert_weights_norm"),
        }

    def _check_sigmoid(self) -> None:
        """Raise UnsupportedModel unless experts are scored by a sigmoid; 0 means unspecified."""
        if self._metadata.count("expert_gating_func", SIGMOID) not in (0, SIGMOID):
            raise self._unknown_router()

    def _unknown_router(self) -> UnsupportedModel:
        return UnsupportedModel(
            "{path}: selects experts by a function that this version does not support "
            "(expert_gating_func). Use another model.",
            path=self._file.path,
        )

    def _leading_dense_blocks(self) -> int:
        """Number of layers before the first with experts."""
        blocks = range(self._main_blocks)
        found = (block for block in blocks if self._layer_has(block, "ffn_gate_inp.weight"))
        return next(found, self._main_blocks)

    def _output_size(self, tensor_suffix: str) -> int:
        """Rows of the first matrix whose tensor name has this ending, 0 if none has.

        Of a stack [..., N, K] the rows N of each matrix.
        """
        for name, tensor in self._file.tensors.items():
            if name.endswith(tensor_suffix) and len(tensor.shape) > 1:
                return tensor.shape[-2]
        return 0

    def _positive_count(self, metadata_key: str) -> int:
        value = self._metadata.count(metadata_key)
        if not value:
            raise self._bad_metadata("0", metadata_key)
        return value

    def _any_layer_has(self, tensor_suffix: str) -> bool:
        """Whether any layer (MTP heads excluded) has a tensor of this name within its layer."""
        return any(self._layer_has(block, tensor_suffix) for block in range(self._main_blocks))

    def _layer_has(self, block: int, tensor_suffix: str) -> bool:
        return f"blk.{block}.{tensor_suffix}" in self._file.tensors

    def _check_variant(self) -> None:
        for key in _VARIANT_KEYS:
            if key not in self.supported and self._metadata.number(key, 0.0) not in (0.0, 1.0):
                raise UnsupportedModel(
                    "{path}: uses {architecture}.{key}, which this "
                    "version does not run. Take another model.",
                    path=self._file.path,
                    architecture=self._metadata.architecture,
                    key=key,
                )
        if self.rotates_whole_heads and self._rotary_dim() != self._head_dim:
            what = f"{self._rotary_dim()} rotated elements in heads of {self._head_dim}"
            raise self._bad_metadata(what, "rope.dimension_count")

    def _check_depth(self) -> None:
        """Raise BadModelFile where a layer is missing, unless the file holds MTP heads alone."""
        found = {int(match[1]) for match in map(_BLOCK.fullmatch, self._file.tensors) if match}
        if 0 not in found:
            return
        missing = next((n for n in range(self._main_blocks) if n not in found), None)
        if missing is not None:
            promised = f"{self._main_blocks} blocks where there is no block {missing}"
            raise self._bad_metadata(promised, "block_count")

    def _bad_metadata(self, described_value: str, metadata_key: str) -> BadModelFile:
        return BadModelFile(
            "{path}: {what} ({architecture}.{key}) is not valid. Get the file again.",
            path=self._file.path,
            what=described_value,
            architecture=self._metadata.architecture,
            key=metadata_key,
        )


def count_trunk_layers(tensors: Mapping[str, GgufTensor], metadata: GgufMetadata) -> int:
    """Number of a GGUF model's layers before the first MTP head, else by the metadata.

    Where tensors of all block_count layers exist without heads, all are counted, since
    nextn_predict_layers may be stale.
    """
    found = [match for match in map(_BLOCK.fullmatch, tensors) if match]
    heads = [int(match[1]) for match in found if match[2].startswith("nextn.")]
    if heads:
        return min(heads)
    total, claimed = metadata.count("block_count"), metadata.count("nextn_predict_layers", 0)
    last = max((int(match[1]) for match in found), default=-1)
    return total if last + 1 == total else max(0, total - claimed)
