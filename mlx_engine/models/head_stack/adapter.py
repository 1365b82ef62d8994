"""mlx-lm's trunk with heads that each have a decoder layer of its class, as one adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.contract import Adapter
from mlx_engine.models.head_stack.definition import StackDefinition
from mlx_engine.models.head_stack.head import StackHead
from mlx_engine.models.layers import Linear
from mlx_engine.models.mlx_lm_trunk.adapters import TrunkAdapter
from mlx_engine.models.mlx_lm_trunk.build import fill_module, parameters_of, told
from mlx_engine.models.mlx_lm_trunk.listed_rotation import ListedRotation, listed_rotation
from mlx_engine.models.mlx_lm_trunk.make_adapter import OpenTrunk, open_trunk, tried
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config
from mlx_engine.models.weights import WeightTable
from mlx_engine.values.errors import BadModelFile


def build_stack(
    definition: StackDefinition,
    config: Mapping[str, object],
    trunk: WeightTable,
    table: WeightTable,
) -> Adapter:
    """The model; BadModelFile when a tensor is missing, misshapen or left over."""
    opened = open_trunk(definition.model_type, config, trunk)
    flat = flat_config(definition.model_type, config, table.origin)
    fields = ConfigFields(flat, table.origin)
    count = 0
    while f"layers.{count}.join.weight" in table:
        count += 1
    heads = [StackHead(definition, fields, table, n, opened.trunk) for n in range(count)]
    left, listed = table.take_all(), listed_rotation(flat)
    plain = flat if listed is None else {**flat, "rope_scaling": None}
    for number, head in enumerate(heads):
        head.layer = _open_layer(definition, plain, left, number, table)
        if listed is not None and head.window is None:
            head.layer["self_attn"].rope = ListedRotation(listed)
    return tried(lambda: StackAdapter(definition, opened, heads), trunk.origin)


def _open_layer(
    definition: StackDefinition,
    flat: Mapping[str, object],
    left: Mapping[str, mx.array],
    number: int,
    table: WeightTable,
) -> Module:
    """The decoder layer of a head with all that is left of the head's tensors."""
    try:
        layer = definition.make_layer(flat, number)
    except Exception as error:
        raise BadModelFile(
            f"{table.origin}: no MTP head can be built from the config ({told(error)}). Get the "
            "config again from where the weights come from."
        ) from error
    mx.eval(mx.random.state[0])  # type: ignore[index]  # drawn from, though no weight is computed
    prefix = f"layers.{number}."
    own = {n.removeprefix(prefix): array for n, array in left.items() if n.startswith(prefix)}
    fill_module(layer, own, f"{table.origin}, MTP head {number + 1}")
    table.hold(parameters_of(layer).values())
    return layer


class StackAdapter(TrunkAdapter):
    """Its own first head; states are those the heads read."""

    def __init__(
        self, definition: StackDefinition, opened: OpenTrunk, heads: Sequence[StackHead]
    ) -> None:
        super().__init__(opened.trunk, opened.make_caches)
        self._definition = definition
        self._first = heads[0]
        self.later_heads = tuple(heads[1:])
        self.mtp_depth = len(heads)
        self.mtp_output = self._first.mtp_output
        token = mx.zeros((1, 1), dtype=mx.int32)
        state = self.forward(token, self.make_caches())
        for head in heads:  # shapes only
            head.mtp_logits(head.mtp_forward(token, state, head.make_head_caches()))

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> the hidden states the heads read [1, T, H]."""
        residual = self.trunk.residual(tokens, caches)
        return self.trunk.norm(residual) if self._definition.trunk_state == "normed" else residual

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V]."""
        is_normed = self._definition.trunk_state == "normed"
        normed = hidden if is_normed else self.trunk.norm(hidden)
        return self.trunk.output(normed).astype(mx.float32)

    def make_head_caches(self) -> LayerCaches:
        """Those of the first head."""
        return self._first.make_head_caches()

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """By the first head."""
        return self._first.mtp_forward(tokens, hidden, caches)

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """The first head's states -> float32 logits."""
        return self._first.mtp_logits(hidden, output)
