"""Specs of a model's layers: one frozen dataclass of sizes and options for each kind.

`tensors` names what a part reads within its own prefix, the only place where the shape of a weight
is written down. No MLX here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mlx_engine.values.errors import Reason
from mlx_engine.values.memory_plan import WINDOW_SLACK, WINDOW_STEP, CacheBytes
from mlx_engine.values.words import Words

LEAST_GROUP = 32
"""Elements of a packed row that share a scale, at least."""

STATE_BYTES = 4
"""Of an element of a recurrent state, always float32."""


class CacheSize(NamedTuple):
    """Numbers of elements that caches hold.

    values: of keys and values, for each token; groups: those of them that share a scale in 8 and 4
    bits. window_values, window_groups: the same of windows that are full. slack_values: of the rows
    that windows have beside those in view. kept_elements: of the rows that convolutions keep,
    stored in the same type. state_elements: of recurrent states, float32.
    """

    values: int = 0
    groups: int = 0
    window_values: int = 0
    window_groups: int = 0
    slack_values: int = 0
    kept_elements: int = 0
    state_elements: int = 0

    def in_bytes(self, element_bytes: int) -> CacheBytes:
        """The same size in bytes, for elements of keys and values of `item` bytes."""
        states = self.state_elements * STATE_BYTES + self.kept_elements * element_bytes
        windows = (self.window_values, self.window_groups, self.slack_values)
        return CacheBytes(element_bytes, self.values, self.groups, *windows, states)


def sum_of_sizes(sizes: Iterable[CacheSize]) -> CacheSize:
    """The sum of cache sizes."""
    return CacheSize(*map(sum, zip(CacheSize(), *sizes, strict=True)))


def key_value_size(heads: int, key_dim: int, value_dim: int, window: int | None) -> CacheSize:
    """Size of a layer's keys and values, for all tokens or for a window."""
    sizes = (key_dim, value_dim)
    each = heads * sum(sizes)
    groups = each // (64 if all(size % 64 == 0 for size in sizes) else LEAST_GROUP)
    if window is None:
        return CacheSize(each, groups)
    slack = (WINDOW_STEP + WINDOW_SLACK) * each
    return CacheSize(0, 0, window * each, window * groups, slack)


def why_not_packed(*sizes: int) -> Reason | None:
    """Why keys or values of heads of these sizes cannot be kept in 8 or 4 bits."""
    odd = next((size for size in sizes if size % LEAST_GROUP), None)
    if odd is None:
        return None
    return Reason(
        "cache-head-size",
        Words(
            "Keys and values stay in 16 bits: the head size {odd} is not a multiple of "
            "{least}, the group size of 8 and 4 bits.",
            odd=odd,
            least=LEAST_GROUP,
        ),
    )


