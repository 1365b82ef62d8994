"""Attention to a window and to entries that several layers share (DeepSeek-V4.1).

A layer makes entries of one or two tokens each, and keys that indexers score. Later layers attend
to the same entries, some to those that they select themselves, others to those of the last
selection. One layer also finds blocks of entries within which later indexers select. Entries and
keys are kept by the layer that makes them; layers behind it get them within a pass.
"""

from collections.abc import Sequence

import mlx.core as mx
from typing_extensions import override

from mlx_engine.cache.compressed import CompressedCache
from mlx_engine.cache.contract import LayerCache
from mlx_engine.cache.joint import JointCache
from mlx_engine.models.attention import Masks
from mlx_engine.models.compressed_attention import CompressedAttention, rotated_first
from mlx_engine.models.compressed_specs import SharedEntriesSpec
from mlx_engine.models.indexer import EntryIndexer, VisibleEntries, best_blocks
from mlx_engine.models.layers import Linear, Norm, RotaryEmbedding
from mlx_engine.models.weights import Part
from mlx_engine.values.options import CacheBits


class SharedEntriesAttention(CompressedAttention):
    """Attention of a decoder block to its last tokens and to entries of it or an earlier layer."""

    def __init__(self, spec: SharedEntriesSpec, part: Part, eps: float) -> None:
        super().__init__(spec, part, eps)
        self._shared = spec
        if spec.indexer is not None:
            self._indexer = EntryIndexer(spec.indexer, part.subpart("indexer"), spec.ratio)

    @override
    def _read_sources(self, part: Part) -> dict[str, Sequence[int]]:
        spec = self._spec
        assert isinstance(spec, SharedEntriesSpec)
        self._compressors = []
        if not spec.makes_entries:
            return {}
        assert spec.indexer is not None
        assert spec.indexer.rope is not None
        order = rotated_first(spec.size, spec.rope)
        weight = part.vector("compressor.norm.weight")[mx.array(order)]
        self._entry_norm = Norm.from_weight(weight, part, self._eps)
        self._to_keys = Linear.read(part, "indexer.k_proj")
        self._index_key_norm = Norm.read(part, "indexer.k_norm", self._eps)
        self._rotate_entries = RotaryEmbedding(spec.rope.counting(spec.ratio), part.kernels.stock)
        return dict.fromkeys(spec.sources, order)

    @override
    def make_cache(self, bits: CacheBits = 16) -> LayerCache:
        assert bits == 16
        return CompressedCache(self._spec.kept_rows, self._shared.ratio, self._stock)

    @override
    def mix_tokens(self, x: mx.array, cache: LayerCache | JointCache, masks: Masks) -> mx.array:
        if self._shared.makes_entries:
            masks.entries.clear()
        return super().mix_tokens(x, cache, masks)

    @override
    def _make_entries(self, cache: CompressedCache) -> None:
        spec, numbers = self._shared, cache.entries_to_make
        if not spec.makes_entries:
            return
        rows = cache.rows_to_compress(numbers.start * spec.ratio, numbers.stop * spec.ratio)
        made = rows
        if spec.ratio > 1:
            values, gates = mx.split(rows.reshape(-1, spec.ratio, 2 * spec.size), 2, axis=-1)
            weights = mx.softmax(gates.astype(mx.float32), axis=1)
            made = (values * weights).sum(axis=1).astype(rows.dtype)[None]
        entries = self._entry_norm(made)
        turned, still = mx.split(entries, [spec.rope.width], axis=-1)
        keys = self._index_key_norm(self._to_keys(mx.concatenate([still, turned], axis=-1)))
        still, turned = mx.split(keys, [keys.shape[-1] - spec.rope.width], axis=-1)
        turned = self._rotate_entries(turned[:, None], numbers.start)
        keys = mx.concatenate([turned, still[:, None]], axis=-1)
        cache.write_entries(self._rotate_entries(entries[:, None], numbers.start), keys)

    @override
    def _find_entries(
        self, cache: CompressedCache, masks: Masks, x: mx.array, query_latent: mx.array
    ) -> VisibleEntries:
        spec = self._shared
        if not spec.ratio:
            return VisibleEntries(self._none(x), None)
        if spec.makes_entries:
            entries, *keys = cache.entries(cache.entry_count) or (self._none(x),)
            visible = VisibleEntries(entries, None, keys[0] if keys else None)
        else:
            visible = masks.entries.popleft()
        if self._indexer is not None and visible.keys is not None:
            visible = self._select(visible, cache, x, query_latent)
        masks.entries.append(visible)  # in the sequences' order, as every layer goes through all
        return visible

    def _select(
        self, visible: VisibleEntries, cache: CompressedCache, x: mx.array, query_latent: mx.array
    ) -> VisibleEntries:
        """Select entries by this layer's indexer, and find candidates for later ones."""
        assert self._indexer is not None
        assert visible.keys is not None
        spec, found = self._shared.candidates, list[mx.array]()

        def narrow(scores: mx.array, rows: slice) -> mx.array:
            assert spec is not None
            if spec.is_source:
                found.append(best_blocks(scores, spec.block, spec.most, self._stock))
                return scores
            assert visible.candidates is not None
            kept = mx.repeat(visible.candidates[rows], spec.block, axis=1)
            return mx.where(kept[:, : scores.shape[1]], scores, -mx.inf)

        narrows = spec is not None and (
            visible.keys.shape[2] > spec.most * spec.block
            if spec.is_source
            else visible.candidates is not None
        )
        selected = self._indexer.select_entries(
            x, query_latent, visible.keys, cache.next_row_index(), narrow if narrows else None
        )
        return visible._replace(
            selected=None if selected is None else mx.sort(selected, axis=-1),
            candidates=mx.concatenate(found) if found else visible.candidates,
        )
