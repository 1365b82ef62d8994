"""GGUF architectures `qwen35` and `qwen35moe` (Qwen3.5 / 3.6): config, names, transformed values.

llama.cpp's converter stores norms as used (1 + w), the decay as -exp(A_log), convolutions without
their axis of length one, and, where value heads outnumber key heads, value heads tiled: all first
heads of the groups, then all second ones. MTP heads are blocks behind the last one of the trunk.
"""

from mlx_engine.loading.gguf.depth import BLOCK, main_blocks
from mlx_engine.loading.gguf.metadata import GgufMetadata
from mlx_engine.loading.gguf.part import Placement
from mlx_engine.loading.gguf.qwen_names import (
    EXPERTS,
    HEAD,
    JOINED_EXPERTS,
    LAYER,
    OUTSIDE,
    RECURRENT,
    SHARED_GATE,
)
from mlx_engine.loading.gguf.split_file import GgufFile
from mlx_engine.values.errors import BadModelFile, UnsupportedModel

_WIDEST = 2**20  # orders of rows are listed, so a wild number would hang


class Qwen35Gguf:
    """Names and config of one file; BadModelFile when its metadata contradict themselves."""

    model_type = "qwen3_5"

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self._metadata = GgufMetadata(file.path, file.metadata)
        self._main_blocks = main_blocks(file.tensors, self._metadata)
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
            "model_type": f"{self.model_type}_text",
            "vocab_size": self._vocabulary(),
            "hidden_size": count("embedding_length"),
            "intermediate_size": count("feed_forward_length", 0),
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
        return {"model_type": self.model_type, "text_config": text}

    def place(self, name: str) -> tuple[Placement, ...]:
        """Where a tensor of the file belongs; a name of no meaning here stays as it is."""
        if name in OUTSIDE:
            return (Placement(OUTSIDE[name]),)
        found = BLOCK.fullmatch(name)
        if found is None:
            return (Placement(name),)
        block, rest = int(found[1]), found[2]
        if block >= self._main_blocks and rest in HEAD:
            return (Placement(HEAD[rest]),)
        layer = (
            f"model.layers.{block}"
            if block < self._main_blocks
            else f"mtp.layers.{block - self._main_blocks}"
        )
        return self._in_layer(f"{layer}.", rest)

    def _in_layer(self, layer: str, rest: str) -> tuple[Placement, ...]:
        """The tensor `rest` of a block; layer: what our names of that block begin with."""
        if rest in RECURRENT:
            return (self._recurrent(layer + RECURRENT[rest], rest),)
        return (Placement(layer + LAYER.get(rest, rest)),)

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


class Qwen35MoeGguf(Qwen35Gguf):
    """The same with experts."""

    model_type = "qwen3_5_moe"

    def config(self) -> dict[str, object]:
        """What config.json would say."""
        made, count = super().config(), self._metadata.count
        text = made["text_config"]
        assert isinstance(text, dict)
        sizes = {
            "num_experts": count("expert_count"),
            "num_experts_per_tok": count("expert_used_count"),
            "moe_intermediate_size": count("expert_feed_forward_length"),
            "shared_expert_intermediate_size": count(
                "expert_shared_feed_forward_length", self._shared_width()
            ),
        }
        return made | {"text_config": text | sizes}

    def _in_layer(self, layer: str, rest: str) -> tuple[Placement, ...]:
        if rest in EXPERTS:
            return (Placement(layer + EXPERTS[rest]),)
        if rest in JOINED_EXPERTS:
            runs = JOINED_EXPERTS[rest].items()
            return tuple(Placement(layer + name, run=run) for name, run in runs)
        if rest == SHARED_GATE:
            name = f"{layer}mlp.shared_expert_gate.weight"
            return (Placement(name, change="a first axis"),)
        return super()._in_layer(layer, rest)

    def _shared_width(self) -> int:
        """Older files tell it by their tensors only."""
        tensor = self._file.tensors.get("blk.0.ffn_gate_shexp.weight")
        return 0 if tensor is None else tensor.shape[0]


def _rope_type(metadata: GgufMetadata) -> str:
    scaling = metadata.option("rope.scaling.type")
    if scaling in (None, "none", ""):
        return "default"
    raise UnsupportedModel(
        f"{metadata.path}: stretches its context by rope scaling {ascii(scaling)[:40]}, which this "
        "version does not. Take the model without it."
    )