Shape = tuple[int, ...]
Shapes = dict[str, Shape]
Activation = Literal[
    "silu", "gelu", "gelu_tanh", "gelu_sigmoid", "relu", "relu2", "sigmoid", "tanh", "linear", "oai"
]


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Rotation by position (arXiv 2104.09864) of the first `width` elements of a head.

    Pair i turns once in 2 pi base^(2 i / width) * factors[i] tokens; factors None means ones.
    magnitude: what rotated elements are multiplied by. interleaved: pairs lie side by side, else
    halves apart. long_factors: those of a text of more than `long_rope_after` tokens, for all of them.
    """

    width: int
    base: float
    factors: tuple[float, ...] | None = None
    magnitude: float = 1.0
    interleaved: bool = False
    long_factors: tuple[float, ...] | None = None
    long_rope_after: int = 0


@dataclass(frozen=True, slots=True)
class QueryGrowth:
    """Queries at position p are multiplied by 1 + weight * log(1 + p // period) (Llama 4)."""

    weight: float
    period: int


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """Grouped-query attention (arXiv 2305.13245) with every option that families use.

    scale: of scores; None for key_dim^-0.5. cap: scores s become cap * tanh(s / cap); 0 for none.
    value_scale: of values. rope: None for none. window: tokens a row sees, its own included; None
    for all. qk_norm: of queries and keys, head by head or over all heads at once; "heads": a layer
    norm of each head, without bias. growth: of queries by position. gate: sigmoid that the result
    is multiplied by: for each element (rows of q_proj, behind each head's query) or for each head
    (g_proj). sinks: a logit for each head that takes a share of the softmax and gives nothing
    (arXiv 2309.17453). qkv_blocks: where files join the projections of all three, in how many
    blocks, each with a share of the heads. values: projected, or the projected keys before their
    norm. value_norm: an RMS norm of each head's values, without weights. kv_layer: the number of
    the earlier layer whose keys and values it attends to; None where it has its own.
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
    growth: QueryGrowth | None = None
    value_scale: float = 1.0
    qkv_blocks: int = 1
    values: Literal["projected", "keys"] = "projected"
    value_norm: bool = False
    kv_layer: int | None = None

    prefix = "self_attn"

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Tensor names and shapes."""
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
        return made

    @property
    def cache(self) -> CacheSize:
        """Cache size of keys and values; nothing for those of an earlier layer."""
        if self.kv_layer is not None:
            return CacheSize()
        return key_value_size(self.kv_heads, self.key_dim, self.value_dim, self.window)

    @property
    def packed_cache(self) -> Reason | None:
        """Why keys and values are kept in 16 bits only; None: in any number."""
        return why_not_packed(self.key_dim, self.value_dim)


@dataclass(frozen=True, slots=True)
class LatentAttentionSpec:
    """Multi-head latent attention (arXiv 2405.04434): keys and values come of one small latent.

    A head's key is `nope` elements made of the latent and `rope.width` rotated ones that all heads
    share. q_rank: None where queries come straight from the hidden state. eps: of the norms of both
    latents. bias: of what makes the latents and of the output.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    value_dim: int
    rope: RopeSpec
    scale: float
    eps: float
    bias: bool = False

    prefix = "self_attn"

    def tensors(self, hidden: int, *, has_split_kv_b: bool = False) -> Shapes:
        """Names and shapes; in_halves: how the matrix that unpacks latents is stored.

        kv_b_proj [heads * (nope + value), rank] is how it is published; MLX's conversions have the
        keys' half transposed, embed_q [heads, rank, nope], and unembed_out [heads, value, rank].
        """
        rank, rotated = self.kv_rank, self.rope.width
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
        return made

    @property
    def cache(self) -> CacheSize:
        """Cache size: one latent and one rotated key for all heads."""
        return key_value_size(1, self.kv_rank, self.rope.width, None)

    @property
    def packed_cache(self) -> Reason | None:
        """Why keys and values are kept in 16 bits only; None: in any number."""
        return why_not_packed(self.kv_rank, self.rope.width)


@dataclass(frozen=True, slots=True)
class FeedForwardSpec:
    """down(f(gate(x), up(x))) (arXiv 2002.05202); down(act(up(x))) where it is not gated.

    f is act(gate) * up, clipped where there is a limit L > 0: min(silu(gate), L) * clip(up, -L, L);
    "oai" (gpt-oss) is (up + 1) * g * sigmoid(1.702 g) with g = min(gate, L) and up clipped.
    """

    inner: int
    activation: Activation = "silu"
    limit: float = 0.0
    bias: bool = False
    gated: bool = True

    prefix = "mlp"

    def tensors(self, hidden: int) -> Shapes:
        """Tensor names and shapes."""
        rows = {"gate": self.inner} if self.gated else {}
        rows |= {"up": self.inner, "down": hidden}
        inputs = {"gate": hidden, "up": hidden, "down": self.inner}
        made: Shapes = {
            f"{part}_proj.weight": (count, inputs[part]) for part, count in rows.items()
        }
        if self.bias:
            made |= {f"{part}_proj.bias": (count,) for part, count in rows.items()}
        return made


@dataclass(frozen=True, slots=True)
class ExpertsSpec:
    """Each token goes through `per_token` of `count` experts, and through one that all share.

    The router's scores are a softmax over all experts or a sigmoid of each, in float32. The choice
    falls on the highest of score + choice bias (if any), within the `kept_groups` groups of equal
    size whose `best_of_group` best add up to most. Weights are the scores of those chosen: where
    `normalise`, divided by their sum (or by least_sum, if that is more); times `scale`.
    router_bias: of the product itself. float32_router: whether that product is one of float32.
    router_norm: the router reads rows that are RMS normed with weights over sqrt(hidden), and the
    weights of those chosen are multiplied by a number of each expert (Gemma 4). shared: None for
    none; shared_gate: whether it is multiplied by a sigmoid of its own.
    """

    count: int
    per_token: int
    feed: FeedForwardSpec
    score: Literal["softmax", "sigmoid"] = "softmax"
    choice_bias: bool = False
    router_bias: bool = False
    float32_router: bool = False
    router_norm: bool = False
    groups: int = 1
    kept_groups: int = 1
    best_of_group: int = 2
    normalise: bool = True
    least_sum: float = 0.0
    scale: float = 1.0
    shared: FeedForwardSpec | None = None
    shared_gate: bool = False

    prefix = "mlp"

    @property
    def is_softmax_over_selected(self) -> bool:
        """Whether choice and weights follow from the products of those chosen alone.

        A softmax keeps their order, and divided by the sum of those chosen it is one over these.
        """
        is_plain = not self.choice_bias and self.groups == self.kept_groups
        return self.score == "softmax" and self.normalise and is_plain and not self.least_sum

    def tensors(self, hidden: int) -> Shapes:
        """Names and shapes; the experts' matrices are stacks."""
        made: Shapes = {"gate.weight": (self.count, hidden)}
        if self.router_bias:
            made["gate.bias"] = (self.count,)
        if self.choice_bias:
            made["gate.e_score_correction_bias"] = (self.count,)
        if self.router_norm:
            made |= {"router_norm.weight": (hidden,), "expert_scale": (self.count,)}
        stacks = self.feed.tensors(hidden)
        made |= {f"switch_mlp.{name}": (self.count, *shape) for name, shape in stacks.items()}
        if self.shared is not None:
            its = self.shared.tensors(hidden)
            made |= {f"shared_expert.{name}": shape for name, shape in its.items()}
        if self.shared_gate:
            made["shared_expert_gate.weight"] = (1, hidden)
        return made


def shapes_below(shapes: Mapping[str, Shape], prefix: str) -> Shapes:
    """Shapes of the tensors below a name, without that name."""
    return {
        name.removeprefix(prefix): shape
        for name, shape in shapes.items()
        if name.startswith(prefix)
    }
