"""Specs of attention to a window and to compressed entries (DeepSeek-V4, V4.1). No MLX here."""

from dataclasses import dataclass, replace

from mlx_engine.models.layer_specs import CacheSize, IndexerSpec, RopeSpec, Shapes
from mlx_engine.values.errors import Reason
from mlx_engine.values.memory_plan import WINDOW_SLACK, WINDOW_STEP
from mlx_engine.values.words import Words


@dataclass(frozen=True, slots=True)
class CompressorSpec:
    """Compressor: makes one entry of every `ratio` tokens, a mean weighted by a softmax of gates.

    size: of an entry, whose last rope.width elements are rotated as those of its first token.
    overlaps: an entry is made of its own tokens and of those of the entry before, by separate rows.
    """

    ratio: int
    size: int
    rope: RopeSpec
    overlaps: bool = False

    @property
    def side_size(self) -> int:
        """Number of a token's values, and of the gates that weigh them."""
        return self.size * (2 if self.overlaps else 1)

    def tensors(self, hidden: int) -> Shapes:
        """Names and shapes of the weights of a compressor."""
        return {
            "kv_proj.weight": (self.side_size, hidden),
            "gate_proj.weight": (self.side_size, hidden),
            "position_bias": (self.ratio, self.side_size),
            "norm.weight": (self.size,),
        }


@dataclass(frozen=True, slots=True)
class CompressedAttentionSpec:
    """Attention to the last `window` tokens and to compressed entries of all tokens before.

    One key, which is the value too, for all heads; its last rope.width elements are rotated, and
    rotated back in the result. q_rank: size of the query latent. groups, out_rank: groups of heads
    whose results a matrix each projects to out_rank elements. compressor: None for the window
    alone. indexer: selects the entries that a row attends to; None for all of them.
    sees_whole_block: rows of a block attend to later rows of it, too (drafters of a block).
    norms_queries: queries of each head are RMS-normed.
    """

    heads: int
    size: int
    q_rank: int
    rope: RopeSpec
    window: int
    groups: int
    out_rank: int
    compressor: CompressorSpec | None = None
    indexer: IndexerSpec | None = None
    sees_whole_block: bool = False
    norms_queries: bool = True

    prefix = "self_attn"

    @property
    def compressors(self) -> dict[str, CompressorSpec]:
        """Compressors by name: of the attention's entries and of the indexer's keys."""
        if self.compressor is None:
            return {}
        if self.indexer is None:
            return {"compressor": self.compressor}
        keys = replace(self.compressor, size=self.indexer.size)
        return {"compressor": self.compressor, "indexer.compressor": keys}

    @property
    def kept_rows(self) -> int:
        """Number of last tokens whose rows are kept, for the window and for incomplete entries."""
        spans = [each.ratio * (2 if each.overlaps else 1) for each in self.compressors.values()]
        return max(self.window, *spans, 1)

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of an attention layer with compressed entries."""
        del has_split_kv_b
        made: Shapes = {
            "q_a_proj.weight": (self.q_rank, hidden),
            "q_a_layernorm.weight": (self.q_rank,),
            "q_b_proj.weight": (self.heads * self.size, self.q_rank),
            "kv_proj.weight": (self.size, hidden),
            "kv_norm.weight": (self.size,),
            "o_a_proj.weight": (
                self.groups * self.out_rank,
                self.heads * self.size // self.groups,
            ),
            "o_proj.weight": (hidden, self.groups * self.out_rank),
            "sinks": (self.heads,),
        }
        for name, compressor in self.compressors.items():
            made |= {f"{name}.{part}": shape for part, shape in compressor.tensors(hidden).items()}
        if self.indexer is not None:
            names = ("indexer.wq_b.weight", "indexer.weights_proj.weight")
            every = self.indexer.tensors(hidden, self.q_rank)
            made |= {name: every[name] for name in names}
        return made

    @property
    def cache(self) -> CacheSize:
        """Cache size: rows of the last tokens, and an entry of each compressor for `ratio` tokens.

        All stay in 16 bits.
        """
        sources = sum(2 * each.side_size for each in self.compressors.values())
        row = self.size + sources
        entries = sum(-(-each.size // each.ratio) for each in self.compressors.values())
        slack = (WINDOW_STEP + WINDOW_SLACK) * row
        return CacheSize(
            window_values=self.kept_rows * row, slack_values=slack, plain_values=entries
        )

    @property
    def packed_cache(self) -> Reason | None:
        """Reason why the cache stays in 16 bits: it is small, and each entry counts for many."""
        return Reason(
            "cache-compressed",
            Words(
                "Chat memory stays in 16 bits: this model already keeps one entry for several "
                "tokens."
            ),
        )


@dataclass(frozen=True, slots=True)
class CandidatesSpec:
    """Blocks of `block` entries, of which a layer finds the best `most` for later indexers.

    is_source: the layer finds them, by its indexer's scores; otherwise its own selects within them.
    """

    most: int
    block: int
    is_source: bool


@dataclass(frozen=True, slots=True)
class SharedEntriesSpec(CompressedAttentionSpec):
    """Attention to a window and to entries that several layers share (DeepSeek-V4.1).

    ratio: tokens of an entry, 0 for the window alone. makes_entries: the layer makes entries and
    the keys that indexers score; later ones read them, until another makes new ones. indexer: of a
    layer that selects entries; others use the last selection. candidates: None where an indexer
    selects among all entries.
    """

    ratio: int = 0
    makes_entries: bool = False
    candidates: CandidatesSpec | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of what projects a token to the rows that its entry is made of."""
        if not self.makes_entries:
            return ()
        names = ("compressor.kv_proj", "compressor.gate_proj")
        return names if self.ratio > 1 else names[:1]

    @property
    def kept_rows(self) -> int:
        """Last tokens of which rows are kept: the window, and those that open entries need."""
        return max(self.window, self.ratio if self.makes_entries else 0, 1)

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of an attention layer with shared entries."""
        indexer, q_rank = self.indexer, self.q_rank
        plain = replace(self, indexer=None)
        made = CompressedAttentionSpec.tensors(plain, hidden, has_split_kv_b=has_split_kv_b)
        made |= {f"{name}.weight": (self.size, hidden) for name in self.sources}
        if self.makes_entries:
            made["compressor.norm.weight"] = (self.size,)
        if indexer is not None:
            every = indexer.tensors(hidden, q_rank)
            names = ("indexer.wq_b.weight", "indexer.weights_proj.weight")
            made |= {name: every[name] for name in names}
            if self.makes_entries:
                made["indexer.k_proj.weight"] = (indexer.size, self.size)
                made["indexer.k_norm.weight"] = (indexer.size,)
        return made

    @property
    def cache(self) -> CacheSize:
        """Cache size, as of CompressedAttentionSpec; entries count where they are made."""
        row, entries = self.size * (1 + len(self.sources)), 0
        if self.makes_entries and self.indexer is not None:
            entries = -(-(self.size + self.indexer.size) // self.ratio)
        slack = (WINDOW_STEP + WINDOW_SLACK) * row
        return CacheSize(
            window_values=self.kept_rows * row, slack_values=slack, plain_values=entries
        )
