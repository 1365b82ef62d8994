"""GGUF architecture `qwen35` (Qwen3.5 / 3.6 dense): its config, names, and what the converter did.

llama.cpp's converter stores norms as used (1 + w), the decay as -exp(A_log), convolutions without
their axis of length one, and, where value heads outnumber key heads, value heads tiled: all first
heads of the groups, then all second ones. MTP heads are blocks behind the last one of the trunk.
"""

import re
from collections.abc import Mapping

from mlx_engine.loading.gguf_file import GgufFile
from mlx_engine.loading.gguf_header import GgufTensor
from mlx_engine.loading.gguf_metadata import GgufMetadata
from mlx_engine.loading.gguf_part import Placement
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_BLOCK = re.compile(r"blk\.(\d{1,4})\.(.+)")
_WIDEST = 2**20  # orders of rows are listed, so a wild number would hang
_OUTSIDE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_HEAD = {
    "nextn.eh_proj.weight": "mtp.fc.weight",
    "nextn.enorm.weight": "mtp.pre_fc_norm_embedding.weight",
    "nextn.hnorm.weight": "mtp.pre_fc_norm_hidden.weight",
    "nextn.shared_head_norm.weight": "mtp.norm.weight",
}
_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "ssm_norm.weight": "linear_attn.norm.weight",
}
_RECURRENT = {
    "attn_qkv.weight": "linear_attn.in_proj_qkv.weight",
    "attn_gate.weight": "linear_attn.in_proj_z.weight",
    "ssm_beta.weight": "linear_attn.in_proj_b.weight",
    "ssm_alpha.weight": "linear_attn.in_proj_a.weight",
    "ssm_out.weight": "linear_attn.out_proj.weight",
    "ssm_conv1d.weight": "linear_attn.conv1d.weight",
    "ssm_dt.bias": "linear_attn.dt_bias",
    "ssm_a": "linear_attn.A_log",
}


