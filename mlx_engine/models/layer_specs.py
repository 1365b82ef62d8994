"""Specs of attention layers: sizes, options, tensor shapes and cache sizes.

A spec's `tensors` is the only place where the shapes of its weights are written down. No MLX here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mlx_engine.values.errors import Reason
from mlx_engine.values.memory_plan import WINDOW_SLACK, WINDOW_STEP, CacheBytes
from mlx_engine.values.words import Words

LEAST_GROUP = 32
"""Elements of a packed row that share a scale, at least."""

STATE_BYTES = 4
"""Of an element of a recurrent state, always float32."""


class CacheSize(NamedTuple):
    """Numbers of elements that the caches of one or several layers hold.

    values: keys and values per token; groups: quantisation groups per token in 8 and 4 bits.
    window_values, window_groups: the same for full sliding windows. slack_values: spare rows of
    windows. kept_elements: rows kept by convolutions. state_elements: float32 recurrent states.
    plain_values: elements per token that stay in 16 bits.
    """

    values: int = 0
    groups: int = 0
    window_values: int = 0
    window_groups: int = 0
    slack_values: int = 0
    kept_elements: int = 0
    state_elements: int = 0
    plain_values: int = 0

    def to_cache_bytes(self, element_bytes: int) -> CacheBytes:
        """Convert a cache size from elements to bytes; element_bytes: of a key or value element."""
        states = self.state_elements * STATE_BYTES + self.kept_elements * element_bytes
        windows = (self.window_values, self.window_groups, self.slack_values)
        return CacheBytes(
            element_bytes, self.values, self.groups, *windows, states, self.plain_values
        )


def sum_of_sizes(sizes: Iterable[CacheSize]) -> CacheSize:
    """Add up the cache sizes of several layers."""
    return CacheSize(*map(sum, zip(CacheSize(), *sizes, strict=True)))


def key_value_size(heads: int, key_dim: int, value_dim: int, window: int | None) -> CacheSize:
    """KV cache size of an attention layer with these heads, per token or for a sliding window."""
    sizes = (key_dim, value_dim)
    each = heads * sum(sizes)
    groups = each // (64 if all(size % 64 == 0 for size in sizes) else LEAST_GROUP)
    if window is None:
        return CacheSize(each, groups)
    slack = (WINDOW_STEP + WINDOW_SLACK) * each
    return CacheSize(0, 0, window * each, window * groups, slack)


def why_16bit_cache(*sizes: int) -> Reason | None:
    """Reason why heads of these sizes cannot be cached in 8 or 4 bits; None where they can."""
    odd = next((size for size in sizes if size % LEAST_GROUP), None)
    if odd is None:
        return None
    return Reason(
        "cache-head-size",
        Words(
            "Chat memory stays in 16 bits: this model's numbers come in groups of {odd}, and 8 "
            "or 4 bits need a multiple of {least}.",
            odd=odd,
            least=LEAST_GROUP,
        ),
    )


Shape = tuple[int, ...]
Shapes = dict[str, Shape]


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotary position embedding (arXiv 2104.09864) of the first `width` elements of a head.

    Pair i turns once in 2 pi base^(2 i / width) * factors[i] tokens; factors None means ones.
    magnitude: factor of rotated elements. interleaved: pairs are neighbours, else half a head
    apart. long_factors: used instead of factors, for all tokens, in texts longer than
    `long_rope_after` tokens. axes: which of a picture's positions each pair follows, 0 for time, 1
    for height, 2 for width (M-RoPE); empty for time alone.
    """

    width: int
    base: float
    factors: tuple[float, ...] | None = None
    magnitude: float = 1.0
    interleaved: bool = False
    long_factors: tuple[float, ...] | None = None
    long_rope_after: int = 0
    axes: tuple[int, ...] = ()

    def counting(self, tokens: float) -> "RopeSpec":
        """Rotation by positions that count `tokens` tokens each; -1 rotates back."""
        factors = self.factors or (1.0,) * (self.width // 2)
        return replace(self, factors=tuple(factor / tokens for factor in factors))


@dataclass(frozen=True, slots=True)
class QueryPositionScale:
    """Scaling of queries at position p by 1 + weight * log(1 + p // period) (Llama 4)."""

    weight: float
    period: int


@dataclass(frozen=True, slots=True)
class BlockIndexSpec:
    """Indexer of sparse attention that selects blocks of tokens (Qwen3.8-Flash-Next, QSA).

    A row sees the `most` blocks of `block` tokens each with the highest scores, among those that
    end before it or with it, and all tokens behind them: all tokens while there are no more blocks.
    Scores: sum over heads of relu(query . key), the key being the norm of the mean of the keys of a
    block's tokens, rotated as its first token. size: of a query and a key.
    """

    heads: int
    size: int
    block: int
    most: int

    def tensors(self, hidden: int) -> Shapes:
        """Names and shapes of the weights of a block indexer."""
        return {
            "indexer.index_qk_proj.weight": ((self.heads + 1) * self.size, hidden),
            "indexer.q_layernorm.weight": (self.size,),
            "indexer.k_layernorm.weight": (self.size,),
        }

    @property
    def cached_elements(self) -> int:
        """Elements cached per token: its key, and a share of its block's, which is float32."""
        return self.size + -(-2 * self.size // self.block)


@dataclass(frozen=True, slots=True)
class GroupIndexSpec:
    """Indexer of sparse attention that selects blocks of tokens for each key head (MiniMax-M3).

    A row sees, with the query heads of a key head, the `most` blocks of `block` tokens each whose
    best token scores highest, its own and the blocks before it, `local` in all, being among them:
    all tokens while there are no more blocks. Scores: query . key, with a query for each key head
    and a key for all. size: of a query and a key.
    """

    heads: int
    size: int
    block: int
    most: int
    local: int

    def tensors(self, hidden: int) -> Shapes:
        """Names and shapes of the weights of an indexer with a query for each key head."""
        return {
            "indexer.q_proj.weight": (self.heads * self.size, hidden),
            "indexer.k_proj.weight": (self.size, hidden),
            "indexer.q_norm.weight": (self.size,),
            "indexer.k_norm.weight": (self.size,),
        }

    @property
    def cached_elements(self) -> int:
        """Elements cached per token: its key."""
        return self.size


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Grouped-query attention (arXiv 2305.13245) with the options of all families.

    scale: of scores; None for key_dim^-0.5. cap: scores s become cap * tanh(s / cap); 0 for none.
    value_scale: factor of values. rope: None for none. window: tokens a row sees, including itself;
    None for all. qk_norm: RMS norm of queries and keys per head, over all heads ("whole"), or a
    layer norm of each head without bias ("heads"). growth: scaling of queries by position. gate:
    sigmoid gate of the result, per element (rows of q_proj behind each head's query) or per head
    (g_proj). sinks: a logit per head that takes part in the softmax without a value (arXiv
    2309.17453). qkv_blocks: blocks of a fused qkv matrix, each with a share of the heads. values:
    projected, or the projected keys before their norm. value_norm: RMS norm of each head's values,
    without weights. kv_layer: earlier layer whose keys and values are used; None for own ones.
    index: selects the tokens that a row attends to; None for all. whole_pictures: rows of a picture
    attend to later rows of the same picture, too.
    """

    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    rope: RopeSpec | None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: Literal["none", "head", "heads", "whole"] = "none"
    gate: Literal["none", "element", "head"] = "none"
    sinks: bool = False
    window: int | None = None
    scale: float | None = None
    cap: float = 0.0
    growth: QueryPositionScale | None = None
    value_scale: float = 1.0
    qkv_blocks: int = 1
    values: Literal["projected", "keys"] = "projected"
    value_norm: bool = False
    kv_layer: int | None = None
    index: BlockIndexSpec | GroupIndexSpec | None = None
    whole_pictures: bool = False

    prefix = "self_attn"

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of an attention layer."""
        del has_split_kv_b
        queries = self.heads * self.key_dim
        rows = {"q": queries * (2 if self.gate == "element" else 1)}
        if self.kv_layer is None:
            rows["k"] = self.kv_heads * self.key_dim
        if self.kv_layer is None and self.values == "projected":
            rows["v"] = self.kv_heads * self.value_dim
        made: Shapes = {f"{part}_proj.weight": (count, hidden) for part, count in rows.items()}
        made["o_proj.weight"] = (hidden, self.heads * self.value_dim)
        if self.qkv_bias:
            made |= {f"{part}_proj.bias": (count,) for part, count in rows.items()}
        if self.out_bias:
            made["o_proj.bias"] = (hidden,)
        if self.qk_norm == "head":
            normed = ("q",) if self.kv_layer is not None else ("q", "k")
            made |= {f"{part}_norm.weight": (self.key_dim,) for part in normed}
        if self.qk_norm == "heads":
            counts = {"q": self.heads, "k": self.kv_heads}
            made |= {f"{part}_norm.weight": (n, self.key_dim) for part, n in counts.items()}
        if self.qk_norm == "whole":
            made |= {"q_norm.weight": (queries,), "k_norm.weight": (rows["k"],)}
        if self.gate == "head":
            made["g_proj.weight"] = (self.heads, hidden)
        if self.sinks:
            made["sinks"] = (self.heads,)
        if self.index is not None:
            made |= self.index.tensors(hidden)
        return made

    @property
    def cache(self) -> CacheSize:
        """Size of an attention layer's KV cache; empty where it uses an earlier layer's."""
        if self.kv_layer is not None:
            return CacheSize()
        size = key_value_size(self.kv_heads, self.key_dim, self.value_dim, self.window)
        return (
            size if self.index is None else size._replace(plain_values=self.index.cached_elements)
        )

    @property
    def packed_cache(self) -> Reason | None:
        """Reason why the layer's KV cache stays in 16 bits; None where 8 and 4 bits work too."""
        return why_16bit_cache(self.key_dim, self.value_dim)


@dataclass(frozen=True, slots=True)
class QueryLogScale:
    """Scaling of the scores of row p by 1 + weight * log(max(1, (p + 1) / floor)) (Inkling)."""

    weight: float
    floor: int


@dataclass(frozen=True, slots=True)
class RelativeAttentionSpec:
    """Attention without RoPE, whose scores have a bias by distance that each row makes (Inkling).

    A row projects `bias_size` elements for each head, which weigh as many profiles of biases over
    the distances 0 to extent - 1; beyond there is none. size: of queries, keys and values, which
    are RMS-normed but for values; scores are divided by it. window: as of AttentionSpec.
    """

    heads: int
    kv_heads: int
    size: int
    bias_size: int
    extent: int
    window: int | None = None
    growth: QueryLogScale | None = None

    prefix = "self_attn"
    rope = None

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of an attention layer with biases by distance."""
        del has_split_kv_b
        queries, keys = self.heads * self.size, self.kv_heads * self.size
        rows = {"q": queries, "k": keys, "v": keys, "r": self.heads * self.bias_size}
        return {
            **{f"{part}_proj.weight": (count, hidden) for part, count in rows.items()},
            "o_proj.weight": (hidden, queries),
            "q_norm.weight": (self.size,),
            "k_norm.weight": (self.size,),
            "rel_logits_proj.proj": (self.bias_size, self.extent),
        }

    @property
    def cache(self) -> CacheSize:
        """Size of the layer's KV cache."""
        return key_value_size(self.kv_heads, self.size, self.size, self.window)

    @property
    def packed_cache(self) -> Reason | None:
        """Reason why the layer's KV cache stays in 16 bits; None where 8 and 4 bits work too."""
        return why_16bit_cache(self.size)


@dataclass(frozen=True, slots=True)
class IndexerSpec:
    """Lightning indexer (arXiv 2512.02556), which selects the tokens that a row attends to.

    A row sees all tokens up to itself while there are at most `most`, then the `most` with the
    highest scores: sum over heads of weight * relu(query . key), keys being shared by all heads.
    size: of its queries and keys, of which the first or last rope.width elements are rotated; rope:
    None for none. eps: of the layer norm of keys. is_shared: the layer uses the selection of the
    closest earlier layer that has an indexer (arXiv 2603.12201). pool: tokens of the pools that are
    selected, `most` of them, among those that end before a row or with it; it sees all tokens
    behind them, too (GLM-5.3-Flash). 0: single tokens are selected.
    """

    heads: int
    size: int
    most: int
    rope: RopeSpec | None
    eps: float = 1e-6
    rotates_end: bool = False
    is_shared: bool = False
    pool: int = 0

    def tensors(self, hidden: int, q_rank: int) -> Shapes:
        """Names and shapes of the weights of an indexer; q_rank: size of the query latent."""
        if self.is_shared:
            return {}
        made: Shapes = {
            "indexer.pool_gate.weight": (self.size, hidden),
            "indexer.pool_places": (self.pool, self.size),
        }
        return (made if self.pool else {}) | {
            "indexer.wq_b.weight": (self.heads * self.size, q_rank),
            "indexer.wk.weight": (self.size, hidden),
            "indexer.k_norm.weight": (self.size,),
            "indexer.k_norm.bias": (self.size,),
            "indexer.weights_proj.weight": (self.heads, hidden),
        }

    @property
    def key_size(self) -> int:
        """Elements that an indexer caches per token: a key, and with pools its gate and a share."""
        if self.is_shared or not self.pool:
            return 0 if self.is_shared else self.size
        return 2 * self.size + -(-self.size // self.pool)


@dataclass(frozen=True, slots=True)
class LatentAttentionSpec:
    """Multi-head latent attention (arXiv 2405.04434), which caches one small latent per token.

    A head's key consists of `nope` elements unpacked from the latent and `rope.width` rotated
    elements shared by all heads; rope: None for none, in whose place zeros are cached. q_rank: size
    of the query latent; None where queries are projected directly. eps: of the latents' norms.
    latent_scale: factor of normed latents, those of queries aside. bias: of the latent projections
    and the output. indexer: selects the tokens that a row attends to; None for all. gate: sigmoid
    gate of the result, per element or per head (g_proj). sinks: as of AttentionSpec.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    value_dim: int
    rope: RopeSpec | None
    scale: float
    eps: float
    latent_scale: float = 1.0
    bias: bool = False
    indexer: IndexerSpec | None = None
    gate: Literal["none", "element", "head"] = "none"
    sinks: bool = False

    prefix = "self_attn"

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes of the weights of a latent attention layer.

        has_split_kv_b: the matrix that unpacks latents, published as kv_b_proj [heads * (nope +
        value), rank], is stored as MLX's conversions have it: embed_q [heads, rank, nope] and
        unembed_out [heads, value, rank].
        """
        rank, rotated = self.kv_rank, 0 if self.rope is None else self.rope.width
        queries = self.heads * (self.nope + rotated)
        made: Shapes = {
            "kv_a_proj_with_mqa.weight": (rank + rotated, hidden),
            "kv_a_layernorm.weight": (rank,),
            "o_proj.weight": (hidden, self.heads * self.value_dim),
        }
        if self.q_rank is None:
            made["q_proj.weight"] = (queries, hidden)
        else:
            made |= {
                "q_a_proj.weight": (self.q_rank, hidden),
                "q_a_layernorm.weight": (self.q_rank,),
                "q_b_proj.weight": (queries, self.q_rank),
            }
        if has_split_kv_b:
            made["embed_q.weight"] = (self.heads, rank, self.nope)
            made["unembed_out.weight"] = (self.heads, self.value_dim, rank)
        else:
            made["kv_b_proj.weight"] = (self.heads * (self.nope + self.value_dim), rank)
        if self.bias:
            made |= {"kv_a_proj_with_mqa.bias": (rank + rotated,), "o_proj.bias": (hidden,)}
            made |= {} if self.q_rank is None else {"q_a_proj.bias": (self.q_rank,)}
        if self.indexer is not None and self.q_rank is not None:
            made |= self.indexer.tensors(hidden, self.q_rank)
        if self.gate != "none":
            rows = self.heads * (self.value_dim if self.gate == "element" else 1)
            made["g_proj.weight"] = (rows, hidden)
        if self.sinks:
            made["sinks"] = (self.heads,)
        return made

    @property
    def key_width(self) -> int:
        """Elements cached beside a latent: rotated ones, or zeros, for kernels and packed rows."""
        return LEAST_GROUP if self.rope is None else self.rope.width

    @property
    def cache(self) -> CacheSize:
        """Cache size of a latent attention layer: a latent, a rotated and an index key per token.

        Index keys stay in 16 bits, for they alone decide what a row attends to.
        """
        plain = 0 if self.indexer is None else self.indexer.key_size
        size = key_value_size(1, self.kv_rank, self.key_width, None)
        return size._replace(plain_values=plain)

    @property
    def packed_cache(self) -> Reason | None:
        """Reason why a latent cache stays in 16 bits; None where 8 and 4 bits work too."""
        return why_16bit_cache(self.kv_rank, self.key_width)


def shapes_under(shapes: Mapping[str, Shape], prefix: str) -> Shapes:
    """Select the shapes of weights whose names start with a prefix, by names without it."""
    return {
        name.removeprefix(prefix): shape
        for name, shape in shapes.items()
        if name.startswith(prefix)
    }
