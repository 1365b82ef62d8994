"""Checks that everything that follows a conversation stands at one place."""

from mlx_engine.cache.contract import LayerCaches
from mlx_engine.decoding.state import SequenceState


def assert_layers_in_step(caches: LayerCaches) -> None:
    lengths = {layer.length for layer in caches.layers}
    assert len(lengths) == 1, f"layers stand after {sorted(lengths)} tokens"


def assert_in_step(sequence: SequenceState) -> None:
    assert_layers_in_step(sequence.caches)
    lengths = {len(sequence.tokens), sequence.caches.length, sequence.drafter.length}
    assert len(lengths) == 1, f"tokens, caches and source stand at {sorted(lengths)}"
