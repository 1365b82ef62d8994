"""ModelSpec: sizes and options of a whole model, as frozen dataclasses.

A family turns a config into a ModelSpec, from which tensor shapes, cache sizes and layers follow.
No MLX here, so that files can be described without it.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mlx_engine.models.compressed_specs import CompressedAttentionSpec
from mlx_engine.models.feed_forward_specs import ExpertsSpec, FeedForwardSpec
from mlx_engine.models.layer_specs import (
    AttentionSpec,
    CacheSize,
    LatentAttentionSpec,
    RelativeAttentionSpec,
    Shapes,
    sum_of_sizes,
)
from mlx_engine.models.ngram_spec import AnyNgramSpec
from mlx_engine.models.recurrent_specs import RecurrentSpec, ResidualConvolutionSpec
from mlx_engine.values.errors import Reason
from mlx_engine.values.memory_plan import WorkSize

MixerSpec = (
    AttentionSpec
    | LatentAttentionSpec
    | CompressedAttentionSpec
    | RelativeAttentionSpec
    | RecurrentSpec
)

State = Literal["normed", "residual"]
"""A hidden state after or before the norm that ends trunk or head."""


CONNECTIONS = ("attn_hyper_connection", "mlp_hyper_connection")
"""Names of the hyper-connections of a block's mixer and feed-forward."""

_LAST_CONNECTION = "hyper_connection_mixer"


@dataclass(frozen=True, slots=True)
class StreamsSpec:
    """Residual streams with hyper-connections (arXiv 2409.19606) in place of norms.

    count: of the streams. rank: of the product that makes the weights of a mix.
    """

    count: int
    rank: int

    @property
    def vectors(self) -> int:
        """Vectors of hidden size in a state."""
        return self.count

    def tensors(self, hidden: int, *, has_gains: bool) -> Shapes:
        """Names and shapes of the weights of one hyper-connection.

        has_gains: something is added to the streams by it.
        """
        width = self.count * hidden
        made: Shapes = {
            "hc_norm.weight": (width,),
            "input_mix_weight_down.weight": (self.rank, width),
            "input_mix_weight_up.weight": (width, self.rank),
        }
        return made | ({"block_inject_weight.weight": (self.count, width)} if has_gains else {})


MOST_STREAMS = 8
"""Of a WholeStreamsSpec: all are inputs of one launch, as their weights are."""


@dataclass(frozen=True, slots=True)
class WholeStreamsSpec:
    """Residual streams whose hyper-connections weigh each stream as a whole, before a norm.

    count: of the streams. magnitude: of gains, at most. eps: added to weights; to gains as well
    where streams stay by themselves (Hy4). exchange_steps: of Sinkhorn's method, which makes the
    matrix that mixes streams with one another (mHC, arXiv 2512.24880); 0 for none. ends: the trunk,
    in a weighted sum of the streams or in their mean. staggered: a connection weighs the streams
    for the one behind it, whose mix stands behind the streams, as one more (DeepSeek-V4.1).
    """

    count: int
    magnitude: float
    eps: float
    exchange_steps: int = 0
    ends: Literal["weighted", "mean"] = "weighted"
    staggered: bool = False

    @property
    def vectors(self) -> int:
        """Vectors of hidden size in a state: the streams, and a mix of them."""
        return self.count + self.staggered

    def tensors(self, hidden: int, *, has_gains: bool) -> Shapes:
        """Names and shapes of the weights of one hyper-connection, as of StreamsSpec."""
        made: Shapes = {"norm.weight": (hidden,)}
        if not has_gains and (self.ends == "mean" or self.staggered):
            return made
        kinds = 2 if has_gains else 1
        exchanges = has_gains and self.exchange_steps > 0
        rows = self.count * (kinds + (self.count if exchanges else 0))
        return made | {
            "mix.weight": (rows, self.count * hidden),
            "base": (rows,),
            "scale": (kinds + exchanges,),
        }


AnyStreams = StreamsSpec | WholeStreamsSpec