class Qwen35Gguf:
    """Names and config of one file; BadModelFile when its metadata contradict themselves."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._metadata = GgufMetadata(file.path, file.metadata)
        self._main_blocks = _main_blocks(file.tensors, self._metadata)
        count = self._metadata.count
        key_heads, value_heads = count("ssm.group_count"), count("ssm.time_step_rank")
        inner = count("ssm.inner_size")
        key_head = count("ssm.state_size")
        whole = key_heads and value_heads and not value_heads % key_heads
        if not whole or inner % value_heads or max(inner, key_heads * key_head) > _WIDEST:
            raise BadModelFile(
                f"{file.path}: {value_heads} value heads for {key_heads} key heads in a width of "
                f"{inner} cannot be. Get the file again."
            )
        self._key_heads, self._value_heads = key_heads, value_heads
        self._value_head, self._key_head = inner // value_heads, key_head

    def config(self) -> dict[str, object]:
        """What config.json would say."""
        metadata, tensors = self._metadata, self._file.tensors
        count, head = metadata.count, metadata.count("attention.key_length")
        rotated = count("rope.dimension_count", head // 4)
        if not 0 < rotated <= head or rotated % 2:
            raise BadModelFile(
                f"{metadata.path}: {rotated} rotated elements in heads of {head} cannot be. Get "
                "the file again."
            )
        recurrent = metadata.flags("attention.recurrent_layers")
        text: dict[str, object] = {
            "model_type": "qwen3_5_text",
            "vocab_size": self._vocabulary(),
            "hidden_size": count("embedding_length"),
            "intermediate_size": count("feed_forward_length"),
            "num_hidden_layers": self._main_blocks,
            "num_attention_heads": count("attention.head_count"),
            "num_key_value_heads": count("attention.head_count_kv"),
            "head_dim": head,
            "rms_norm_eps": metadata.number("attention.layer_norm_rms_epsilon", 1e-6),
            "max_position_embeddings": count("context_length"),
            "tie_word_embeddings": "output.weight" not in tensors,
            "full_attention_interval": count("full_attention_interval", 4),
            "linear_conv_kernel_dim": count("ssm.conv_kernel"),
            "linear_key_head_dim": self._key_head,
            "linear_value_head_dim": self._value_head,
            "linear_num_key_heads": self._key_heads,
            "linear_num_value_heads": self._value_heads,
            "rope_parameters": {
                "rope_type": _rope_type(metadata),
                "rope_theta": metadata.number("rope.freq_base", 1e7),
                "partial_rotary_factor": rotated / head if head else 0.0,
            },
            "mtp_num_hidden_layers": count("nextn_predict_layers", 0),
            "dtype": "float16",
        }
        if recurrent is not None:
            text["layer_types"] = [
                "linear_attention" if flag else "full_attention"
                for flag in recurrent[: self._main_blocks]
            ]
        return {"model_type": "qwen3_5", "text_config": text}

    def place(self, name: str) -> Placement:
        """Where a tensor of the file belongs; a name of no meaning here stays as it is."""
        if name in _OUTSIDE:
            return Placement(_OUTSIDE[name])
        found = _BLOCK.fullmatch(name)
        if found is None:
            return Placement(name)
        block, rest = int(found[1]), found[2]
        if block >= self._main_blocks and rest in _HEAD:
            return Placement(_HEAD[rest])
        layer = (
            f"model.layers.{block}"
            if block < self._main_blocks
            else f"mtp.layers.{block - self._main_blocks}"
        )
        if rest in _RECURRENT:
            return self._recurrent(f"{layer}.{_RECURRENT[rest]}", rest)
        return Placement(f"{layer}.{_LAYER.get(rest, rest)}")

    def _recurrent(self, name: str, rest: str) -> Placement:
        """The tensors whose value heads were tiled."""
        if rest == "ssm_out.weight":
            return Placement(name, column_heads=self._tiled())
        if rest in ("attn_qkv.weight", "ssm_conv1d.weight"):
            before = 2 * self._key_heads * self._key_head
            rows = (*range(before), *(before + row for row in self._value_rows()))
            return Placement(name, rows, change="a last axis" if "conv1d" in rest else "none")
        if rest == "attn_gate.weight":
            return Placement(name, self._value_rows())
        return Placement(name, self._tiled(), change="log of minus" if rest == "ssm_a" else "none")

    def _tiled(self) -> tuple[int, ...]:
        """Value head v of group v // n was stored at place (v % n) * groups + v // n."""
        groups = self._key_heads
        n = self._value_heads // groups
        return tuple((v % n) * groups + v // n for v in range(self._value_heads))

    def _value_rows(self) -> tuple[int, ...]:
        width = self._value_head
        return tuple(head * width + row for head in self._tiled() for row in range(width))

    def _vocabulary(self) -> int:
        embedding = self._file.tensors.get("token_embd.weight")
        if embedding is None:
            raise BadModelFile(
                f"{self._file.path}: the tensor token_embd.weight is missing. Get the file again."
            )
        return embedding.shape[0]


def _main_blocks(tensors: Mapping[str, GgufTensor], metadata: GgufMetadata) -> int:
    """Blocks of the trunk: up to the first with a head's tensors, else what the metadata leave.

    The count of heads may be stale: when blocks are there for all of block_count, all are trunk.
    """
    found = [match for match in map(_BLOCK.fullmatch, tensors) if match]
    heads = [int(match[1]) for match in found if match[2] in _HEAD]
    if heads:
        return min(heads)
    total, claimed = metadata.count("block_count"), metadata.count("nextn_predict_layers", 0)
    last = max((int(match[1]) for match in found), default=-1)
    return total if last + 1 == total else max(0, total - claimed)


def _rope_type(metadata: GgufMetadata) -> str:
    scaling = metadata.option("rope.scaling.type")
    if scaling in (None, "none", ""):
        return "default"
    raise UnsupportedModel(
        f"{metadata.path}: stretches its context by rope scaling {ascii(scaling)[:40]}, which this "
        "version does not. Take the model without it."
    )
