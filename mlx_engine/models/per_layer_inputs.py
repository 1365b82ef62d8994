"""Per-layer inputs: a small vector of each token for each layer (Gemma 3n, Gemma 4)."""

import math

import mlx.core as mx

from mlx_engine.models import specs
from mlx_engine.models.layer_specs import FeedForward
from mlx_engine.models.layers import Embedding, Linear, Norm, gate_of
from mlx_engine.models.weights import Part


class PerLayerEmbedding:
    """The vectors of all layers, from the tokens and from their embeddings."""

    def __init__(
        self, spec: specs.ModelSpec, inputs: specs.PerLayerInputs, part: Part, dtype: mx.Dtype
    ) -> None:
        matrix, scale = part.matrix("embed_tokens_per_layer"), math.sqrt(inputs.width)
        self._rows = Embedding(matrix, dtype, scale, part.kernels.stock)
        self._projection = Linear.read(part, "per_layer_model_projection")
        self._norm = Norm.read(part, "per_layer_projection_norm", spec.eps)
        self._scale = spec.hidden**-0.5
        self._width = inputs.width

    def __call__(self, tokens: mx.array, embedded: mx.array) -> mx.array:
        """Int tokens [1, T] and their embeddings [1, T, H] -> [1, T, layers, width]."""
        projected = self._projection(embedded) * self._scale
        normed = self._norm(projected.reshape(*tokens.shape, -1, self._width))
        return (normed + self._rows(tokens).reshape(normed.shape)) * math.sqrt(0.5)


class PerLayerInput:
    """What a layer adds to the residual, gated by the layer's own vectors."""

    def __init__(self, block: specs.Block, part: Part, norm: Norm) -> None:
        assert isinstance(block.feed, FeedForward)
        self._gate = Linear.read(part, "per_layer_input_gate")
        self._projection = Linear.read(part, "per_layer_projection")
        self._join = gate_of(block.feed, part.kernels.stock)
        self._norm = norm

    def __call__(self, x: mx.array, vectors: mx.array) -> mx.array:
        """Residual [1, T, H] and vectors [1, T, width] -> [1, T, H]."""
        return self._norm(self._projection(self._join(self._gate(x), vectors)))