@dataclass(frozen=True, slots=True)
class BlockSpec:
    """A decoder block: a sequence mixer and a feed-forward, each added to the residual.

    Either may be absent; then norms is "shared".

    norms: before each, after each (before it is added), or both; "parallel": before each, both
    reading the block's input; "shared": parallel with a single norm. residual_scale: factor of each
    addend. second_mixer: has the same input, and is added too. experts: routed experts in parallel
    to a dense feed-forward, with their own norms. per_layer_width: size of this layer's per-layer
    input vectors, 0 for none. scaled: the block's output is multiplied by a stored number. streams:
    hyper-connections in place of norms. ngrams: embeddings of n-grams added to the streams before.
    halves: decoder blocks in place of mixer and norms; feed then reads what the feed-forward of the
    first reads, and is added behind the last (shortcut-connected experts, arXiv 2404.05019).
    convolutions: of keys and values, of the mixer's output and of the feed-forward's (Inkling).
    """

    mixer: MixerSpec | None
    feed: FeedForwardSpec | ExpertsSpec | None
    norms: Literal["before", "after", "both", "parallel", "shared"] = "before"
    residual_scale: float = 1.0
    second_mixer: RecurrentSpec | None = None
    experts: ExpertsSpec | None = None
    per_layer_width: int = 0
    scaled: bool = False
    streams: AnyStreams | None = None
    ngrams: AnyNgramSpec | None = None
    halves: "tuple[BlockSpec, ...]" = ()
    convolutions: tuple[ResidualConvolutionSpec, ...] = ()

    @property
    def kv_layer(self) -> int | None:
        """Earlier layer whose keys and values this block reads; None where it has its own."""
        return self.mixer.kv_layer if isinstance(self.mixer, AttentionSpec) else None

    @property
    def mixers(self) -> tuple[MixerSpec, ...]:
        """Parts of a block with caches: n-gram embeddings, sequence mixers, convolutions."""
        halves = (half.mixer for half in self.halves)
        every = (self.ngrams, self.mixer, self.second_mixer, *halves, *self.convolutions)
        return tuple(mixer for mixer in every if mixer is not None)

    @property
    def cache_count(self) -> int:
        """Number of a block's caches: n-gram embeddings have two."""
        return len(self.mixers) + (self.ngrams.cache_count - 1 if self.ngrams else 0)

    @property
    def cache(self) -> CacheSize:
        """Cache size of a block's mixers together."""
        return sum_of_sizes(mixer.cache for mixer in self.mixers)

    def tensors(
        self, hidden: int, *, has_split_kv_b: bool = False, has_norm_bias: bool = False
    ) -> Shapes:
        """Names and shapes of the weights of a decoder block."""
        made: Shapes = {}
        for number, half in enumerate(self.halves):
            shapes = half.tensors(hidden, has_split_kv_b=has_split_kv_b)
            made |= {f"halves.{number}.{name}": shape for name, shape in shapes.items()}
        for mixer in self.mixers:
            if self.halves and mixer is not self.ngrams:  # which are of the halves
                continue
            shapes = mixer.tensors(hidden, has_split_kv_b=has_split_kv_b)
            made |= {f"{mixer.prefix}.{name}": shape for name, shape in shapes.items()}
        parts = _norm_suffixes(has_bias=has_norm_bias)
        made |= {f"{norm}.{part}": (hidden,) for norm in self.norm_names for part in parts}
        for feed in (self.feed, self.experts):
            shapes = {} if feed is None else feed.tensors(hidden)
            made |= {f"{ExpertsSpec.prefix}.{name}": shape for name, shape in shapes.items()}
        if self.streams is not None:
            shapes = self.streams.tensors(hidden, has_gains=True)
            made |= {f"{of}.{name}": shape for of in CONNECTIONS for name, shape in shapes.items()}
        if self.per_layer_width:
            made["per_layer_input_gate.weight"] = (self.per_layer_width, hidden)
            made["per_layer_projection.weight"] = (hidden, self.per_layer_width)
        if self.scaled:
            made["layer_scalar"] = (1,)
        return made

    @property
    def norm_names(self) -> tuple[str, ...]:
        """Names of a block's norms: before and after mixer and feed-forward, and of extra parts."""
        if self.streams is not None or self.halves:
            return ()
        before = ("input_layernorm", "post_attention_layernorm")
        after = ("mixer_out_norm", "feed_out_norm")
        norms: tuple[str, ...] = {
            "before": before,
            "parallel": before,
            "shared": before[:1],
            "after": after,
            "both": before + after,
        }[self.norms]
        if self.experts is not None:
            norms += ("dense_out_norm", "experts_norm", "experts_out_norm")
        return (*norms, "post_per_layer_input_norm") if self.per_layer_width else norms


