"""Whole passes and rounds of a model: pieces in order, for MLX's kernels and for ours.

"Ours" is every kernel of this package in its place, fused ones included. Counts of small launches
are those of the layers as mlx-lm writes them; they barely overlap, as each waits for the last.
"""

from functools import cache
from typing import NamedTuple, Protocol

from speed.round_model import mixers, products
from speed.round_model.chip_figures import ChipFigures
from speed.round_model.products import Product
from speed.round_model.shapes import Experts, Heads, Shape, States
from speed.round_model.work import Total, Work, launches, total


class Launches(NamedTuple):
    """Small launches beside products, mixers and experts: norms, joins, rotations, gates,
    additions, and a layer's further projections of the same rows.
    """

    attention: int
    states: int
    feed_forward: int
    experts: int
    output: int


STOCK_LAUNCHES = Launches(attention=14, states=18, feed_forward=4, experts=13, output=8)
OUR_LAUNCHES = Launches(attention=13, states=7, feed_forward=1, experts=11, output=2)
"""Additions, convolution, norms and gates of a delta layer, gate and up, and the choice fused."""


class Kernels(Protocol):
    """What does the pieces."""

    @property
    def small(self) -> Launches:
        """What else is launched."""

    def product(self, product: Product, rows: int) -> Work:
        """Weights times rows."""

    def experts(self, product: Product, experts: Experts, rows: int) -> Work:
        """Chosen experts' weights times rows."""

    def attention(self, heads: Heads, rows: int, keys: int) -> Work:
        """Over a cache of so many keys."""

    def delta(self, states: States, rows: int) -> Work:
        """The delta rule."""


class Stock(NamedTuple):
    """MLX's kernels, on a chip."""

    chip: ChipFigures
    small: Launches = STOCK_LAUNCHES

    def product(self, product: Product, rows: int) -> Work:
        """As quantized_matmul."""
        return products.stock_product(product, rows, self.chip)

    def experts(self, product: Product, experts: Experts, rows: int) -> Work:
        """As gather_qmm."""
        return products.stock_experts(product, experts.top, rows)

    def attention(self, heads: Heads, rows: int, keys: int) -> Work:
        """As scaled_dot_product_attention."""
        return mixers.stock_attention(heads, rows, keys)

    def delta(self, states: States, rows: int) -> Work:
        """As gated_delta_update."""
        return mixers.stock_delta(states, rows)


class Ours(NamedTuple):
    """Our kernels, which are the same on every chip."""

    small: Launches = OUR_LAUNCHES

    def product(self, product: Product, rows: int) -> Work:
        """As few_row_matvec."""
        return products.our_product(product, rows)

    def experts(self, product: Product, experts: Experts, rows: int) -> Work:
        """As expert_union_matvec."""
        return products.our_experts(product, experts.total, experts.top, rows)

    def attention(self, heads: Heads, rows: int, keys: int) -> Work:
        """As few_query_attention."""
        return mixers.our_attention(heads, rows, keys)

    def delta(self, states: States, rows: int) -> Work:
        """As gated_delta_block."""
        return mixers.our_delta(states, rows)


class Place(NamedTuple):
    """A pass of `rows` behind `keys` tokens, of weights of `bits`."""

    rows: int
    keys: int = 4096
    bits: float = 4


def verify(shape: Shape, kernels: Kernels, chip: ChipFigures, place: Place) -> Total:
    """One pass of the model with the choice of a token for every row."""
    pieces = [piece for n in range(shape.layers) for piece in layer(shape, kernels, n, place)]
    return total(pieces + _output(shape, kernels, place), chip)


def draft(shape: Shape, kernels: Kernels, chip: ChipFigures, place: Place) -> Total:
    """One row of an MTP head: the join, a layer like the model's last, the output head."""
    one = place._replace(rows=1)
    join = kernels.product(Product(shape.hidden, 2 * shape.hidden, place.bits), 1)
    pieces = [join, *layer(shape, kernels, shape.layers - 1, one), *_output(shape, kernels, one)]
    return total(pieces, chip)


def layer(shape: Shape, kernels: Kernels, number: int, place: Place) -> list[Work]:
    """The pieces of layer `number`, counted from 0."""
    states = shape.states if (number + 1) % shape.every else None
    experts = shape.experts if number >= shape.dense_layers else None
    return _layer(shape, kernels, states, experts, place)


@cache
def _layer(
    shape: Shape, kernels: Kernels, states: States | None, experts: Experts | None, place: Place
) -> list[Work]:
    """Of attention where it has no states, dense where it has no experts."""
    if states is not None:
        mixed = _states(shape, states, kernels, place)
    else:
        mixed = _attention(shape, kernels, place)
    if experts is not None:
        return mixed + _experts(shape, experts, kernels, place)
    wide = shape.feed_forward
    return [
        *mixed,
        kernels.product(Product(2 * wide, shape.hidden, place.bits), place.rows),
        kernels.product(Product(shape.hidden, wide, place.bits), place.rows),
        launches(kernels.small.feed_forward),
    ]


def _attention(shape: Shape, kernels: Kernels, place: Place) -> list[Work]:
    heads, hidden = shape.heads, shape.hidden
    queries = heads.queries * heads.size
    into = queries * (2 if heads.is_gated else 1) + 2 * heads.keys * heads.size
    return [
        kernels.product(Product(into, hidden, place.bits), place.rows),
        kernels.attention(heads, place.rows, place.keys),
        kernels.product(Product(hidden, queries, place.bits), place.rows),
        launches(kernels.small.attention),
    ]


def _states(shape: Shape, states: States, kernels: Kernels, place: Place) -> list[Work]:
    values = states.values * states.size
    into = states.channels + values + 2 * states.values
    return [
        kernels.product(Product(into, shape.hidden, place.bits), place.rows),
        kernels.delta(states, place.rows),
        kernels.product(Product(shape.hidden, values, place.bits), place.rows),
        launches(kernels.small.states),
    ]


def _experts(shape: Shape, experts: Experts, kernels: Kernels, place: Place) -> list[Work]:
    wide, hidden = experts.width, shape.hidden
    into, out = Product(2 * wide, hidden, place.bits), Product(hidden, wide, place.bits)
    return [
        kernels.product(Product(experts.total, hidden, 8), place.rows),
        kernels.experts(into, experts, place.rows),
        kernels.experts(out, experts, place.rows),
        kernels.product(into, place.rows),
        kernels.product(out, place.rows),
        launches(kernels.small.experts),
    ]


def _output(shape: Shape, kernels: Kernels, place: Place) -> list[Work]:
    head = Product(shape.vocabulary, shape.hidden, place.bits)
    return [kernels.product(head, place.rows), launches(kernels.small.output)]
