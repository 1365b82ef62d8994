"""Keys and values of an attention layer of mlx-lm's: our cache under that library's names."""

import mlx.core as mx

from mlx_engine.cache.attention_cache import AttentionCache, KeysValues
from mlx_engine.cache.masks import Mask, causal_mask


class FullCache(AttentionCache):
    """What `mlx_lm.models.cache.KVCache` is to a model file, with prefixes of a block kept.

    Multi-head latent attention stores its latent as keys and its rotated part as values, which
    may differ in size.
    """

    @property
    def offset(self) -> int:
        """Position of the next row: committed ones and those of the block."""
        return self._length + self._block

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> KeysValues:
        """Append a block [1, heads, rows, size]; everything so far."""
        return self.write(keys, values)

    def shown(self) -> KeysValues:
        """Keys and values of all committed tokens, of which there is one at least."""
        assert self._buffers is not None
        return KeysValues(*(buffer[:, :, : self._length] for buffer in self._buffers))

    def make_mask(
        self,
        N: int,  # noqa: N803
        return_array: bool = False,
        window_size: int | None = None,
    ) -> Mask:
        """Who sees whom in a block of N rows about to be written; N is mlx-lm's name for it."""
        if window_size is None and (N == 1 or not return_array):
            return None if N == 1 else "causal"
        return causal_mask(self.offset, N, 0, window_size)