@dataclass(frozen=True, slots=True)
class MtpHeadsSpec:
    """MTP heads: join(norm(embedding of x_k), norm(hidden of k-1)), a block, a norm, an output.

    Row k predicts token k+1 (arXiv 2412.19437, section 2.2). Rows begin with (x_1, h_0); rotation
    is relative, so row k may have position k-1 in the head's cache. A single head drafts further
    tokens from its own hidden states; of several heads, head n drafts the n-th token. In a block
    with residual streams, products of the embedding and of each stream are added in place of the
    join.

    blocks: one for each head that is run. trunk_state, chain_state: which hidden state a head reads
    from the trunk, and which it passes on. norm, embedding, output: the trunk's or the head's own;
    "either": the head's own where the files have one, which may be a copy; "none": logits are made
    of the residual itself. zero_first: the first embedding that a head reads is zero.
    """

    blocks: tuple[BlockSpec, ...]
    embedding_first: bool = True
    trunk_state: State = "normed"
    chain_state: State = "normed"
    norm: Literal["trunk", "own", "none"] = "own"
    embedding: Literal["trunk", "either"] = "trunk"
    output: Literal["trunk", "own", "either"] = "trunk"
    zero_first: bool = False


@dataclass(frozen=True, slots=True)
class PerLayerInputsSpec:
    """Per-layer input vectors [width] of each token (Gemma 3n, Gemma 4).

    A vector is a row of a second embedding table with `vocabulary` rows plus a normed projection of
    the token embedding.
    """

    vocabulary: int
    width: int

    def tensors(self, hidden: int, layers: int) -> Shapes:
        """Names and shapes of the weights for per-layer inputs, all layers concatenated."""
        return {
            "embed_tokens_per_layer.weight": (self.vocabulary, layers * self.width),
            "per_layer_model_projection.weight": (layers * self.width, hidden),
            "per_layer_projection_norm.weight": (self.width,),
        }


