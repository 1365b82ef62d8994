"""Sizes of layer caches, and why some are kept in 16 bits only."""

from collections.abc import Iterable
from typing import NamedTuple

from mlx_engine.values.errors import Reason
from mlx_engine.values.memory_plan import WINDOW_SLACK, WINDOW_STEP, CacheBytes
from mlx_engine.values.words import Words

LEAST_GROUP = 32
"""Elements of a packed row that share a scale, at least."""

STATE_BYTES = 4
"""Of an element of a recurrent state, always float32."""


class CacheSize(NamedTuple):
    """Numbers of elements that caches hold.

    values: of keys and values, for each token; groups: those of them that share a scale in 8 and 4
    bits. window_values, window_groups: the same of windows that are full. slack_values: of the rows
    that windows have beside those in view. kept_elements: of the rows that convolutions keep,
    stored in the same type. state_elements: of recurrent states, float32.
    """

    values: int = 0
    groups: int = 0
    window_values: int = 0
    window_groups: int = 0
    slack_values: int = 0
    kept_elements: int = 0
    state_elements: int = 0

    def in_bytes(self, element: int) -> CacheBytes:
        """The same size in bytes, for elements of keys and values of `item` bytes."""
        states = self.state_elements * STATE_BYTES + self.kept_elements * element
        windows = (self.window_values, self.window_groups, self.slack_values)
        return CacheBytes(element, self.values, self.groups, *windows, states)


def sum_of_sizes(sizes: Iterable[CacheSize]) -> CacheSize:
    """The sum of cache sizes."""
    return CacheSize(*map(sum, zip(CacheSize(), *sizes, strict=True)))


def key_value_size(heads: int, key_dim: int, value_dim: int, window: int | None) -> CacheSize:
    """Size of a layer's keys and values, for all tokens or for a window."""
    sizes = (key_dim, value_dim)
    each = heads * sum(sizes)
    groups = each // (64 if all(size % 64 == 0 for size in sizes) else LEAST_GROUP)
    if window is None:
        return CacheSize(each, groups)
    slack = (WINDOW_STEP + WINDOW_SLACK) * each
    return CacheSize(0, 0, window * each, window * groups, slack)


def why_not_packed(*sizes: int) -> Reason | None:
    """Why keys or values of heads of these sizes cannot be kept in 8 or 4 bits."""
    odd = next((size for size in sizes if size % LEAST_GROUP), None)
    if odd is None:
        return None
    return Reason(
        "cache-head-size",
        Words(
            "Keys and values stay in 16 bits: the head size {odd} is not a multiple of "
            "{least}, the group size of 8 and 4 bits.",
            odd=odd,
            least=LEAST_GROUP,
        ),
    )
