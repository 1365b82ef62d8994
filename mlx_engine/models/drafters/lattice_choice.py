"""LiLiCorr: scores of token pairs from attention over a lattice of candidates (arXiv 2608.20530).

The likeliest tokens of each row of a block attend to one another, with a learnt bias by distance
between rows. Each then has a vector towards the row before it and one towards the row behind it;
the score of a pair of tokens in neighbouring rows is the product of these, of length one, times a
factor. The vector before the first row is made of the newest features that the target yielded.
"""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
from typing_extensions import override

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.drafters.block_choice import BlockChoice, RowScores
from mlx_engine.models.feed_forward_specs import FeedForwardSpec
from mlx_engine.models.layer_specs import Shapes
from mlx_engine.models.layers import GatedFeedForward, Linear, Norm, silu
from mlx_engine.models.weights import Part
from mlx_engine.values.words import Words

_FEATURES, _FEATURE_EPS = 5, 1e-5
_SEQUENTIAL = {
    "feature_mlp.0.": "feature_norm.",
    "feature_mlp.1.": "feature_mlp.up_proj.",
    "feature_mlp.3.": "feature_mlp.down_proj.",
    ".mlp.0.": ".mlp.up_proj.",
    ".mlp.2.": ".mlp.down_proj.",
    "in_proj_": "in_proj.",
}


def lattice_name(name: str) -> str:
    """Rename a tensor of a LiLiCorr head; some files number the parts of its feed-forwards."""
    for published, ours in _SEQUENTIAL.items():
        name = name.replace(published, ours)
    return name


@dataclass(frozen=True, slots=True)
class LatticeSizes:
    """Sizes of a LiLiCorr head.

    rows: of a block that draft. candidates: of each row. factors: length of the vectors;
    least_norm: their norm counts as no less. scale: of scores.
    """

    hidden: int
    inner: int
    layers: int
    heads: int
    rows: int
    candidates: int
    factors: int
    least_norm: float
    scale: float
    eps: float

    @staticmethod
    def read(fields: ConfigFields, rows: int) -> "LatticeSizes":
        """Read the sizes from a config's `lilicorr_` fields. Raises BadModelFile."""
        fields.require({"lilicorr_enabled": True})
        numbers = {}
        for name in ("mlp_ratio", "vector_eps", "logit_scale"):  # no shape shows a wrong default
            numbers[name] = fields.number(f"lilicorr_{name}", 0.0)
            if numbers[name] <= 0:
                raise fields.bad_field(f"lilicorr_{name}", numbers[name], Words("a number above 0"))
        hidden = fields.count("lilicorr_hidden_size", 0, minimum=0) or fields.count("hidden_size")
        heads = fields.count("lilicorr_num_heads")
        if hidden % heads:
            raise fields.bad_field("lilicorr_num_heads", heads, f"a divisor of {hidden}")
        return LatticeSizes(
            hidden=hidden,
            inner=int(hidden * numbers["mlp_ratio"]),
            layers=fields.count("lilicorr_num_layers", maximum=64),
            heads=heads,
            rows=rows,
            candidates=fields.count("lilicorr_candidate_topk", maximum=fields.count("vocab_size")),
            factors=fields.count("lilicorr_factor_dim"),
            least_norm=numbers["vector_eps"],
            scale=numbers["logit_scale"],
            eps=fields.number("rms_norm_eps", 1e-6),
        )

    def tensors(self, model_hidden: int) -> Shapes:
        """Names and shapes of the weights; the draft model's states are `model_hidden` wide."""
        wide = self.hidden
        linear = {
            "pass_hidden_proj": (wide, model_hidden),
            "context_proj": (wide, model_hidden),
            "feature_mlp.up_proj": (wide, _FEATURES),
            "feature_mlp.down_proj": (wide, wide),
            "factor_input_proj": (wide, 3 * wide),
            **{f"{head}_head": (self.factors, wide) for head in ("out", "in", "anchor_out")},
        }
        if model_hidden != wide:
            linear["token_proj"] = (wide, model_hidden)
        norms = ["output_norm", "anchor_norm"]
        for layer in (f"layers.{number}" for number in range(self.layers)):
            norms += [f"{layer}.attn_norm", f"{layer}.mlp_norm"]
            linear |= {f"{layer}.attn.in_proj": (3 * wide, wide)}
            linear |= {f"{layer}.attn.out_proj": (wide, wide)}
            linear |= {f"{layer}.mlp.up_proj": (self.inner, wide)}
            linear |= {f"{layer}.mlp.down_proj": (wide, self.inner)}
        made: Shapes = {f"{name}.weight": shape for name, shape in linear.items()}
        made |= {f"{name}.bias": shape[:1] for name, shape in linear.items()}
        made |= {f"feature_norm.{part}": (_FEATURES,) for part in ("weight", "bias")}
        return made | {
            **{f"{name}.weight": (wide,) for name in norms},
            "slot_embedding": (1, 1, self.rows, 1, wide),
            "rank_embedding": (1, 1, 1, self.candidates, wide),
            "relative_slot_bias": (self.heads, 2 * self.rows + 1),
            "same_slot_bias": (self.heads,),
        }


