"""GGUF architecture `qwen3next`: as `qwen35moe`, with value heads in Hugging Face's order."""

from functools import cached_property

from mlx_engine.loading.gguf.part import Placement
from mlx_engine.loading.gguf.qwen35 import Qwen35MoeGguf
from mlx_engine.models.qwen3_next_names import JoinedRows, joined_rows


class Qwen3NextGguf(Qwen35MoeGguf):
    """Names and config of one file.

    Betas and decays stay joined as Hugging Face has them (`ssm_ba`); older files have queries,
    keys, values and gates joined too (`ssm_in`).
    """

    model_type = "qwen3_next"

    def _in_layer(self, layer: str, rest: str) -> tuple[Placement, ...]:
        rows = self._joined_rows
        if rest == "ssm_ba.weight":
            parts = {"in_proj_b": rows.in_proj_b, "in_proj_a": rows.in_proj_a}
        elif rest == "ssm_in.weight":
            parts = {"in_proj_qkv": rows.in_proj_qkv, "in_proj_z": rows.in_proj_z}
        else:
            return super()._in_layer(layer, rest)
        total = sum(map(len, parts.values()))
        return tuple(
            Placement(f"{layer}linear_attn.{name}.weight", wanted, total)
            for name, wanted in parts.items()
        )

    @cached_property
    def _joined_rows(self) -> JoinedRows:
        return joined_rows(self._key_heads, self._value_heads, self._key_head, self._value_head)

    def _tiled(self) -> tuple[int, ...]:
        return tuple(range(self._value_heads))
