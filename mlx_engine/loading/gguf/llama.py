"""GGUF architecture `llama`: Llama and Mistral, and Mixtral where there are experts.

llama.cpp's converter orders the rows of each head of queries and keys so that the two elements that
are rotated together lie side by side; Hugging Face has all first ones, then all second ones.
"""

import re
from dataclasses import replace
from functools import cache

from mlx_engine.loading.gguf.architecture import TrunkGguf
from mlx_engine.loading.gguf.names import ATTENTION, DENSE, EXPERTS
from mlx_engine.loading.gguf.part import Placement
from mlx_engine.loading.gguf.split_file import GgufFile

_SINGLE = re.compile(r"ffn_(gate|up|down)\.(\d{1,4})\.(\w+)")
_PUBLISHED = {"gate": "w1", "down": "w2", "up": "w3"}


class LlamaGguf(TrunkGguf):
    """Names and config of one file."""

    names = ATTENTION | DENSE

    def __init__(self, file: GgufFile) -> None:
        super().__init__(file)
        self._has_experts = self._metadata.count("expert_count", 0) > 0
        self._window = self._metadata.count("attention.sliding_window", 0)
        if self._has_experts:
            self.model_type = "mixtral"
        else:
            self.model_type = "mistral" if self._window else "llama"

    def _own(self) -> dict[str, object]:
        found: dict[str, object] = {
            "attention_bias": self._has("attn_q.bias") or self._has("attn_qkv.bias"),
            "mlp_bias": self._has("ffn_up.bias"),
        }
        if self._window:
            found["sliding_window"] = self._window
        if self._has_experts:
            found |= self._experts("num_local_experts", "num_experts_per_tok", "intermediate_size")
        return found

    def _in_layer(self, block: int, name: str, rest: str) -> Placement:
        place = super()._in_layer(block, name, rest)
        if rest.startswith("attn_q."):
            return replace(place, rows=_side_by_side(self._heads, self._head))
        if rest.startswith("attn_k."):
            return replace(place, rows=_side_by_side(self._kept_heads(block), self._head))
        return place

    def _named(self, block: int, rest: str) -> str:
        """Experts by the names of Mixtral; files of 2023 have them one by one."""
        if single := _SINGLE.fullmatch(rest):
            part = _PUBLISHED[single[1]]
            return f"block_sparse_moe.experts.{single[2]}.{part}.{single[3]}"
        base, _, kind = rest.rpartition(".")
        if base in EXPERTS:
            return f"block_sparse_moe.{EXPERTS[base].removeprefix('mlp.')}.{kind}"
        return super()._named(block, rest)


@cache
def _side_by_side(heads: int, head: int) -> tuple[int, ...]:
    """Row s * head / 2 + j of a head is stored as its row 2 j + s."""
    return tuple(
        first + 2 * j + s
        for first in range(0, heads * head, head)
        for s in (0, 1)
        for j in range(head // 2)
    )
