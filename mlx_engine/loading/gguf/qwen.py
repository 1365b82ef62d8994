"""GGUF architectures of Qwen: 2 and 3 with experts, 3-Next, 3.5 and 3.6.

Qwen3.5's files, as llama.cpp's converter writes them: norms as used (1 + w), decays as
-exp(A_log), convolutions without their axis of length one, and, with more value than key heads,
value heads tiled (first heads of all groups, then second ones). MTP heads are blocks behind the
trunk's last.
"""

from dataclasses import replace
from typing import ClassVar

from mlx_engine.loading.gguf.architecture import (
    ATTENTION,
    DENSE,
    EXPERTS,
    ONE_SHARED,
    RECURRENT,
    WIDEST,
    Architecture,
)
from mlx_engine.loading.gguf.file import GgufFile
from mlx_engine.loading.gguf.part import Change, Placement
from mlx_engine.values.errors import BadModelFile

_HEAD = {
    "nextn.eh_proj": "mtp.fc",
    "nextn.enorm": "mtp.pre_fc_norm_embedding",
    "nextn.hnorm": "mtp.pre_fc_norm_hidden",
    "nextn.shared_head_norm": "mtp.norm",
    "nextn.embed_tokens": "mtp.embed_tokens",
    "nextn.shared_head_head": "mtp.lm_head",
}
"""Of a head beside its layer, by their whole names."""


_CHANGES: dict[str, Change] = {
    "ssm_conv1d.weight": "a last axis",
    "ssm_a": "log of minus",
    "ffn_gate_inp_shexp.weight": "a first axis",  # a matrix of one row
}


class MtpGguf(Architecture):
    """Heads that Hugging Face has under `mtp.`."""

    head_names: ClassVar = _HEAD

    def _layer(self, block: int) -> str:
        if block < self._main_blocks:
            return super()._layer(block)
        return f"mtp.layers.{block - self._main_blocks}."

    def _in_block(self, block: int, rest: str) -> tuple[Placement, ...]:
        if block >= self._main_blocks and rest.removesuffix(".weight") in _HEAD:
            return (Placement(self._named(block, rest)),)
        return super()._in_block(block, rest)


class Qwen35Gguf(MtpGguf):
    """Dense Qwen3.5."""

    model_type = "qwen3_5"
    rotates_whole_heads = False
    stretches = ()
    usual_base = 1e7
    usual_share = 4
    names = ATTENTION | RECURRENT | DENSE

    def __init__(self, file: GgufFile, model_type: str = "") -> None:
        super().__init__(file, model_type)
        count = self._metadata.count
        key_heads, value_heads = count("ssm.group_count"), count("ssm.time_step_rank")
        inner, key_head = count("ssm.inner_size"), count("ssm.state_size")
        whole = key_heads and value_heads and inner and not value_heads % key_heads
        if not whole or inner % value_heads or max(inner, key_heads * key_head) > WIDEST:
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

    def _own(self) -> dict[str, object]:
        count = self._metadata.count
        recurs = [self._block_has(block, "ssm_a") for block in range(self._main_blocks)]
        return {
            "layer_types": ["linear_attention" if one else "full_attention" for one in recurs],
            "linear_conv_kernel_dim": count("ssm.conv_kernel"),
            "linear_key_head_dim": self._key_head,
            "linear_value_head_dim": self._value_head,
            "linear_num_key_heads": self._key_heads,
            "linear_num_value_heads": self._value_heads,
            "linear_value_heads_tiled": self._is_tiled(),
            "partial_rotary_factor": self._rotated() / self._head,
            "mtp_num_hidden_layers": count("nextn_predict_layers", 0),
        }

    def _in_block(self, block: int, rest: str) -> tuple[Placement, ...]:
        if rest == "attn_qkv.weight":
            return (self._single(block, rest),)
        return super()._in_block(block, rest)

    def _single(self, block: int, rest: str) -> Placement:
        """Value heads in Hugging Face's order, but those of the gate and the output projection: a
        model is told of their order, so that columns stay where packed blocks have them.
        """
        place = replace(super()._single(block, rest), change=_CHANGES.get(rest, "none"))
        if not self._is_tiled():
            return place
        if rest in ("attn_qkv.weight", "ssm_conv1d.weight"):
            before = 2 * self._key_heads * self._key_head
            rows = (*range(before), *(before + row for row in self._rows_in_order()))
            return replace(place, rows=rows)
        is_by_head = rest in ("ssm_alpha.weight", "ssm_beta.weight", "ssm_dt.bias", "ssm_a")
        return replace(place, rows=self._heads_in_order()) if is_by_head else place

    def _is_tiled(self) -> bool:
        return self._value_heads > self._key_heads

    def _heads_in_order(self) -> tuple[int, ...]:
        """Value head v of group v // n was stored at place (v % n) * groups + v // n."""
        groups = self._key_heads
        n = self._value_heads // groups
        return tuple((v % n) * groups + v // n for v in range(self._value_heads))

    def _rows_in_order(self) -> tuple[int, ...]:
        width = self._value_head
        return tuple(head * width + row for head in self._heads_in_order() for row in range(width))


class Qwen35MoeGguf(Qwen35Gguf):
    """With experts, and one that is always asked, behind a gate of its own."""

    model_type = "qwen3_5_moe"
    names = Qwen35Gguf.names | EXPERTS | ONE_SHARED

    def _own(self) -> dict[str, object]:
        shared = self._width("ffn_gate_shexp.weight")  # older files tell it by their tensors only
        return {
            **super()._own(),
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "shared_expert_intermediate_size": self._metadata.count(
                "expert_shared_feed_forward_length", shared
            ),
        }


class Qwen3NextGguf(Qwen35MoeGguf):
    """With value heads in Hugging Face's order.

    Betas and decays stay joined as Hugging Face has them (`ssm_ba`); older files have queries,
    keys, values and gates joined too (`ssm_in`).
    """

    model_type = "qwen3_next"

    def _is_tiled(self) -> bool:
        return False


class Qwen3MoeGguf(Architecture):
    """Qwen3 with experts in every layer, whose scores always add up to one."""

    model_type = "qwen3_moe"
    names = ATTENTION | DENSE | EXPERTS

    def _own(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }


class Qwen2MoeGguf(Architecture):
    """Qwen1.5 and Qwen2 with experts, and one that is always asked, behind a gate of its own."""

    model_type = "qwen2_moe"
    names = ATTENTION | DENSE | EXPERTS | ONE_SHARED

    def _own(self) -> dict[str, object]:
        return {
            **self._experts("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
            "shared_expert_intermediate_size": self._width("ffn_up_shexp.weight"),
        }

    def _change(self, name: str) -> Change:
        return "a first axis" if name.startswith("ffn_gate_inp_shexp.") else "none"
