"""Gemma 4's assistant: a few layers that attend to keys and values its target has computed.

Published apart, as `*-assistant`; transformers' Gemma4Assistant is the reference. Its input is
[embedding of the newest token, state], the target's width each; layers have queries only and read
the target's last full and last sliding layer; the position is that of the newest token, for every
token of a draft. The state for the next one is the normed output, projected back to the target's
width; the first state is the target's after its final norm. An ordered output head looks only into
the clusters of tokens whose centroids fit best.
"""

from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx
import numpy as np
from mlx.nn.layers.activations import gelu_approx

from mlx_engine.models.drafters.feature_adapter import FeatureAdapter
from mlx_engine.models.drafters.gemma4_assistant_config import AssistantConfig
from mlx_engine.models.drafters.rotation import Rotation
from mlx_engine.models.drafters.target import check_widths
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.mlx_lm_trunk.gemma4 import Gemma4Adapter, SharedLayer
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import BadModelFile


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
        return self.full if kind == "full_attention" else self.sliding


@dataclass(frozen=True, slots=True)
class _Layer:
    """Attention with queries only, and a gated feed-forward; norms before and after each."""

    kind: str
    size: int
    rotation: Rotation
    norms: tuple[Norm, Norm, Norm, Norm]
    query_norm: Norm
    queries: Linear
    out: Linear
    gate: Linear
    up: Linear
    down: Linear
    scalar: mx.array

    @staticmethod
    def take(table: WeightTable, sizes: AssistantConfig, number: int, eps: float) -> "_Layer":
        name, kind, hidden = f"layers.{number}", sizes.layer_types[number], sizes.hidden
        size = sizes.full_size if kind == "full_attention" else sizes.sliding_size
        before, after, second, last = (
            Norm.take(table, f"{name}.{part}_layernorm", hidden, eps)
            for part in ("input", "post_attention", "pre_feedforward", "post_feedforward")
        )
        return _Layer(
            kind,
            size,
            Rotation.read({"rope_parameters": sizes.rotations[kind]}, size, table.origin),
            (before, after, second, last),
            Norm.take(table, f"{name}.self_attn.q_norm", size, eps),
            Linear.take(table, f"{name}.self_attn.q_proj", sizes.heads * size, hidden),
            Linear.take(table, f"{name}.self_attn.o_proj", hidden, sizes.heads * size),
            Linear.take(table, f"{name}.mlp.gate_proj", sizes.inner, hidden),
            Linear.take(table, f"{name}.mlp.up_proj", sizes.inner, hidden),
            Linear.take(table, f"{name}.mlp.down_proj", hidden, sizes.inner),
            table.take(f"{name}.layer_scalar", (1,)),
        )

    def __call__(self, x: mx.array, rows: TargetRows) -> mx.array:
        """[1, 1, H] -> [1, 1, H]."""
        before, after, second, last = self.norms
        x = x + after(self._attend(before(x), rows))
        inner = second(x)
        x = x + last(self.down(gelu_approx(self.gate(inner)) * self.up(inner)))
        return x * self.scalar.astype(x.dtype)

    def _attend(self, x: mx.array, rows: TargetRows) -> mx.array:
        queries = self.queries(x).reshape(1, 1, -1, self.size)
        queries = self.query_norm(queries).transpose(0, 2, 1, 3)
        seen = rows.of(self.kind)
        attended = mx.fast.scaled_dot_product_attention(
            self.rotation(queries, rows.length), seen.keys, seen.values, scale=1.0, mask=seen.mask
        )
        return self.out(attended.transpose(0, 2, 1, 3).reshape(1, 1, -1))


class Gemma4Assistant:
    """The drafter of one target; `target` is to be run in its place while this drafts."""

    def __init__(
        self,
        sizes: AssistantConfig,
        table: WeightTable,
        token_ordering: mx.array | None,
        target: Gemma4Adapter,
    ) -> None:
        origin, hidden = table.origin, sizes.hidden
        self.full, self.sliding = _checked_layers(sizes, token_ordering, target, origin)
        self._sizes, self._origin = sizes, origin
        self._embed = target.embed
        self._token_ordering = token_ordering
        self.target = FeatureAdapter(target, target.forward_with_keys)
        self._join = Linear.take(table, "pre_projection", hidden, 2 * sizes.target_hidden)
        self._project = Linear.take(table, "post_projection", sizes.target_hidden, hidden)
        self._layers = [
            _Layer.take(table, sizes, n, sizes.eps) for n in range(len(sizes.layer_types))
        ]
        self._norm = Norm.take(table, "norm", hidden, sizes.eps)
        matrix = table.take_matrix("embed_tokens", sizes.vocabulary, hidden)
        self._output, self._rows = Linear(matrix), Embedding(matrix, self._norm.weight.dtype)
        self._centroids = (
            Linear.take(table, "masked_embedding.centroids", sizes.centroids, hidden)
            if sizes.centroids
            else None
        )
        table.check_all_used()
        ordering = () if token_ordering is None else (token_ordering,)
        self.arrays = (*table.handed_out, *ordering)

    def check_values(self) -> None:
        """BadModelFile when the clusters do not share out the vocabulary; reads token_ordering."""
        if self._token_ordering is None:
            return
        if (np.sort(np.array(self._token_ordering)) != np.arange(self._sizes.vocabulary)).any():
            raise BadModelFile(
                f"{self._origin}: token_ordering does not name every token once. The file is "
                "damaged or for another model: get it again."
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


class _Shared(NamedTuple):
    full: SharedLayer
    sliding: SharedLayer


def _checked_layers(
    sizes: AssistantConfig, ordering: mx.array | None, target: Gemma4Adapter, origin: str
) -> _Shared:
    full, sliding = target.full, target.sliding
    if full is None or sliding is None:
        raise BadModelFile(
            f"{origin}: reads a full and a sliding layer of its target, which has one kind only."
        )
    pairs = {
        "hidden states are": (sizes.target_hidden, target.hidden_size),
        "vocabulary is": (sizes.vocabulary, target.vocabulary),
        "keys of full layers are": (sizes.full_size, full.size),
        "keys of sliding layers are": (sizes.sliding_size, sliding.size),
    }
    check_widths(pairs, origin)
    if sizes.heads % full.heads or sizes.heads % sliding.heads:
        raise BadModelFile(f"{origin}: its {sizes.heads} heads cannot share the target's keys.")
    if sizes.centroids and (ordering is None or ordering.shape != (sizes.vocabulary,)):
        raise BadModelFile(
            f"{origin}: the tensor masked_embedding.token_ordering [{sizes.vocabulary}] is missing "
            "or of another shape. Get the file again."
        )
    return _Shared(full, sliding)
