"""Gemma 4's assistant: a few layers that attend to keys and values its target has computed.

Published apart, as `*-assistant`; transformers' Gemma4Assistant is the reference. Its input is
[embedding of the newest token, state], the target's width each; layers have queries only and read
the target's last full and last sliding layer; the position is that of the newest token, for every
token of a draft. The state for the next one is the normed output, projected back to the target's
width; the first state is the target's after its final norm. An ordered output head looks only into
the clusters of tokens whose centroids fit best.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import mlx.core as mx
import numpy as np

from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.decoder import Decoder
from mlx_engine.models.drafters.target import FeatureModel, check_widths
from mlx_engine.models.families.gemma4 import FULL, SLIDING, fields_of_layer, rope_of_kind
from mlx_engine.models.layer_specs import AttentionSpec, RopeSpec, Shapes, why_not_packed
from mlx_engine.models.layers import Embedding, Linear, Norm, Rotation, gelu_tanh
from mlx_engine.models.model_spec import AssistantLayers, ModelSpec
from mlx_engine.models.weights import Part, WeightTable
from mlx_engine.values.errors import BadModelFile, UnsupportedModel
from mlx_engine.values.words import Words

_NORMS = ("input", "post_attention", "pre_feedforward", "post_feedforward")


class SharedLayer(NamedTuple):
    """A layer of the target whose keys and values are read: [1, heads, T, size] each.

    window: tokens a row sees; those of the longest text where it sees all.
    """

    number: int
    heads: int
    size: int
    window: int

    @property
    def width(self) -> int:
        """Keys and values of one token."""
        return 2 * self.heads * self.size


@dataclass(frozen=True, slots=True)
class AssistantConfig:
    """Sizes; layer_types: "full_attention" or "sliding_attention" for each layer.

    centroids: clusters of the vocabulary, 0 for a plain output head; chosen: how many are looked
    into. ropes: of each kind of layer.
    """

    target_hidden: int
    hidden: int
    inner: int
    heads: int
    sliding_size: int
    full_size: int
    eps: float
    vocabulary: int
    layer_types: tuple[str, ...]
    ropes: Mapping[str, RopeSpec]
    centroids: int
    chosen: int

    @staticmethod
    def read(config: Mapping[str, object], origin: str) -> "AssistantConfig":
        """BadModelFile for a wrong key, UnsupportedModel for variants that are not run."""
        fields = ConfigFields(config, origin)
        if fields.count("hidden_size_per_layer_input", 0, least=0) or fields.flag(
            "enable_moe_block", default=False
        ):
            raise UnsupportedModel(
                "{origin}: assistants with experts or embeddings of each layer are not run.",
                origin=origin,
            )
        types = fields.words("layer_types")
        if not {*types} <= {FULL, SLIDING} or len(types) != fields.layers():
            raise fields.wrong("layer_types", list(types), Words("the kind of every layer"))
        sizes = {}
        for kind in (FULL, SLIDING):
            number = types.index(kind) if kind in types else -1
            sizes[kind] = fields_of_layer(fields, number, kind).count("head_dim")
        vocabulary = fields.count("vocab_size")
        ordered = fields.flag("use_ordered_embeddings", default=False)
        centroids = fields.count("num_centroids", 2048) if ordered else 0
        chosen = fields.count("centroid_intermediate_top_k", 32)
        if centroids and (vocabulary % centroids or chosen > centroids):
            raise BadModelFile(
                "{origin}: {centroids} centroids, {chosen} of them looked into, do not go with a "
                "vocabulary of {vocabulary}. Get the config again.",
                origin=origin,
                centroids=centroids,
                chosen=chosen,
                vocabulary=vocabulary,
            )
        return AssistantConfig(
            target_hidden=fields.count("backbone_hidden_size"),
            hidden=fields.count("hidden_size"),
            inner=fields.count("intermediate_size"),
            heads=fields.count("num_attention_heads"),
            sliding_size=sizes[SLIDING],
            full_size=sizes[FULL],
            eps=fields.number("rms_norm_eps", 1e-6),
            vocabulary=vocabulary,
            layer_types=types,
            ropes={kind: rope_of_kind(fields, size, kind) for kind, size in sizes.items()},
            centroids=centroids,
            chosen=chosen,
        )

    def size_of(self, kind: str) -> int:
        """Elements of a head in layers of this kind."""
        return self.full_size if kind == FULL else self.sliding_size

    def tensors(self) -> Shapes:
        """Names and shapes."""
        hidden, target = self.hidden, self.target_hidden
        made: Shapes = {
            "pre_projection.weight": (hidden, 2 * target),
            "post_projection.weight": (target, hidden),
            "norm.weight": (hidden,),
            "embed_tokens.weight": (self.vocabulary, hidden),
        }
        if self.centroids:
            made["masked_embedding.centroids.weight"] = (self.centroids, hidden)
        for number, kind in enumerate(self.layer_types):
            name, queries = f"layers.{number}.", self.heads * self.size_of(kind)
            made |= {f"{name}{norm}_layernorm.weight": (hidden,) for norm in _NORMS}
            made |= {
                f"{name}self_attn.q_norm.weight": (self.size_of(kind),),
                f"{name}self_attn.q_proj.weight": (queries, hidden),
                f"{name}self_attn.o_proj.weight": (hidden, queries),
                f"{name}mlp.gate_proj.weight": (self.inner, hidden),
                f"{name}mlp.up_proj.weight": (self.inner, hidden),
                f"{name}mlp.down_proj.weight": (hidden, self.inner),
                f"{name}layer_scalar": (1,),
            }
        return made


class SeenRows(NamedTuple):
    """What the target has computed of the tokens before the newest, for one kind of layer.

    keys, values: [1, heads, rows, size]; mask: bool [1, rows] of those that are seen, None for all.
    """

    keys: mx.array
    values: mx.array
    mask: mx.array | None


class TargetRows(NamedTuple):
    """The same for both kinds; length: how many tokens there are."""

    full: SeenRows
    sliding: SeenRows
    length: int

    def of(self, kind: str) -> SeenRows:
        """By the config's name of the kind."""
        return self.full if kind == FULL else self.sliding