class AssistantLayers(NamedTuple):
    """Numbers of the full and the sliding layer whose keys Gemma 4's assistant drafter reads."""

    full: int
    sliding: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A whole model: embedding, blocks, final norm, output head and, perhaps, MTP heads.

    context: trained context in tokens. norm, norm_bias: kind of all norms outside attention. tied:
    the output head is the embedding; None where only the files tell. embed_scale, logit_scale:
    factors of embeddings and logits. logit_cap: logits l become cap * tanh(l / cap); 0 for none.
    logit_bias: bias of the output head. positions: learned position embeddings, 0 for none.
    embed_norm: embeddings, those of MTP heads aside, go through the final norm too, or all through
    a norm of their own. assistant_layers: None where the family
    has no assistant drafter.
    """

    hidden: int
    vocabulary: int
    context: int
    eps: float
    blocks: tuple[BlockSpec, ...]
    norm: Literal["rms", "layer"] = "rms"
    norm_bias: bool = False
    tied: bool | None = None
    embed_scale: float = 1.0
    logit_scale: float = 1.0
    logit_cap: float = 0.0
    logit_bias: bool = False
    positions: int = 0
    embed_norm: Literal["none", "final", "own"] = "none"
    heads: MtpHeadsSpec | None = None
    per_layer: PerLayerInputsSpec | None = None
    assistant_layers: AssistantLayers | None = None

    def tensors(self, stored_names: Collection[str] = ()) -> Shapes:
        """Canonical names and shapes of the weights of a model, MTP heads aside.

        stored_names: names in the files, which decide between alternative layouts.
        """
        hidden, vocabulary = self.hidden, self.vocabulary
        made: Shapes = {"embed_tokens.weight": (vocabulary, hidden)}
        made |= self._last_norm(self.streams_spec)
        if self.embed_norm == "own":
            made["embed_norm.weight"] = (hidden,)
        if self.positions:
            made["embed_positions.weight"] = (self.positions, hidden)
        if self.tied is False or (self.tied is None and "lm_head.weight" in stored_names):
            made["lm_head.weight"] = (vocabulary, hidden)
        if self.logit_bias:
            made["lm_head.bias"] = (vocabulary,)
        if self.per_layer is not None:
            made |= self.per_layer.tensors(hidden, len(self.blocks))
        for number, block in enumerate(self.blocks):
            made |= self._block_tensors(f"layers.{number}.", block, stored_names)
        return made

    def head_tensors(self, stored_names: Collection[str] = ()) -> Shapes:
        """Names and shapes of the weights of the MTP heads in the files, at least of the first."""
        made: Shapes = {}
        if self.heads is None:
            return made
        hidden, matrix = self.hidden, (self.vocabulary, self.hidden)
        for number, block in enumerate(self.heads.blocks):
            name = f"layers.{number}."
            if number and not any(one.startswith(name) for one in stored_names):
                break
            made[f"{name}join.weight"] = (hidden, 2 * hidden)
            made[f"{name}enorm.weight"], made[f"{name}hnorm.weight"] = (hidden,), (hidden,)
            if block.streams is not None:
                names = (f"{name}join.weight", f"{name}join_streams.weight")
                if names[1] in stored_names or names[0] not in stored_names:
                    made |= dict.fromkeys(names, (hidden, hidden))
                if isinstance(block.streams, StreamsSpec):
                    made[f"{name}hnorm.weight"] = (self.width,)
            if self.heads.norm == "own":
                shapes = self._last_norm(block.streams)
                made |= {f"{name}{norm}": shape for norm, shape in shapes.items()}
            made |= self._block_tensors(name, block, stored_names)
            if f"{name}embed_tokens.weight" in stored_names:
                made[f"{name}embed_tokens.weight"] = matrix
            if self.heads.output == "own" or f"{name}output.weight" in stored_names:
                made[f"{name}output.weight"] = matrix
        return made

    def drop_full_context_windows(self) -> "ModelSpec":
        """Copy a model's spec without sliding windows that span the whole context."""
        heads = self.heads
        if heads is not None:
            heads = replace(
                heads, blocks=tuple(_drop_full_context_windows(self.context, heads.blocks))
            )
        return replace(
            self, blocks=tuple(_drop_full_context_windows(self.context, self.blocks)), heads=heads
        )

    def _block_tensors(
        self, prefix: str, block: BlockSpec, stored_names: Collection[str]
    ) -> Shapes:
        places = (prefix, f"{prefix}halves.0.")
        has_split_kv_b = any(f"{p}self_attn.embed_q.weight" in stored_names for p in places)
        shapes = block.tensors(
            self.hidden, has_split_kv_b=has_split_kv_b, has_norm_bias=self.norm_bias
        )
        return {f"{prefix}{name}": shape for name, shape in shapes.items()}

    @property
    def streams_spec(self) -> AnyStreams | None:
        """Residual streams of a model's blocks; None with a single one."""
        return self.blocks[0].streams

    @property
    def width(self) -> int:
        """Elements of all residual streams of a token."""
        return self.hidden * (1 if self.streams_spec is None else self.streams_spec.vectors)

    def _last_norm(self, streams: AnyStreams | None) -> Shapes:
        """Weights of what ends trunk or head: a norm, or the output head's hyper-connection."""
        if streams is None:
            return {
                f"norm.{part}": (self.hidden,) for part in _norm_suffixes(has_bias=self.norm_bias)
            }
        shapes = streams.tensors(self.hidden, has_gains=False)
        return {f"{_LAST_CONNECTION}.{name}": shape for name, shape in shapes.items()}

    @property
    def _mixers(self) -> list[MixerSpec]:
        return [mixer for block in self.blocks for mixer in block.mixers]

    @property
    def cache(self) -> CacheSize:
        """Cache size of all decoder blocks together, MTP heads aside."""
        return sum_of_sizes(block.cache for block in self.blocks)

    @property
    def work_size(self) -> WorkSize:
        """Sizes of a model that determine the activation memory of a forward pass."""
        tensors = self.tensors()
        rows = [its[0] for name, its in tensors.items() if len(its) == 2 and "layers" in name]
        heads = [mixer.heads for mixer in self._mixers if not isinstance(mixer, RecurrentSpec)]
        values = [mixer.cache.values for mixer in self._mixers]
        return WorkSize(
            max(rows, default=0), max(heads, default=0), max(values, default=0), self.vocabulary
        )

    @property
    def packed_cache(self) -> Reason | None:
        """Reason why KV caches of model and MTP heads stay in 16 bits; None if fewer work."""
        every = self.blocks + (self.heads.blocks if self.heads else ())
        reasons = (mixer.packed_cache for block in every for mixer in block.mixers)
        return next((reason for reason in reasons if reason), None)

    @property
    def long_rope_after(self) -> int | None:
        """Text length in tokens beyond which the second RoPE table is used; None without one."""
        ropes = (mixer.rope for mixer in self._mixers if not isinstance(mixer, RecurrentSpec))
        borders = (rope.long_rope_after for rope in ropes if rope and rope.long_factors)
        return next(borders, None)

    @property
    def active_expert_share(self) -> float:
        """Share of a layer's experts that process one token; 1 without experts."""
        every = (feed for block in self.blocks for feed in (block.feed, block.experts))
        feeds = (feed for feed in every if isinstance(feed, ExpertsSpec))
        experts = next(feeds, None)
        return 1.0 if experts is None else experts.per_token / experts.routed


def _norm_suffixes(*, has_bias: bool) -> tuple[str, ...]:
    return ("weight", "bias") if has_bias else ("weight",)


def _drop_full_context_windows(context: int, blocks: Iterable[BlockSpec]) -> Iterator[BlockSpec]:
    for block in blocks:
        mixer = block.mixer
        if (
            isinstance(mixer, AttentionSpec)
            and mixer.window is not None
            and mixer.window >= context
        ):
            yield replace(block, mixer=replace(mixer, window=None))
        else:
            yield block