class _LatticeLayer:
    """A layer of the lattice: attention among all candidates of a block, and a feed-forward."""

    def __init__(self, part: Part, sizes: LatticeSizes) -> None:
        self._heads = sizes.heads
        self._norm = Norm.read(part, "attn_norm", sizes.eps)
        self._project = Linear.read(part, "attn.in_proj")
        self._out = Linear.read(part, "attn.out_proj")
        self._second_norm = Norm.read(part, "mlp_norm", sizes.eps)
        self._feed_forward = _read_feed_forward(part.subpart("mlp"), sizes.inner)

    def __call__(self, x: mx.array, bias: mx.array) -> mx.array:
        """Run the layer on states [1, N, H] of N candidates; bias of scores [1, heads, N, N]."""
        joined = self._project(self._norm(x)).reshape(*x.shape[:2], 3, self._heads, -1)
        queries, keys, values = joined.transpose(2, 0, 3, 1, 4)
        attended = mx.fast.scaled_dot_product_attention(
            queries, keys, values, scale=queries.shape[-1] ** -0.5, mask=bias
        )
        x = x + self._out(attended.transpose(0, 2, 1, 3).reshape(x.shape))
        return x + self._feed_forward(self._second_norm(x))


def _read_feed_forward(part: Part, inner: int) -> GatedFeedForward:
    return GatedFeedForward.read(part, FeedForwardSpec(inner, bias=True, gated=False))