class _Layer:
    """Attention with queries only, and a gated feed-forward; norms before and after each."""

    def __init__(self, part: Part, sizes: AssistantConfig, kind: str) -> None:
        inner, feed, eps = part.below("self_attn"), part.below("mlp"), sizes.eps
        self._kind, self._size = kind, sizes.size_of(kind)
        self._rotate = Rotation(sizes.ropes[kind])
        self._norms = [Norm.read(part, f"{name}_layernorm", eps) for name in _NORMS]
        self._query_norm = Norm.read(inner, "q_norm", eps)
        self._queries, self._out = Linear.read(inner, "q_proj"), Linear.read(inner, "o_proj")
        self._gate, self._up = Linear.read(feed, "gate_proj"), Linear.read(feed, "up_proj")
        self._down = Linear.read(feed, "down_proj")
        self._scalar = part.vector("layer_scalar")

    def __call__(self, x: mx.array, rows: TargetRows) -> mx.array:
        """[1, 1, H] -> [1, 1, H]."""
        before, after, second, last = self._norms
        x = x + after(self._attend(before(x), rows))
        inner = second(x)
        x = x + last(self._down(gelu_tanh(self._gate(inner)) * self._up(inner)))
        return x * self._scalar.astype(x.dtype)

    def _attend(self, x: mx.array, rows: TargetRows) -> mx.array:
        queries = self._queries(x).reshape(1, 1, -1, self._size)
        queries = self._query_norm(queries).transpose(0, 2, 1, 3)
        seen = rows.of(self._kind)
        attended = mx.fast.scaled_dot_product_attention(
            self._rotate(queries, rows.length), seen.keys, seen.values, scale=1.0, mask=seen.mask
        )
        return self._out(attended.transpose(0, 2, 1, 3).reshape(1, 1, -1))


