"""An mlx-lm model taken apart: embedding, layers, final norm, output head."""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Identity

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.layers import Linear
from mlx_engine.models.matrix import Matrix
from mlx_engine.models.mlx_lm_trunk.caches import as_the_class_has_them


@dataclass(frozen=True, slots=True)
class Trunk:
    """The parts of a model of a STRUCTURED type, each on its own.

    embed: int tokens [1, T] -> [1, T, H], before any scaling the layers begin with. norm: the final
    norm. output: normed hidden states -> logits [1, T, V], in the model's element type.
    output_matrix: what `output` multiplies by.
    """

    layers: Module
    embed: Callable[[mx.array], mx.array]
    norm: Callable[[mx.array], mx.array]
    output: Callable[[mx.array], mx.array]
    output_matrix: Linear

    def residual(self, tokens: mx.array, caches: LayerCaches) -> mx.array:
        """Int tokens [1, T] -> hidden states BEFORE the final norm [1, T, H]."""
        rows = tokens.shape[1]
        hidden: mx.array = self.layers(tokens, as_the_class_has_them(caches, rows))
        return hidden


def take_apart(model: Module) -> Trunk:
    """The parts of a built model, whose final norm is taken out so that both its sides are ours.

    All classes of STRUCTURED types are alike in this: `model.model(tokens, caches)` embeds, runs
    the layers and ends with `model.model.norm`; the output head is `lm_head`, or the embedding
    where there is none.
    """
    inner = model["model"]
    embedding, norm = inner["embed_tokens"], inner["norm"]
    output = model.get("lm_head", embedding.as_linear)
    inner.norm = Identity()
    return Trunk(inner, embedding, norm, output, _matrix_of(model.get("lm_head", embedding)))


def _matrix_of(leaf: Module) -> Linear:
    """The weights of a leaf, dense or packed."""
    weight, scales = leaf["weight"], leaf.get("scales")
    if scales is None:
        return Linear(Matrix(weight, None, None, 0, weight.dtype.size * 8, "dense"))
    biases = leaf.get("biases")
    return Linear(Matrix(weight, scales, biases, leaf.group_size, leaf.bits, leaf.mode))