class LatticeChoice(BlockChoice):
    """LiLiCorr's choice among the likeliest tokens of each row, by scores of pairs of them.

    embed: the target's embedding, int tokens -> [..., H].
    """

    reads_whole_block = True

    def __init__(
        self, part: Part, sizes: LatticeSizes, embed: Callable[[mx.array], mx.array]
    ) -> None:
        self._sizes, self._embed = sizes, embed
        self._token = Linear.read(part, "token_proj") if "token_proj.weight" in part else None
        self._state = Linear.read(part, "pass_hidden_proj")
        self._context = Linear.read(part, "context_proj")
        self._feature_norm = Norm.read(part, "feature_norm", _FEATURE_EPS, is_layer_norm=True)
        self._features = _read_feed_forward(part.subpart("feature_mlp"), sizes.hidden)
        self._places = part.vector("slot_embedding")[:, 0] + part.vector("rank_embedding")[:, 0]
        self._bias = self._read_bias(part)
        self._layers = [
            _LatticeLayer(part.subpart(f"layers.{number}"), sizes) for number in range(sizes.layers)
        ]
        self._norm = Norm.read(part, "output_norm", sizes.eps)
        self._anchor_norm = Norm.read(part, "anchor_norm", sizes.eps)
        self._join = Linear.read(part, "factor_input_proj")
        names = ("out_head", "in_head", "anchor_out_head")
        self._next, self._previous, self._start = (Linear.read(part, name) for name in names)

    def _read_bias(self, part: Part) -> mx.array:
        """Bias of attention scores [1, heads, N, N] of N candidates, row by row."""
        rows = mx.repeat(mx.arange(self._sizes.rows), self._sizes.candidates)
        distance = rows[:, None] - rows[None]
        same = part.vector("same_slot_bias")[:, None, None] * (distance == 0)
        return (part.vector("relative_slot_bias")[:, distance + self._sizes.rows] + same)[None]

    @override
    def score_block(self, logits: mx.array, states: mx.array, anchor: mx.array | None) -> RowScores:
        count = self._sizes.candidates
        best = mx.argpartition(-logits, count - 1, axis=-1)[:, :count]
        order = mx.argsort(-mx.take_along_axis(logits, best, axis=-1), axis=-1)
        best = mx.take_along_axis(best, order, axis=-1)
        start, pairs = self.score_pairs(best, logits, states, anchor)

        def score_row(row: int, previous: mx.array) -> mx.array:
            scores = start[None]
            if row:  # the previous token is a candidate of its row, else none is preferred
                is_it = best[row - 1] == previous
                scores = (is_it[:, None] * pairs[row - 1]).sum(axis=0, keepdims=True)
            unlikely = mx.full((1, logits.shape[-1]), -mx.inf)
            return mx.put_along_axis(unlikely, best[row : row + 1], scores, axis=-1)

        return score_row

    def score_pairs(
        self, tokens: mx.array, logits: mx.array, states: mx.array, anchor: mx.array | None
    ) -> tuple[mx.array, mx.array]:
        """Scores of the first row's candidates, [K], and of pairs of neighbours, [R - 1, K, K].

        tokens: candidates int [R, K], the likeliest first. logits [R, V], states [R, H]: of the
        block. anchor: the target's newest joined features [1, 1, H], None where there are none.
        """
        sizes, dtype = self._sizes, states.dtype
        embedded = self._embed(tokens).astype(dtype)
        x = embedded if self._token is None else self._token(embedded)
        x = x + self._state(states)[:, None] + self._features(self._describe(tokens, logits, dtype))
        x = (x[None] + self._places.astype(dtype)).reshape(1, tokens.size, sizes.hidden)
        for layer in self._layers:
            x = layer(x, self._bias.astype(dtype))
        x = self._norm(x).reshape(*tokens.shape, sizes.hidden)
        context = mx.zeros((1, 1, sizes.hidden), dtype) if anchor is None else self._context(anchor)
        context = self._anchor_norm(context)
        rows = mx.broadcast_to(context, x.shape)
        joined = silu(self._join(mx.concatenate([x, rows, x * rows], axis=-1)))
        following, previous = self._unit(self._next(joined)), self._unit(self._previous(joined))
        start = (self._unit(self._start(context)) * previous[:1]).sum(axis=-1)[0]
        pairs = following[:-1] @ previous[1:].swapaxes(-1, -2)
        return start * sizes.scale, pairs * sizes.scale

    def _describe(self, tokens: mx.array, logits: mx.array, dtype: mx.Dtype) -> mx.array:
        """Features [R, K, 5] of candidates: logarithm of the probability, probability, rank."""
        chosen = mx.take_along_axis(logits, tokens, axis=-1)
        surety = chosen - mx.logsumexp(logits, axis=-1, keepdims=True)
        ranks = mx.arange(tokens.shape[1])
        share = ranks / max(tokens.shape[1] - 1, 1)
        columns = (surety, mx.exp(surety), surety - surety[:, :1], share, ranks == 0)
        shaped = [mx.broadcast_to(column.astype(mx.float32), tokens.shape) for column in columns]
        return self._feature_norm(mx.stack(shaped, axis=-1).astype(dtype))

    def _unit(self, vectors: mx.array) -> mx.array:
        wide = vectors.astype(mx.float32)
        norms = mx.sqrt(wide.square().sum(axis=-1, keepdims=True))
        return wide / mx.maximum(norms, self._sizes.least_norm)
