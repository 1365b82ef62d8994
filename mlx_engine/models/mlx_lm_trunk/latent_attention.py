"""Multi-head latent attention (arXiv 2405.04434) computed alike for one row and for several.

mlx-lm's classes multiply a single row with the latents themselves ("absorbed") and unpack keys and
values from the latents for more rows; the two differ in rounding, so a row's logits would tell
whether it was drafted. Here blocks are absorbed up to ABSORBED_ROWS, which is also where unpacking
begins to cost less.
"""

from typing import Protocol

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.attention import KeysValues

LATENT = ("deepseek_v3", "glm4_moe_lite")
"""Types whose layers attend this way."""

ABSORBED_ROWS = 128
"""Of DeepSeek-V3's sizes absorbing is cheaper up to 170 rows, whatever the length before them."""


class LatentCache(Protocol):
    """Latents in the place of keys, rotated keys in that of values."""

    @property
    def offset(self) -> int:
        """Position of the next row."""

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append a block; everything so far."""


class LatentAttention(Module):
    """In the place of the attention of an mlx-lm class, with its weights."""

    def __init__(self, library: Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.library = library

    def __call__(self, x: mx.array, mask: mx.array | None, cache: LatentCache) -> mx.array:
        """[1, T, H] -> [1, T, H]; mask: bool [T, all rows], None for one row."""
        parts = self.library
        rank, offset, rows = parts.kv_lora_rank, cache.offset, x.shape[1]
        straight, rotated = mx.split(self._queries(x), [parts.qk_nope_head_dim], axis=-1)
        latent, key = mx.split(parts.kv_a_proj_with_mqa(x)[:, None], [rank], axis=-1)
        latents, keys = cache.update_and_fetch(
            parts.kv_a_layernorm(latent), parts.rope(key, offset)
        )
        scores = (parts.rope(rotated, offset) * parts.scale) @ keys.swapaxes(-1, -2)
        if mask is not None:
            scores = mx.where(mask, scores, mx.finfo(scores.dtype).min)
        if rows <= ABSORBED_ROWS:
            seen = self._attend(parts.embed_q(straight), latents, latents, scores)
            heads = parts.unembed_out(seen)
        else:
            unpacked = parts.embed_q(latents, transpose=False)
            heads = self._attend(straight, unpacked, parts.unembed_out(latents), scores)
        output: mx.array = parts.o_proj(heads.swapaxes(1, 2).reshape(1, rows, -1))
        return output

    def _queries(self, x: mx.array) -> mx.array:
        """[1, T, H] -> [1, heads, T, size]."""
        parts = self.library
        if "q_proj" in parts:
            queries = parts.q_proj(x)
        else:
            queries = parts.q_b_proj(parts.q_a_layernorm(parts.q_a_proj(x)))
        made: mx.array = queries.reshape(1, x.shape[1], parts.num_heads, -1).swapaxes(1, 2)
        return made

    def _attend(
        self, queries: mx.array, keys: mx.array, values: mx.array, added: mx.array
    ) -> mx.array:
        """Softmax of scores and `added`, over values."""
        return mx.fast.scaled_dot_product_attention(
            queries, keys, values, scale=self.library.scale, mask=added
        )


def attend_by_rows(model_type: str, model: Module) -> None:
    """Give every layer of a built model of a LATENT type this attention; others stay."""
    if model_type in LATENT:
        for layer in model["model"]["layers"]:
            layer.self_attn = LatentAttention(layer["self_attn"])
