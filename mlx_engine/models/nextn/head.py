"""A NextN head: what joins token and hidden state, and one decoder layer of the trunk's class."""

from collections.abc import Mapping

import mlx.core as mx

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.config_fields import ConfigFields
from mlx_engine.models.layers import Embedding, Linear, Norm
from mlx_engine.models.mlx_lm_trunk.one_layer import open_layer
from mlx_engine.models.mlx_lm_trunk.text_config import flat_config
from mlx_engine.models.nextn.definition import HeadDefinition
from mlx_engine.models.nextn.head_names import HEAD
from mlx_engine.models.weights import WeightTable


class NextnHead:
    """The first head of a model; `embedding` and `output` None where it has none of its own."""

    def __init__(
        self, definition: HeadDefinition, config: Mapping[str, object], table: WeightTable
    ) -> None:
        flat = flat_config(definition.model_type, config, table.origin)
        fields = ConfigFields(flat, table.origin)
        hidden, eps = fields.count("hidden_size"), fields.number("rms_norm_eps", 1e-6)
        vocabulary = fields.count("vocab_size")
        self._is_embedding_first = definition.is_embedding_first
        self._embedding_norm = Norm.take(table, f"{HEAD}.enorm", hidden, eps)
        self._hidden_norm = Norm.take(table, f"{HEAD}.hnorm", hidden, eps)
        self._join = Linear.take(table, f"{HEAD}.eh_proj", hidden, 2 * hidden)
        self.norm = Norm.take(table, f"{HEAD}.shared_head.norm", hidden, eps)
        self.embedding = _own_embedding(table, vocabulary, hidden)
        self.output = _own_output(table, vocabulary, hidden)
        opened = open_layer(definition.model_type, flat, table, HEAD)
        self._layer = opened.trunk
        self.make_caches = opened.make_caches

    def __call__(self, embedded: mx.array, hidden: mx.array, caches: LayerCaches) -> mx.array:
        """Embeddings and hidden states [1, T, H] -> states before the head's norm [1, T, H]."""
        both = [self._embedding_norm(embedded), self._hidden_norm(hidden)]
        ordered = both if self._is_embedding_first else both[::-1]
        return self._layer.residual(self._join(mx.concatenate(ordered, axis=-1)), caches)


def _own_embedding(table: WeightTable, vocabulary: int, hidden: int) -> Embedding | None:
    name = f"{HEAD}.embed_tokens"
    if f"{name}.weight" not in table:
        return None
    matrix = table.take_matrix(name, vocabulary, hidden)
    return Embedding(matrix, matrix.dtype)


def _own_output(table: WeightTable, vocabulary: int, hidden: int) -> Linear | None:
    name = f"{HEAD}.shared_head.head"
    return Linear.take(table, name, vocabulary, hidden) if f"{name}.weight" in table else None
