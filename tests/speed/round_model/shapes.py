"""Published language models as the matrices, heads and states that a pass reads."""

from typing import NamedTuple


class Heads(NamedTuple):
    """Of an attention layer; is_gated: the query's matrix also makes a gate of the same size."""

    queries: int
    keys: int
    size: int
    is_gated: bool


class States(NamedTuple):
    """Of a Gated DeltaNet layer: heads of keys and of values, both of `size`."""

    keys: int
    values: int
    size: int

    @property
    def channels(self) -> int:
        """Of the convolution."""
        return (2 * self.keys + self.values) * self.size

    @property
    def elements(self) -> int:
        """Of the state of one layer."""
        return self.values * self.size**2


class Experts(NamedTuple):
    """total of them, top: how many a row takes, width of each; one more serves every row."""

    total: int
    top: int
    width: int


class Shape(NamedTuple):
    """A model. every: an attention layer each so many layers, the others have states.

    dense_layers: layers without experts, where it has any at all.
    """

    name: str
    hidden: int
    layers: int
    feed_forward: int
    vocabulary: int
    heads: Heads
    every: int = 1
    states: States | None = None
    experts: Experts | None = None
    dense_layers: int = 0


# The configs of Qwen3.5 and Qwen3.6 (huggingface.co/Qwen) and of GLM-4.5-Air (zai-org).
SHAPES = (
    Shape(
        *("Qwen3.5-4B", 2560, 32, 9216, 248320),
        Heads(16, 4, 256, is_gated=True),
        4,
        States(16, 32, 128),
    ),
    Shape(
        *("Qwen3.5-9B", 4096, 32, 12288, 248320),
        Heads(16, 4, 256, is_gated=True),
        4,
        States(16, 32, 128),
    ),
    Shape(
        *("Qwen3.6-27B", 5120, 64, 17408, 248320),
        Heads(24, 4, 256, is_gated=True),
        4,
        States(16, 48, 128),
    ),
    Shape(
        *("Qwen3.6-35B-A3B", 2048, 40, 0, 248320),
        Heads(16, 2, 256, is_gated=True),
        4,
        States(16, 32, 128),
        Experts(256, 8, 512),
    ),
    Shape(
        *("GLM-4.5-Air", 4096, 46, 10944, 151552),
        Heads(96, 8, 128, is_gated=False),
        experts=Experts(128, 8, 1408),
        dense_layers=1,
    ),
)

LLAMA_70B = Shape("Llama 70B", 8192, 80, 28672, 128256, Heads(64, 8, 128, is_gated=False))
"""What PR 3791 measured a whole pass of."""


def shape_named(name: str) -> Shape:
    """Of a name in the table. Raises KeyError."""
    return {shape.name: shape for shape in SHAPES}[name]