class Gemma4Assistant:
    """The drafter of one target; `target` is to be run in its place while this drafts."""

    def __init__(
        self,
        sizes: AssistantConfig,
        table: WeightTable,
        token_ordering: mx.array | None,
        target: Decoder,
        layers: AssistantLayers,
    ) -> None:
        """layers: of the target, whose keys and values are read."""
        origin = table.origin
        self.full, self.sliding = (_shared_layer(target.spec, number) for number in layers)
        self._check_target(sizes, token_ordering, target, origin)
        self.packed_cache = why_not_packed(self.full.size, self.sliding.size)
        self._sizes, self._origin = sizes, origin
        self._embed = target.scaled_embed
        self._token_ordering = token_ordering
        forward = partial(target.forward_with_keys, numbers=layers)
        self.target = FeatureModel(target, forward, forward)
        part = Part(table, "", sizes.tensors())
        self._join = Linear.read(part, "pre_projection")
        self._project = Linear.read(part, "post_projection")
        self._layers = [
            _Layer(part.below(f"layers.{n}"), sizes, kind)
            for n, kind in enumerate(sizes.layer_types)
        ]
        self._norm = Norm.read(part, "norm", sizes.eps)
        matrix = part.matrix("embed_tokens")
        self._output, self._rows = Linear(matrix), Embedding(matrix, self._norm.weight.dtype)
        centroids = "masked_embedding.centroids"
        self._centroids = Linear.read(part, centroids) if sizes.centroids else None
        table.check_all_used()
        ordering = () if token_ordering is None else (token_ordering,)
        self.arrays = (*table.handed_out, *ordering)

    def _check_target(
        self, sizes: AssistantConfig, ordering: mx.array | None, target: Decoder, origin: str
    ) -> None:
        """BadModelFile where config, clusters and target do not go together."""
        full, sliding = self.full, self.sliding
        keys = {
            "keys of full layers are": (sizes.full_size, full.size),
            "keys of sliding layers are": (sizes.sliding_size, sliding.size),
        }
        check_widths(sizes.target_hidden, sizes.vocabulary, target, origin, **keys)
        if sizes.heads % full.heads or sizes.heads % sliding.heads:
            raise BadModelFile(
                "{origin}: its {heads} heads cannot share the target's keys.",
                origin=origin,
                heads=sizes.heads,
            )
        if sizes.centroids and (ordering is None or ordering.shape != (sizes.vocabulary,)):
            raise BadModelFile(
                "{origin}: the tensor masked_embedding.token_ordering [{vocabulary}] is missing "
                "or of another shape. Get the file again.",
                origin=origin,
                vocabulary=sizes.vocabulary,
            )

    def check_values(self) -> None:
        """BadModelFile when the clusters do not share out the vocabulary; reads token_ordering."""
        if self._token_ordering is None:
            return
        if (np.sort(np.array(self._token_ordering)) != np.arange(self._sizes.vocabulary)).any():
            raise BadModelFile(
                "{origin}: token_ordering does not name every token once. The file is "
                "damaged or for another model: get it again.",
                origin=self._origin,
            )

    def first_state(self, token: mx.array, hidden: mx.array, rows: TargetRows) -> mx.array:
        """The newest token int [1] and the target's state before it [1, 1, H of the target]."""
        joined = mx.concatenate([self._embed(token[None]), hidden], axis=-1)
        x = self._join(joined)
        for layer in self._layers:
            x = layer(x, rows)
        return self._norm(x)

    def next_state(self, token: mx.array, state: mx.array, rows: TargetRows) -> mx.array:
        """The state after one more token int [1]."""
        return self.first_state(token, self._project(state), rows)

    def logits(self, state: mx.array) -> mx.array:
        """A state [1, 1, H] -> float32 logits [1, V]; tokens not looked into are -inf."""
        if self._centroids is None or self._token_ordering is None:
            return self._output(state).squeeze(0).astype(mx.float32)
        sizes, fit = self._sizes, self._centroids(state)[0, 0]
        best = mx.argpartition(-fit, sizes.chosen - 1)[: sizes.chosen]
        tokens = self._token_ordering.reshape(sizes.centroids, -1)[best].reshape(-1)
        logits = mx.full((sizes.vocabulary,), -mx.inf)
        logits[tokens] = (self._rows(tokens) @ state[0, 0]).astype(mx.float32)
        return logits[None]


def _shared_layer(target: ModelSpec, number: int) -> SharedLayer:
    mixer = target.blocks[number].mixer
    assert isinstance(mixer, AttentionSpec)
    return SharedLayer(number, mixer.kv_heads, mixer.key_dim, mixer.window or target.context)
