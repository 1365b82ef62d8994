"""Residuals between the layers of an mlx-lm model, listened to at the norms that read them."""

from collections.abc import Callable, Sequence

import mlx.core as mx
from mlx.nn.layers.base import Module

from mlx_engine.cache.layer_caches import LayerCaches
from mlx_engine.models.mlx_lm_trunk.adapters import TrunkAdapter
from mlx_engine.values.errors import UnsupportedModel


class Ear:
    """What all taps of one model hear: residuals by the layer they come from; None: not listening.

    Nothing is kept between passes, so that no residual outlives its use.
    """

    def __init__(self) -> None:
        self.heard: dict[int, mx.array] | None = None


class Tap(Module):
    """A norm that tells an ear what it is given: the residual after `layer`."""

    def __init__(self, norm: Module, layer: int, ear: Ear) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.norm = norm
        self._layer = layer
        self._ear = ear

    def __call__(self, x: mx.array) -> mx.array:
        """As the norm."""
        if self._ear.heard is not None:
            self._ear.heard[self._layer] = x
        normed: mx.array = self.norm(x)
        return normed


def tapped_forward(
    adapter: TrunkAdapter, after: Sequence[int]
) -> Callable[[mx.array, LayerCaches], mx.array]:
    """A forward that gives hidden states and the residuals after these layers, [1, T, H + n H].

    Every class of the STRUCTURED types begins a layer with `input_layernorm` on the residual; the
    model is ours, so its norms are exchanged in place. -1 is the embedding. UnsupportedModel where
    a class names that norm otherwise.
    """
    ear = Ear()
    for layer in set(after):
        _tap(adapter.trunk.layers, layer, ear)

    def forward(tokens: mx.array, caches: LayerCaches) -> mx.array:
        heard = ear.heard = {}
        try:
            hidden = adapter.forward(tokens, caches)
        finally:
            ear.heard = None
        return mx.concatenate([hidden, *(heard[layer] for layer in after)], axis=-1)

    return forward


def _tap(inner: Module, layer: int, ear: Ear) -> None:
    layers = inner["layers"]
    if layer == len(layers) - 1:
        inner.norm = Tap(inner["norm"], layer, ear)
        return
    following = layers[layer + 1]
    if "input_layernorm" not in following:
        raise UnsupportedModel(
            "Layers of this architecture cannot be looked into yet, so no draft model that reads "
            "them can be used. Draft with a small model or prompt lookup."
        )
    following.input_layernorm = Tap(following["input_layernorm"], layer, ear)
