"""GGUF architectures of Qwen3-Next, Qwen3.5 and Qwen3.6.

In Qwen3.5's files llama.cpp's converter stores norm weights as 1 + w, decays as -exp(A_log), and
convolutions without their axis of length one. With more value heads than key heads, value heads are
tiled: the first heads of all groups, then the second ones. MTP heads are blocks after the trunk's
last.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import MOST_ROWS, NAMES, ONE_SHARED, Architecture
from mlx_engine.loading.gguf.file import GgufFile
from mlx_engine.loading.gguf.part import Change, HfTensor, swapped_rows
from mlx_engine.values.errors import BadModelFile

_HEAD = {
    "nextn.eh_proj": "mtp.fc",
    "nextn.enorm": "mtp.pre_fc_norm_embedding",
    "nextn.hnorm": "mtp.pre_fc_norm_hidden",
    "nextn.shared_head_norm": "mtp.norm",
    "nextn.embed_tokens": "mtp.embed_tokens",
    "nextn.shared_head_head": "mtp.lm_head",
}
"""Tensor names of an MTP head outside its decoder layer -> full published names."""


_CHANGES: dict[str, Change] = {
    "ssm_conv1d.weight": "add last axis",
    "ssm_a": "log of negated",
    "ffn_gate_inp_shexp.weight": "add first axis",  # a matrix of one row
}


class MtpGguf(Architecture):
    """Base of GGUF architectures whose MTP heads have Hugging Face tensor names under `mtp.`."""

    head_names: ClassVar = _HEAD

    def _layer_prefix(self, block: int) -> str:
        if block < self._main_blocks:
            return super()._layer_prefix(block)
        return f"mtp.layers.{block - self._main_blocks}."

    def _layer_tensors(self, block: int, name: str) -> tuple[HfTensor, ...]:
        if block >= self._main_blocks and name.removesuffix(".weight") in _HEAD:
            return (HfTensor(self._published_name(block, name)),)
        return super()._layer_tensors(block, name)


class Qwen35Gguf(MtpGguf):
    """GGUF files of dense Qwen3.5 and Qwen3.6 models."""

    model_type = "qwen3_5"
    changes: ClassVar[Mapping[str, Change]] = _CHANGES
    rotates_whole_heads = False
    rope_kinds = ()
    default_base = 1e7
    default_divisor = 4
    names = NAMES | {
        "attn_qkv": "linear_attn.in_proj_qkv",
        "attn_gate": "linear_attn.in_proj_z",
        "ssm_in": "linear_attn.in_proj_qkvz",
        "ssm_ba": "linear_attn.in_proj_ba",
        "ssm_beta": "linear_attn.in_proj_b",
        "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj",
        "ssm_conv1d": "linear_attn.conv1d",
        "ssm_dt.bias": "linear_attn.dt_bias",
        "ssm_a": "linear_attn.A_log",
    }

    def __init__(self, file: GgufFile, model_type: str = "") -> None:
        super().__init__(file, model_type)
        count = self._metadata.count
        key_heads, value_heads = count("ssm.group_count"), count("ssm.time_step_rank")
        inner, key_head = count("ssm.inner_size"), count("ssm.state_size")
        whole = key_heads and value_heads and inner and not value_heads % key_heads
        if not whole or inner % value_heads or max(inner, key_heads * key_head) > MOST_ROWS:
            raise BadModelFile(
                "{path}: {value_heads} value heads for {key_heads} key heads in a width of "
                "{inner} cannot be. Get the file again.",
                path=file.path,
                value_heads=value_heads,
                key_heads=key_heads,
                inner=inner,
            )
        self._key_heads, self._value_heads = key_heads, value_heads
        self._value_head, self._key_head = inner // value_heads, key_head

    def _family_config(self) -> dict[str, object]:
        count = self._metadata.count
        linear = [self._layer_has(block, "ssm_a") for block in range(self._main_blocks)]
        return {
            "layer_types": ["linear_attention" if flag else "full_attention" for flag in linear],
            "linear_conv_kernel_dim": count("ssm.conv_kernel"),
            "linear_key_head_dim": self._key_head,
            "linear_value_head_dim": self._value_head,
            "linear_num_key_heads": self._key_heads,
            "linear_num_value_heads": self._value_heads,
            "linear_value_heads_tiled": self._has_tiled_heads(),
            "partial_rotary_factor": self._rotary_dim() / self._head_dim,
            "mtp_num_hidden_layers": count("nextn_predict_layers", 0),
        }

    def _rope_fields(self) -> dict[str, object]:
        """Add the pairs for each axis of M-RoPE, which llama.cpp pads to four."""
        key = "rope.dimension_sections"
        sections = self._metadata.counts(key, 3) if self._metadata.has_key(key) else ()
        given = {"mrope_section": list(sections)} if any(sections) else {}
        return {**super()._rope_fields(), "rope_parameters": given}

    def _layer_tensors(self, block: int, name: str) -> tuple[HfTensor, ...]:
        if name == "attn_qkv.weight":
            return (self._layer_tensor(block, name),)
        return super()._layer_tensors(block, name)

    def _layer_tensor(self, block: int, name: str) -> HfTensor:
        """Map a layer's GGUF tensor to its Hugging Face name and order of value heads.

        Gate and output projection keep the file's order, which the config notes, since columns of
        quantised blocks cannot move.
        """
        place = super()._layer_tensor(block, name)
        if not self._has_tiled_heads():
            return place
        if name in ("attn_qkv.weight", "ssm_conv1d.weight"):
            before = 2 * self._key_heads * self._key_head
            order = swapped_rows(1, self._values_per_key, self._key_heads, self._value_head)
            return replace(place, rows=(*range(before), *(before + row for row in order)))
        is_by_head = name in ("ssm_alpha.weight", "ssm_beta.weight", "ssm_dt.bias", "ssm_a")
        if not is_by_head:
            return place
        return replace(place, rows=swapped_rows(1, self._values_per_key, self._key_heads))

    def _has_tiled_heads(self) -> bool:
        return self._value_heads > self._key_heads

    @property
    def _values_per_key(self) -> int:
        """Value heads for each key head."""
        return self._value_heads // self._key_heads


class Qwen35MoeGguf(Qwen35Gguf):
    """GGUF files of Qwen3.5 with experts and a gated shared expert."""

    model_type = "qwen3_5_moe"
    names = Qwen35Gguf.names | ONE_SHARED

    def _family_config(self) -> dict[str, object]:
        shared = self._output_size("ffn_gate_shexp.weight")  # older files have no key for it
        return {
            **super()._family_config(),
            **self._expert_fields("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "shared_expert_intermediate_size": self._metadata.count(
                "expert_shared_feed_forward_length", shared
            ),
        }


class Qwen3NextGguf(Qwen35MoeGguf):
    """GGUF files of Qwen3-Next, whose value heads are stored in Hugging Face's order.

    Betas and decays are joined as in Hugging Face (`ssm_ba`), in older files also queries, keys,
    values and gates (`ssm_in`).
    """

    model_type = "qwen3_next"

    def _has_tiled_heads(self) -> bool:
        return False
