"""mlx-lm's trunk with a NextN head behind it, as one adapter."""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.contract import Adapter
from mlx_engine.models.layers import Linear
from mlx_engine.models.mlx_lm_trunk.adapters import TrunkAdapter
from mlx_engine.models.mlx_lm_trunk.make_adapter import OpenTrunk, open_trunk, tried
from mlx_engine.models.nextn.definition import HeadDefinition
from mlx_engine.models.nextn.head import NextnHead
from mlx_engine.models.weights import WeightTable


def build_nextn(
    definition: HeadDefinition,
    config: Mapping[str, object],
    trunk: WeightTable,
    head: WeightTable | None,
) -> Adapter:
    """The model; BadModelFile when a tensor is missing, misshapen or left over."""
    opened = open_trunk(definition.model_type, config, trunk)
    if head is None:
        return tried(lambda: TrunkAdapter(opened.trunk, opened.make_caches), trunk.origin)
    built = NextnHead(definition, config, head)
    return tried(lambda: NextnAdapter(definition, opened, built), trunk.origin)


class NextnAdapter(TrunkAdapter):
    """States are those its head reads: of the trunk, and of the head for the next draft."""

    mtp_depth = 1

    def __init__(self, definition: HeadDefinition, opened: OpenTrunk, head: NextnHead) -> None:
        super().__init__(opened.trunk, opened.make_caches)
        self._definition = definition
        self._head = head
        self.mtp_output: Linear = head.output or self.trunk.output_matrix
        self._embed = head.embedding or self.trunk.embed
        token = mx.zeros((1, 1), dtype=mx.int32)
        state = self.forward(token, self.make_caches())
        self.mtp_logits(self.mtp_forward(token, state, self.make_head_caches()))  # shapes only

    def make_head_caches(self) -> LayerCaches:
        """Empty caches for the head's one layer."""
        return self._head.make_caches()

    def forward(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> the hidden states the head reads [1, T, H]."""
        residual = self.trunk.residual(tokens, caches)
        return self.trunk.norm(residual) if self._definition.trunk_state == "normed" else residual

    def logits(self, hidden: mx.array) -> mx.array:
        """Hidden [1, T, H] -> float32 logits [1, T, V]."""
        is_normed = self._definition.trunk_state == "normed"
        normed = hidden if is_normed else self.trunk.norm(hidden)
        return self.trunk.output(normed).astype(mx.float32)

    def mtp_forward(self, tokens: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Tokens [1, T] and the hidden states before them [1, T, H] -> the head's states."""
        states = self._head(self._embed(tokens), hidden, caches)
        return self._head.norm(states) if self._definition.chain_state == "normed" else states

    def mtp_logits(self, hidden: mx.array, output: Linear | None = None) -> mx.array:
        """The head's states through its output head or another, float32 [1, T, rows of it]."""
        is_normed = self._definition.chain_state == "normed"
        normed = hidden if is_normed else self._head.norm(hidden)
        return (output or self.mtp_output)(normed).astype(mx.float32)
